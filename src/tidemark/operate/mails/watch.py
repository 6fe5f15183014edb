"""Sends the reports of the settings when their time has come and the lines of the period are in the tables.

A report is recorded as being sent, sent, and then recorded as sent. If a kill comes between the last two, the next
start sends it again, and it says so.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tidemark.errors import TidemarkError, first_line
from tidemark.figures import periods
from tidemark.figures.periods import Period
from tidemark.home import Home
from tidemark.operate.alerts.delivery import targets_of
from tidemark.operate.mails.record import FAILED, SENDING, SENT, Sending, record, recorded
from tidemark.operate.mails.sending import Mail, mail_of, send, zone_of
from tidemark.operate.moment import Moment, Moments
from tidemark.settings.mails import Mailing
from tidemark.stream.crash import crash_point

log = logging.getLogger("tidemark.operate.mails")

_FIRST_RETRY_SECONDS = 30.0
_LAST_RETRY_SECONDS = 1800.0
# A report that no target takes is given up so long after it was due.
_GIVEN_UP = timedelta(days=1)


@dataclass
class _Attempt:
    """The delivery of a period: what is recorded, the report once it is made, and when (monotonic) to try next."""

    period: Period
    row: Sending
    repeated: bool
    mail: Mail | None = None
    failed: int = 0
    next: float = 0.0


class Mails:
    """The state of sending in one process. `clock` and `moments` are those of the pipeline."""

    def __init__(
        self,
        home: Home,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        look: Callable[[], Moment | None] | None = None,
    ) -> None:
        self._settings = home.settings
        self._store = home.store
        self._clock = clock
        self._moment = look or Moments(home).look
        # By report: the period that needs nothing more, and the one that is being sent.
        self._done: dict[str, str] = {}
        self._attempts: dict[str, _Attempt] = {}

    def look(self) -> str:
        """Sends what is due. Returns why reports still wait, empty if none does. Raises KafkaError and TableError."""
        due = {name: each for name in self._settings.reports if (each := self._due(name)) is not None}
        if not due:
            return ""
        waiting = [each for each in due.values() if each.mail is None]
        moment = self._moment() if waiting else None
        problems = []
        for name, attempt in due.items():
            if attempt.mail is None and (moment is None or not self._is_in(name, attempt.period, moment)):
                continue
            if problem := self._try(name, attempt):
                problems.append(problem)
        return "; ".join(problems)

    def _due(self, name: str) -> _Attempt | None:
        """The delivery of a report's latest period; None if it is done, or not yet to be tried again."""
        mailing = self._settings.reports[name]
        period = periods.latest(mailing.period, mailing.time, zone_of(self._settings, mailing), self._clock())
        if self._done.get(name) == period.key:
            return None
        attempt = self._attempts.get(name)
        if attempt is None or attempt.period != period:
            rows = recorded(self._store, name)
            same = next((row for row in rows if row.period == period.key), None)
            # A period that is no later than one already sent: the clock was set back, or the report is of other days.
            over = any(row.state != SENDING and row.period_end >= period.end for row in rows)
            if over:
                self._done[name] = period.key
                return None
            row = same or Sending.of(name, mailing.site, period)
            attempt = self._attempts[name] = _Attempt(period, row, repeated=_unsure(same))
        return attempt if time.monotonic() >= attempt.next else None

    def _is_in(self, name: str, period: Period, moment: Moment) -> bool:
        """Whether the tables have all lines of a period. None before the first line."""
        site = self._settings.reports[name].site
        spans = [span for each, span in moment.sites.items() if site in ("", each)]
        if spans and all(span.first >= period.end for span in spans):
            self._done[name] = period.key
            return False
        return all(span.reached >= period.end for span in spans)

    def _try(self, name: str, attempt: _Attempt) -> str:
        """Sends to the targets that do not have the report. Returns why it still waits."""
        mailing = self._settings.reports[name]
        if self._clock() - attempt.period.due(mailing.time) > _GIVEN_UP and attempt.failed:
            self._finish(name, replace(attempt.row, state=FAILED))
            return ""
        try:
            problem = self._sent(name, mailing, attempt)
        except TidemarkError as error:
            problem = first_line(error)
        if problem:
            pause = min(_FIRST_RETRY_SECONDS * 2 ** min(attempt.failed, 10), _LAST_RETRY_SECONDS)
            attempt.failed, attempt.next = attempt.failed + 1, time.monotonic() + pause
            if problem != attempt.row.failure:
                log.warning("report %s is not sent yet: %s", name, problem)
                if attempt.row.attempts:
                    attempt.row = record(self._settings, self._store, replace(attempt.row, failure=problem))
        return problem

    def _sent(self, name: str, mailing: Mailing, attempt: _Attempt) -> str:
        if attempt.mail is None:
            attempt.mail = mail_of(
                self._settings, self._store, name, mailing, attempt.period, repeated=attempt.repeated
            )
        mail = attempt.mail
        reached = [each for each in attempt.row.sent_to.split(", ") if each]
        attempt.row = record(
            self._settings,
            self._store,
            replace(attempt.row, attempts=attempt.row.attempts + 1, failure=None),
        )
        failed: list[str] = []
        for label, target in targets_of(mailing.to, self._settings, os.environ).items():
            if label not in reached:
                (reached if send(target, mail) else failed).append(label)
        crash_point("reports:sent")
        row = replace(attempt.row, sent_to=", ".join(reached))
        if failed:
            attempt.row = row
            return f"{' and '.join(failed)} of report {name} did not take it"
        self._finish(name, replace(row, state=SENT, sent_at=datetime.now(UTC), failure=None))
        return ""

    def _finish(self, name: str, row: Sending) -> None:
        record(self._settings, self._store, row)
        self._done[name] = row.period
        del self._attempts[name]


def _unsure(row: Sending | None) -> bool:
    """Whether sending began, and it is not known how it ended."""
    return row is not None and row.attempts > 0 and row.failure is None

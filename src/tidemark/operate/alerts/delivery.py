"""Delivers messages about alerts, at least once: an alert is recorded as due, sent, and then recorded as delivered.

Notification URLs are secrets. They are in no log, error or row; a target is named by its number and its scheme.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tidemark.contract.quality_tables import ALERTS
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change
from tidemark.errors import PlatformError
from tidemark.operate.alerts.record import DELIVERED_WITHIN, ENDED, FIRING, WRITER, Alert, rows_of
from tidemark.settings import Settings
from tidemark.stream.crash import crash_point
from tidemark.stream.lock import appending

log = logging.getLogger("tidemark.operate.alerts")

_FIRST_RETRY_SECONDS = 5.0
_LAST_RETRY_SECONDS = 300.0
# The attributes in which the library's services keep a list of recipients.
_RECIPIENTS = ("targets", "channels", "topics", "rooms", "users", "groups", "devices", "phone")
# Evaluating waits no longer than this for targets that do not answer.
_MOST_SECONDS = 20.0


@dataclass(frozen=True)
class Message:
    """The message about an alert."""

    title: str
    body: str
    kind: str  # as Apprise names it: failure, success or info


@dataclass(frozen=True)
class Target:
    """A notification URL, or one of its recipients by its place: who has a message must not get it again because
    another one does not take it."""

    url: str
    recipients: str = ""  # The library's name of their list.
    place: int = 0

    def opened(self) -> Any:
        """The target as the library has it; None if the URL is none. Raises PlatformError without the library."""
        there = apprise_of().Apprise.instantiate(self.url)
        if self.recipients:
            setattr(there, self.recipients, [getattr(there, self.recipients)[self.place]])
        return there


@dataclass
class _Attempts:
    """The attempts to deliver one state of an alert: targets that have it, and when (monotonic) the next is."""

    state: str
    reached: set[Target] = field(default_factory=set)
    failed: int = 0
    due: float = 0.0


class Delivery:
    """Delivers what is due. Remembers attempts; after a restart all targets get a waiting message again."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._attempts: dict[tuple[str, str, datetime], _Attempts] = {}
        self._version = -1
        self._waiting = True

    def deliver(self) -> str:
        """Sends the messages that are due now. Returns why some still wait, empty if none does.

        Raises TableError for a table that cannot be read or written.
        """
        version = self._store.version(ALERTS)
        if version == self._version and not self._waiting:
            return ""
        rows = self._store.read(ALERTS, [[("due", "=", True)]]).to_pylist()
        troubles: list[str] = []
        until = time.monotonic() + _MOST_SECONDS
        due = sorted((Alert(**row) for row in rows), key=lambda each: each.window_start)
        while due and time.monotonic() < until:
            if trouble := self._deliver(due.pop(0)):
                troubles.append(trouble)
        self._version, self._waiting = self._store.version(ALERTS), bool(troubles or due)
        return "; ".join(dict.fromkeys(troubles))

    def _deliver(self, alert: Alert) -> str:
        rule, now = self._settings.alerts.get(alert.rule), datetime.now(UTC)
        if rule is None or (alert.ended_at or alert.window_end) < now - DELIVERED_WITHIN:
            why = "the rule was removed" if rule is None else "it was not delivered within a day"
            self._record(replace(alert, due=False, failure=why))
            return ""
        key = (alert.rule, alert.site, alert.window_start)
        attempts = self._attempts.get(key)
        if attempts is None or attempts.state != alert.state:
            attempts = self._attempts[key] = _Attempts(alert.state)
        if time.monotonic() < attempts.due:
            return alert.failure or ""
        targets = targets_of(rule.to, self._settings, os.environ)
        failed = [
            name
            for name, target in targets.items()
            if target not in attempts.reached and not self._reaches(attempts, target, message(alert))
        ]
        if failed:
            pause = _FIRST_RETRY_SECONDS * 2 ** min(attempts.failed, 10)
            attempts.failed, attempts.due = (
                attempts.failed + 1,
                time.monotonic() + min(pause, _LAST_RETRY_SECONDS),
            )
            why = f"{' and '.join(failed)} of alert {alert.rule} did not take the message"
            log.warning("%s, it is sent again", why, extra={"attempt": attempts.failed})
            if why != alert.failure:
                self._record(replace(alert, failure=why))
            return why
        crash_point("alerts:sent")
        attempted = replace(
            alert, delivered=alert.state, delivered_at=datetime.now(UTC), delivered_to=", ".join(targets)
        )
        self._record(replace(attempted, due=False, failure=None))
        del self._attempts[key]
        return ""

    def _reaches(self, attempts: _Attempts, target: Target, about: Message) -> bool:
        if send(target, about):
            attempts.reached.add(target)
            return True
        return False

    def _record(self, alert: Alert) -> None:
        with appending(self._settings):
            commit = Commit(WRITER, self._store.committed(ALERTS, WRITER) + 1)
            changed = replace(alert, updated_at=datetime.now(UTC))
            self._store.upsert(ALERTS, Change(rows_of([changed])), commit)


def targets_of(to: Sequence[str], settings: Settings, environment: Mapping[str, str]) -> dict[str, Target]:
    """The targets of `to` of a rule or a report, else those of the settings, by names that are no secrets.
    Raises PlatformError without the library."""
    given = to or settings.watching.alert_to.split()
    urls: list[str] = []
    for each in given:
        # Without the variable, its name is no URL, and the delivery fails.
        urls += environment.get(each[1:], each).split() if each.startswith("$") else [each]
    targets = [target for url in urls for target in _recipients(url)]
    return {f"target {number} ({_scheme(each.url)})": each for number, each in enumerate(targets, start=1)}


def _recipients(url: str) -> list[Target]:
    there = Target(url).opened()
    for name in _RECIPIENTS:
        several = getattr(there, name, None)
        # Beside another list than the usual one, a service may have recipients of another kind, which it also counts.
        if (
            isinstance(several, list)
            and len(several) > 1
            and (name == "targets" or len(there) == len(several))
        ):
            return [Target(url, name, place) for place in range(len(several))]
    return [Target(url)]


def send(target: Target, about: Message) -> bool:
    """Sends a message. False if the target did not take it, or its URL is none. Raises PlatformError without the
    library."""
    there, sender = target.opened(), apprise_of().Apprise()
    return bool(
        there
        and sender.add(there)
        and sender.notify(title=about.title, body=about.body, notify_type=about.kind)
    )


def apprise_of() -> Any:
    """The library. Raises PlatformError without it."""
    try:
        import apprise  # takes a while to import, and only alerts and reports need it
    except ImportError as error:
        raise PlatformError(
            "alerts and reports cannot be delivered: apprise is missing", "Install `tidemark[alerts]`."
        ) from error
    logging.getLogger("apprise").disabled = True  # its lines have addresses, which may hold secrets
    return apprise


def message(alert: Alert) -> Message:
    """The message about the present state of an alert."""
    start, end = (f"{time:%Y-%m-%d %H:%M}" for time in (alert.window_start, alert.window_end))
    lines = [
        f"Rule: {alert.rule} ({alert.about})",
        f"Site: {alert.site}",
        f"Window: {start} to {end} UTC",
        f"Value: {alert.value:.6g}, bound: {alert.bound:.6g}",
    ]
    if alert.late:
        lines.append("Late lines raised it, after the window had been evaluated.")
    title, kind = f"Alert {alert.rule}: {alert.site}", "failure"
    if alert.state == ENDED:
        # A target that did not get the start gets both.
        title = f"Ended: alert {alert.rule}: {alert.site}" if alert.delivered else f"{title}, ended"
        kind = "success"
        lines.append(f"Ended: {alert.ended_at:%Y-%m-%d %H:%M} UTC")
    elif alert.state != FIRING:
        title, kind = f"Withdrawn: alert {alert.rule}: {alert.site}", "info"
        lines.append("Withdrawn: with the lines that came later, the rule does not fire for this window.")
    lines.append(f"Look: tidemark alerts --rule {alert.rule} --site {alert.site}")
    return Message(title, "\n".join(lines), kind)


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return scheme if separator and scheme.isalnum() else "unknown"


def trial(rules: Sequence[str]) -> Message:
    """The message by which a target is tried."""
    return Message("Test of Tidemark's alerts", f"This target gets the alerts {', '.join(rules)}.", "info")

"""Evaluates alert rules as windows pass, and delivers what is due."""

from __future__ import annotations

import time
from functools import partial

from tidemark.figures.alert_rules import window_of
from tidemark.home import Home
from tidemark.operate.alerts.delivery import Delivery
from tidemark.operate.alerts.evaluator import Evaluator
from tidemark.operate.moment import Moment, Moments
from tidemark.operate.retention import kept_from

# Late lines are evaluated at least so often, windows as soon as they have passed.
_LATE_SECONDS = 30.0
# An evaluation of many windows is followed by a pause of this multiple of its duration.
_PAUSES = 10


class Watch:
    """The state of evaluating and delivering in one process."""

    def __init__(self, home: Home) -> None:
        self._settings = home.settings
        kept = partial(kept_from, home)
        self._evaluator = Evaluator(home.settings, home.store, home.graph.by_name, kept)
        self._moments = Moments(home)
        self._delivery = Delivery(home.settings, home.store)
        self._passed: dict[tuple[str, str], int] = {}
        self._next = 0.0

    def look(self) -> str:
        """Evaluates windows that have passed since the last call, and delivers what is due. Returns why messages
        wait; empty if none does.

        Raises KafkaError and TableError.
        """
        moment = self._moments.look()
        if moment is not None and (self._has_passed(moment) or time.monotonic() >= self._next):
            started = time.monotonic()
            self._evaluator.evaluate(moment)
            took = time.monotonic() - started
            self._next = time.monotonic() + max(_LATE_SECONDS, _PAUSES * took)
        return self._delivery.deliver()

    def _has_passed(self, moment: Moment) -> bool:
        """Whether a window of a rule has passed since the last call."""
        before = self._passed
        self._passed = {
            (name, site): window_of(span.reached, rule.seconds)
            for name, rule in self._settings.alerts.items()
            for site, span in moment.sites.items()
            if rule.site in ("", site)
        }
        return self._passed != before

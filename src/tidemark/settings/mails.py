"""The tables `[reports.NAME]` of `tidemark.toml`: reports that are sent by mail and chat."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import time
from typing import Any, cast

from tidemark.errors import SettingError
from tidemark.figures.periods import EVERY, Every
from tidemark.figures.selection import Filter, SelectionError, filters_of
from tidemark.figures.toml_tables import tables_of


@dataclass(frozen=True)
class Mailing:
    """`site`: the site that the report is about; empty: all sites together. `every`: day, week (from Monday) or month
    of the site's time zone. `at`: the time of day, in that zone, from which the report of the period that is over is
    sent. `filter`: conditions on requests in their text form, all of which must hold.

    `to`: notification URLs (https://appriseit.com/services/), or `$NAME` for some in an environment variable of the
    pipeline; if empty, those of the setting `alert_to`.
    """

    site: str = ""
    every: str = "week"
    at: str = "08:00"
    to: tuple[str, ...] = field(default=(), repr=False)
    filter: tuple[str, ...] = ()

    @property
    def period(self) -> Every:
        return cast("Every", self.every)

    @property
    def time(self) -> time:
        return time.fromisoformat(self.at)

    @property
    def filters(self) -> tuple[Filter, ...]:
        return filters_of(self.filter)


def mailings_of(tables: Any, source: str) -> dict[str, Mailing]:
    """The tables `[reports.NAME]` of a file. Raises SettingError."""
    mailings = {}
    for name, values in tables_of("reports", tables, Mailing, source).items():
        mailings[name] = mailing = Mailing(**values)
        for problem, remedy in _problems(mailing):
            raise SettingError(f"{source}: {problem} of report {name}", remedy)
    return mailings


def _problems(mailing: Mailing) -> list[tuple[str, str]]:
    """Problems and their remedies."""
    problems = []
    if mailing.every not in EVERY:
        problems.append((f"unknown period {mailing.every!r}", f"Use one of {', '.join(EVERY)}."))
    try:
        usable = mailing.time.tzinfo is None
    except ValueError:
        usable = False
    if not usable:
        problems.append((f"at = {mailing.at!r}", "Write a time of day such as 08:00."))
    try:
        _ = mailing.filters
    except SelectionError as error:
        problems.append(
            (f"unusable filter: {error.problem}", error.remedy or "Write field=value, !=, ~ or ^.")
        )
    return problems

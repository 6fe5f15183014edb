"""quality.reported: the figures of each day as they were when it was over, and as they changed afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.quality_tables import REPORTED
from tidemark.contract.store import Store
from tidemark.contract.store import Where as Conditions
from tidemark.contract.table import Table
from tidemark.figures.query import Where
from tidemark.figures.reported import METRICS, current
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.unions import UnionCache
from tidemark.operate import notes
from tidemark.operate.moment import Moment, Span
from tidemark.operate.note import FORGET, IMPORT, REBUILD, SETTINGS
from tidemark.settings import Settings
from tidemark.stream import swap
from tidemark.stream.lock import appending

DAY_OVER, LATE = "day over", "late lines"
# A day is reported this long after its end, and at most so often.
HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A change that waits for its hour may be older than the last report.
_OVERLAP = 2 * HOUR
# Rows of a day that arrive later than a day are an archive if they are of so many minutes.
_ARCHIVE_MINUTES = 10
_AT_ONCE = timedelta(days=7)
_SILENT = timedelta(days=7)

_TRAFFIC, _SESSIONS = "gold.traffic", "silver.sessions"
# The tables that are counted, with their times, and the metrics of the second one.
_SOURCES = {_TRAFFIC: "window_start", _SESSIONS: "start_time"}
_OF_SESSIONS = ("sessions", "bounce_rate")

SiteDay = tuple[str, datetime]


@dataclass(frozen=True)
class _Last:
    """The last report of a day: when, and the values by metric."""

    at: datetime
    values: Mapping[str, float | None]


class Reports:
    """Writes quality.reported. `tables`: gold.traffic and silver.sessions, by name. `kept`: the time from which on a
    table has its rows (None: all). Figures of older rows stay as they were reported."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        tables: Mapping[str, Table],
        kept: Callable[[str], datetime | None] = lambda table: None,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self._store = store
        self._tables = tables
        # Each report is of other days, so no union is kept.
        self._rows = Rows(store.reader, UnionCache.forgetful())
        self._seen: datetime | None = None
        self._swaps: int | None = None
        self._waiting: set[SiteDay] = set()

    def report(self, moment: Moment) -> int:
        """Reports the days that are over as of the moment, and those whose figures changed. Returns the number of rows
        written. Raises TableError."""
        last = self._last()
        over = {site: _days(span) for site, span in moment.sites.items()}
        new = {(site, day) for site, days in over.items() for day in days} - set(last)
        newest = max((each.at for each in last.values()), default=None)
        changed, archive = self._changed(last, newest, moment) if newest else (set(), set())
        self._note(archive, moment)
        kept = {name: self._kept(name) or _EPOCH for name in _SOURCES}
        new, changed = ({each for each in some if each[1] >= kept[_TRAFFIC]} for some in (new, changed))
        early = {each for each in changed if moment.time - last[each].at < HOUR}
        causes = self._causes()
        rows = []
        for (site, day), values in self._values(new | (changed - early)):
            known = last.get((site, day))
            cause = causes(known.at, (site, day) in archive) if known else DAY_OVER
            same = {"site": site, "day": day, "reported_at": moment.time, "cause": cause}
            rows += [
                {**same, "metric": metric, "value": value}
                for metric, value in values.items()
                if known is None or known.values.get(metric) != value
                if day >= kept[_SESSIONS if metric in _OF_SESSIONS else _TRAFFIC]
            ]
        self._seen, self._waiting = moment.time, early
        if rows:
            with appending(self._settings):
                self._store.append_arrow(REPORTED, pa.Table.from_pylist(rows, REPORTED.arrow_schema))
        return len(rows)

    def _last(self) -> dict[SiteDay, _Last]:
        rows = self._store.read(REPORTED).sort_by("reported_at")
        last: dict[SiteDay, tuple[datetime, dict[str, float | None]]] = {}
        for row in rows.to_pylist():
            _, values = last.get((row["site"], row["day"]), (row["reported_at"], {}))
            values[row["metric"]] = row["value"]
            last[row["site"], row["day"]] = row["reported_at"], values
        return {key: _Last(at, values) for key, (at, values) in last.items()}

    def _changed(
        self, last: Mapping[SiteDay, _Last], newest: datetime, moment: Moment
    ) -> tuple[set[SiteDay], set[SiteDay]]:
        """The reported days whose rows changed since the last look, and those of them that got an archive's lines."""
        since = self._seen or newest - _OVERLAP
        swaps = self._store.committed(self._tables[_TRAFFIC], swap.WRITER)
        swapped = self._swaps not in (None, swaps) or (
            self._swaps is None
            and any(note.remakes and note.time > since for note in notes.listed(self._store))
        )
        self._swaps = swaps
        before = max(day for _, day in last) + _DAY
        counts: dict[SiteDay, int] = {}
        late: dict[SiteDay, int] = {}
        for name, time in _SOURCES.items():
            where: Conditions = [[("updated_at", ">", since), (time, "<", before)]]
            rows = self._store.read(self._tables[name], where, ["site", time, "updated_at"])
            counts |= _count(rows, time)
            if name == _TRAFFIC:
                late = _count(rows.filter(pc.field("updated_at") - pc.field(time) > pa.scalar(_DAY)), time)
        if swapped:  # all rows are new then
            return set(last), set()
        return (set(counts) | self._waiting) & set(last), {
            each for each, minutes in late.items() if minutes >= _ARCHIVE_MINUTES
        }

    def _values(self, wanted: Collection[SiteDay]) -> Iterator[tuple[SiteDay, dict[str, float | None]]]:
        """The figures of days of sites, from the tables."""
        left = sorted(wanted, key=lambda each: each[1])
        while left:
            first = left[0][1]
            part = [each for each in left if each[1] < first + _AT_ONCE]
            left = left[len(part) :]
            figures = self._figures(part, first, part[-1][1] + _DAY)
            yield from ((each, figures[each]) for each in part)

    def _figures(
        self, wanted: Collection[SiteDay], first: datetime, end: datetime
    ) -> dict[SiteDay, dict[str, float | None]]:
        """The figures of days of sites within a range."""
        by_day: dict[SiteDay, dict[str, float | None]] = {
            each: {**dict.fromkeys(METRICS, 0.0), "bounce_rate": None} for each in wanted
        }
        sites = Where("site", "in", tuple(sorted({site for site, _ in wanted})))
        figures = current(self._rows, Selection(None, first, end), [sites])
        for site, day, metric, value in figures[["site", "day", "metric", "now"]].itertuples(index=False):
            known = by_day.get((site, day.to_pydatetime()))
            if known is not None and value == value:
                known[metric] = value
        return by_day

    def _causes(self) -> Callable[[datetime, bool], str]:
        """A function that returns why figures differ from those reported at a time."""
        remakes = [(note.time, note.cause) for note in notes.listed(self._store) if note.remakes]

        def cause(since: datetime, archive: bool) -> str:
            for kind in (FORGET, SETTINGS, REBUILD):
                if any(time > since and each == kind for time, each in remakes):
                    return kind
            return IMPORT if archive else LATE

        return cause

    def _note(self, archive: Iterable[SiteDay], moment: Moment) -> None:
        """Notes an imported archive, one note per site while it is being imported."""
        days: dict[str, list[datetime]] = defaultdict(list)
        for site, day in archive:
            days[site].append(day)
        if days:
            known = notes.listed(self._store)
            notes.write(
                self._settings,
                self._store,
                [notes.archive(known, site, of, moment.time) for site, of in days.items()],
            )


def _days(span: Span) -> list[datetime]:
    """The days of a site that are over: an hour has passed since their end. A site that sends nothing has them for a
    week."""
    until = min(span.reached - HOUR, span.newest + _SILENT)
    first, end = ((time - _EPOCH) // _DAY for time in (span.first, until))
    return [_EPOCH + number * _DAY for number in range(first, end)]


def _count(rows: pa.Table, time: str) -> dict[SiteDay, int]:
    """The number of rows by site and day."""
    days = pa.table({"site": rows["site"], "day": pc.floor_temporal(rows[time], unit="day")})
    counted = days.group_by(["site", "day"]).aggregate([([], "count_all")])
    return {(row["site"], row["day"]): row["count_all"] for row in counted.to_pylist()}

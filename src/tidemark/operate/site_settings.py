"""Changed own hosts, trusted proxies and robots.txt of sites: when history is recomputed with them, and the note.

The record of how silver.requests was made (`tidemark.stream.table_state`) has the settings that its lines were read
with. While those of the settings file differ, `tidemark.operate.backfill` reads all lines again beside the flows. The
swap in the end records the new ones. So a kill at any moment loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.contract.expression import column
from tidemark.contract.measure import Scan, unfulfilled
from tidemark.contract.quality_tables import SITES
from tidemark.contract.store import Store
from tidemark.figures.notes import About, State
from tidemark.home import Home
from tidemark.operate import notes
from tidemark.operate.difference import Changed
from tidemark.operate.note import SETTINGS, SITE_SETTINGS, Note, rendered, short, subject_of
from tidemark.operate.retention import complete_from
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import applied
from tidemark.stream.applied import site_and_field
from tidemark.stream.table_state import TableState, record_states, recorded

log = logging.getLogger("tidemark.operate.site_settings")

REQUESTS = "silver.requests"
_OF_LINES = (REQUESTS, "silver.rejected")


@dataclass(frozen=True)
class Unapplied:
    """The settings of lines that history does not have: by name, those of sites that are applied to it, then and now,
    and the names of `others`."""

    settings: Mapping[str, tuple[str, str]]
    others: tuple[str, ...]

    @property
    def sites(self) -> list[str]:
        return list(dict.fromkeys(site_and_field(name)[0] for name in self.settings))

    @property
    def subject(self) -> str:
        """Such as "own hosts of shop, blog"."""
        return subject_of(self.settings)


def unapplied(home: Home) -> Unapplied:
    """The differences from the settings of history. Raises TableError."""
    differing = applied.line_differences(home.settings, recorded(home.lakehouse, REQUESTS))
    settings = {
        name: values for name, values in differing.items() if site_and_field(name)[1] in SITE_SETTINGS
    }
    return Unapplied(settings, tuple(name for name in differing if name not in settings))


def due(home: Home) -> bool:
    """Whether changed settings are to be applied to history beside the flows. Raises TableError."""
    changed = unapplied(home)
    return bool(changed.settings) and not _hindrance(home, changed)


def _hindrance(home: Home, changed: Unapplied) -> str:
    """Why settings are not applied to history by themselves, and what to do; empty if they can be."""
    # They may be meant for new lines only, such as the time zone of a server that has moved.
    if changed.others:
        return f"{', '.join(changed.others)} changed, too: `tidemark rebuild all` applies all of them"
    if home.lakehouse.can.files is None:
        return "tables of a catalog are rebuilt with the pipeline stopped: stop it and run `tidemark rebuild all`"
    return lacking_lines(home)


def lacking_lines(home: Home) -> str:
    """Why lines must not be read again by themselves, and what to do; empty if bronze has all of them."""
    read = sum(row["accepted"] + row["rejected"] for row in _sites(home.store))
    lines = home.graph.lines
    kept = complete_from(home, lines, datetime.now(UTC))
    if kept is None and DeltaRsStore(home.lakehouse).size(lines, None)[0] < read:
        return (
            f"{lines.name} lacks lines that were read, whose rows a rebuild would drop:"
            f" `tidemark rebuild {REQUESTS} --since` a time from which on it has all"
        )
    return ""


def _sites(store: Store) -> list[dict[str, Any]]:
    """Number of lines by site. The flow commits it after the lines."""
    rows = store.read(SITES, [], ["site", "accepted", "rejected"]).to_pylist()
    return [row for row in rows if row["accepted"] or row["rejected"]]


def settle(home: Home) -> None:
    """Before the flows start, writes a note about settings that differ from those of history, and records that lines
    have both from now on: settings that are changed back are to be applied, too. A site without lines has no history:
    its settings are recorded as applied. Raises TableError."""
    _record_new_sites(home)
    changed, wanted = unapplied(home), None
    if changed.settings:
        if why := _hindrance(home, changed):
            log.warning("the %s are not applied to history: %s", changed.subject, why)
        else:
            log.info("the %s have changed: history is recomputed beside the flows", changed.subject)
        wanted = rendered(
            Note(
                datetime.now(UTC),
                site=changed.sites[0] if len(changed.sites) == 1 else "",
                cause=SETTINGS,
                about=About.SITES,
                state=State.NOT_APPLIED if why else State.WAITING,
                details=why or None,
            ),
            changed.settings,
        )
    _renew(home, wanted)
    if changed.settings:
        _record(home, lambda was: applied.mixed(was, changed.settings))


def _record(home: Home, settings: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
    """Records for each table of lines what `settings` makes of the settings that are recorded."""
    known = {name: recorded(home.lakehouse, name).applied for name in _OF_LINES}
    record_states(
        home.lakehouse,
        {name: TableState(settings=settings(was)) for name, was in known.items() if was is not None},
    )


def _record_new_sites(home: Home) -> None:
    lakehouse, store = home.lakehouse, home.store
    differing = applied.line_differences(home.settings, recorded(lakehouse, REQUESTS))
    if not differing or not store.exists(SITES):  # lost, if the home has a record
        return
    sites = {name: site for name in differing if (site := site_and_field(name)[0])}
    read = {row["site"] for row in _sites(store)}
    read |= _interrupted(home, sorted({*sites.values()} - read))
    new = {name: differing[name][1] for name, site in sites.items() if site not in read}
    if new:
        _record(home, lambda was: {**was, **new})


def _interrupted(home: Home, sites: Sequence[str]) -> set[str]:
    """The sites without lines in quality.sites that have lines in silver, because a process was killed in between."""
    if not sites:
        return set()
    store = home.store
    tables = [table for table in (home.graph.rejected, home.graph.accepted) if store.exists(table)]
    of_site = [unfulfilled(column("site") != site) for site in sites]
    counts = store.measure([Scan(table, store.version(table), of_site) for table in tables])
    return {site for numbers in counts for site, number in zip(sites, numbers, strict=True) if number}


def _renew(home: Home, wanted: Note | None) -> None:
    """Replaces the notes of earlier starts. One whose settings history has was to be completed when a kill came."""
    applied_now = recorded(home.lakehouse, REQUESTS).applied or {}
    gone: list[Note] = []
    new: list[Note] = []
    for note in _unapplied_notes(home.store):
        if wanted and _content(note) == _content(wanted):
            wanted = None
            continue
        gone.append(note)
        # Notes of earlier versions have values as they show them.
        if note.state == State.WAITING and all(
            short(applied_now.get(name, "")) == short(now) for name, (_, now) in note.settings.items()
        ):
            new.append(_completed(note, "applied to history", len(new)))
    notes.write(home.settings, home.store, [*new, *([wanted] if wanted else [])], gone)


def _content(note: Note) -> tuple[object, ...]:
    return note.state, note.details, note.settings


def complete(home: Home, changed: Sequence[Changed]) -> None:
    """Puts what a rebuild has changed into the note. Raises TableError."""
    waiting = [note for note in _unapplied_notes(home.store) if note.state == State.WAITING]
    details = notes.lines_changed(changed) or "no line has another value"
    completed = [_completed(note, details, number) for number, note in enumerate(waiting)]
    notes.write(home.settings, home.store, completed, waiting)


def _completed(note: Note, details: str, number: int) -> Note:
    # Rows changed now, not when the work began. Notes of one cause and site have distinct times.
    now = datetime.now(UTC) - timedelta(microseconds=number)
    return rendered(replace(note, note="", time=now, state=State.APPLIED, details=details))


def _unapplied_notes(store: Store) -> list[Note]:
    """The notes about settings of sites that history did not have when they were written."""
    return [
        note
        for note in notes.listed(store)
        if note.about == About.SITES and note.state in (State.WAITING, State.NOT_APPLIED)
    ]


def is_open(store: Store) -> bool:
    """Whether a note waits for what a rebuild changes. Raises TableError."""
    return any(note.state == State.WAITING for note in _unapplied_notes(store))


def reason(store: Store) -> str:
    """Why settings are not applied to history by themselves, as noted; empty if they are. Raises TableError."""
    reasons = [note.details or "" for note in _unapplied_notes(store) if note.state == State.NOT_APPLIED]
    return next(reversed(reasons), "")

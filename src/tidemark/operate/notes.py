"""Notes: what happened at a time, for charts. By hand, and about what changes figures or leaves a gap in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemark.contract.quality_tables import ACCOUNTS, NOTES
from tidemark.contract.store import Commit, Store, Where
from tidemark.contract.table import Change, Table
from tidemark.errors import SettingError
from tidemark.figures.notes import MOST_CHARACTERS
from tidemark.operate.revalued import Revalued
from tidemark.settings import Settings
from tidemark.stream.lock import appending

if TYPE_CHECKING:
    from tidemark.operate.difference import Changed

HAND, REBUILD, FORGET, SETTINGS, RULES, IMPORT, GAP = (
    "hand",
    "rebuild",
    "forget",
    "settings",
    "rules",
    "import",
    "gap",
)
# A pipeline that stood still for less leaves no note.
LEAST_GAP = timedelta(minutes=5)
# Characters of a setting's value in a note.
_VALUE_SHOWN = 60
# Columns, and settings, that a note about a change names.
_PARTS_SHOWN = 5
_REBUILT = "Rebuilt: "
# Settings of a site that the pipeline applies to history by itself, and how the notes about them begin.
SITE_SETTINGS = {"hosts": "own hosts", "trusted_proxies": "trusted proxies", "robots": "robots.txt"}
_ANY = "|".join(map(re.escape, SITE_SETTINGS.values()))
OF_SITES = rf"(?i:{_ANY})(?: and (?:{_ANY}))* of "
# Such a note has one of these, until history has the settings.
OPEN, NOT_APPLIED = "…", "not applied to history,"
_REMADE = re.compile(rf"{_REBUILT}|{OF_SITES}[^:]*: (?!{OPEN}|{NOT_APPLIED})")
_WRITER = "notes"

# By table, the settings that its history does not have yet (`schema_check.unapplied`).
Unapplied = Mapping[str, Mapping[str, tuple[str, str]]]


@dataclass(frozen=True)
class Note:
    """A note; `site` is empty for all sites."""

    time: datetime
    text: str
    site: str = ""
    cause: str = HAND

    @property
    def note(self) -> str:
        """The key. The text of Tidemark's own notes may grow."""
        parts = [self.time.isoformat(), self.site, self.cause, self.text if self.cause == HAND else ""]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write(
    settings: Settings, store: Store, notes: Sequence[Note], gone: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Adds notes, or replaces those with the same key, and removes the rows `gone`, in one commit. Raises
    TableError."""
    if notes or gone:
        now = datetime.now(UTC)
        rows = [{**asdict(note), "note": note.note, "updated_at": now} for note in notes]
        store.ensure(NOTES)
        # Only files whose range contains its time can have a removed note.
        removed = pa.Table.from_pylist(list(gone), NOTES.arrow_schema).select(["note", "time"])
        _commit(settings, store, Change(pa.Table.from_pylist(rows, NOTES.arrow_schema), removed))


def record(settings: Settings, store: Store, text: str, cause: str) -> None:
    """Notes what has just happened to all sites. Raises TableError."""
    write(settings, store, [Note(datetime.now(UTC), text, cause=cause)])


def rebuilt(
    name: str, tables: Collection[str], before: Unapplied, after: Unapplied, changed: Sequence[Changed] = ()
) -> Note:
    """The note about a rebuild (`name`: as asked for) of these tables and all that are made of them. It has the cause
    SETTINGS if the rebuild applied changed settings to history: those of these tables, and those that `after` it are
    not among the unapplied ones any more. It says how many lines have other values by what `changed`."""
    applied = {
        setting: values
        for table, changes in before.items()
        for setting, values in changes.items()
        if table in tables or setting not in after.get(table, {})
    }
    text = _joined([f"{_REBUILT}{name}", *lines_changed(changed), *changes(applied)])
    return Note(datetime.now(UTC), text, cause=SETTINGS if applied else REBUILD)


def lines_changed(changed: Sequence[Changed]) -> list[str]:
    """How many lines have other values, as text."""
    return [str(each) for each in changed if isinstance(each, Revalued)][:_PARTS_SHOWN]


def changes(settings: Mapping[str, tuple[str, str]]) -> list[str]:
    """Settings with their values before and after, as text."""
    texts = [f"{name} was {short(was)}, now {short(now)}" for name, (was, now) in settings.items()]
    more = len(texts) - _PARTS_SHOWN
    return [*texts[:_PARTS_SHOWN], *([f"{more} more settings"] if more > 0 else [])]


def _joined(parts: Sequence[str]) -> str:
    return "; ".join(parts)[:MOST_CHARACTERS]


def short(value: str) -> str:
    """A setting's value as notes show it."""
    return "unset" if not value else value if len(value) <= _VALUE_SHOWN else f"{value[:_VALUE_SHOWN]}…"


def remakes(row: Mapping[str, Any]) -> bool:
    """Whether a note is about rows that were recomputed or deleted; one about a goal's definition is not."""
    remade = row["cause"] == SETTINGS and _REMADE.match(row["text"]) is not None
    return remade or row["cause"] in (REBUILD, FORGET)


def remove(settings: Settings, store: Store, key: str) -> None:
    """Removes a note. Raises SettingError if there is none with this key, TableError."""
    row = next((row for row in listed(store) if row["note"] == key), None)
    if row is None:
        raise SettingError(f"there is no note {key}", "`tidemark note --list` shows the notes.")
    write(settings, store, [], [row])


def listed(store: Store) -> list[dict[str, Any]]:
    """The rows of quality.notes in the order of time. Raises TableError."""
    rows = store.read(NOTES).to_pylist() if store.exists(NOTES) else []
    return sorted(rows, key=lambda row: (row["time"], row["note"]))


def by_hand(text: str, at: datetime | None, site: str) -> Note:
    """A note of a person about a time (None: now). Raises SettingError for a text that cannot be shown."""
    text = " ".join(text.split())
    if not text.isprintable() or not 0 < len(text) <= MOST_CHARACTERS:
        raise SettingError(
            f"a note of {len(text)} characters, or with control characters", f"Use 1 to {MOST_CHARACTERS}."
        )
    return Note(at or datetime.now(UTC), text, site)


def gap(before: dict[str, Any], now: datetime) -> list[Note]:
    """The note about the time in which no pipeline ran. `before`: the live record of the last one."""
    if "looked_at" not in before:
        return []
    since = datetime.fromtimestamp(before["looked_at"], UTC)
    if now - since < LEAST_GAP:
        return []
    return [
        Note(
            since,
            f"The pipeline did not run from {since:%Y-%m-%d %H:%M} to {now:%Y-%m-%d %H:%M} UTC",
            cause=GAP,
        )
    ]


def archive(known: Sequence[dict[str, Any]], site: str, days: Sequence[datetime], now: datetime) -> Note:
    """The note about old lines of these days that have arrived. It replaces one about the same site that grew within
    the last hour: an import takes a while. `known`: the notes that there are."""
    first, last = min(days), max(days)
    time = now
    for row in known:
        match = re.fullmatch(r"Lines of (\S+) to (\S+) were imported", row["text"])
        if (
            match
            and (row["site"], row["cause"]) == (site, IMPORT)
            and now - row["updated_at"] < timedelta(hours=1)
        ):
            time = row["time"]
            first, last = (
                choose(day, datetime.fromisoformat(text).replace(tzinfo=UTC))
                for choose, day, text in ((min, first, match[1]), (max, last, match[2]))
            )
    return Note(time, f"Lines of {first:%Y-%m-%d} to {last:%Y-%m-%d} were imported", site, IMPORT)


def rules_before(store: Store, requests: Table, time: datetime) -> str | None:
    """The `rules_version` of the last lines that were read before a time; None without lines. `requests` is
    silver.requests. Raises TableError."""
    rows = store.read(ACCOUNTS, [[("started_at", "<", time)]], ["flow", "started_at", "accepted"]).to_pylist()
    batches = [row["started_at"] for row in rows if row["flow"] == "requests" and row["accepted"]]
    if not batches:
        return None
    where: Where = [[("ingested_at", ">=", max(batches) - timedelta(seconds=1)), ("ingested_at", "<", time)]]
    versions = store.read(requests, where, ["rules_version", "ingested_at"]).sort_by("ingested_at")
    last: str | None = next(iter(versions["rules_version"].to_pylist()[-1:]), None)
    return last


def rules_changed(
    known: Sequence[dict[str, Any]], before: str | None, version: str, now: datetime, unapplied: Unapplied
) -> list[Note]:
    """The note about another `rules_version` than the rows had `before` (None: there are none), after the settings that
    history does not have."""
    text = f"Lines are read with {version}, before with {before}"
    last = [row for row in known if row["cause"] == RULES][-1:]
    if before in (None, version) or any(row["time"] == now or row["text"].endswith(text) for row in last):
        return []
    settings = {name: values for changes in unapplied.values() for name, values in changes.items()}
    return [Note(now, _joined([*changes(settings), text]), cause=RULES)]


def _commit(settings: Settings, store: Store, change: Change) -> None:
    with appending(settings):
        store.upsert(NOTES, change, Commit(_WRITER, store.committed(NOTES, _WRITER) + 1))

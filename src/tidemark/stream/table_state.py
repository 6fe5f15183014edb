"""The recorded state of each table of a home: `states.json`, beside the checkpoints and in savepoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.errors import TableError, unwritable
from tidemark.home import Home
from tidemark.local.records import replace_text
from tidemark.store.lakehouse import Lakehouse

_FILE = "states.json"
# The entry of an aggregation's identity by which a session ends.
GAP = "gap"
# The entry that says with which flow the rows of a table are committed.
COMMITTED = "committed"
_WHOLE, _MISSING = "whole", "missing"
_sorted_json = partial(json.dumps, sort_keys=True)
# The entries of the file that are not of `identity`, by field of the state: their name, how the value is written as a
# text, and how that is read.
_ENTRIES: Mapping[str, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    "settings": ("settings", _sorted_json, json.loads),
    "privacy": ("privacy", _sorted_json, json.loads),
    "swap": ("swap", str, int),
    "has_history": ("history", lambda whole: _WHOLE if whole else _MISSING, lambda text: text == _WHOLE),
    "kept_since": ("kept since", datetime.isoformat, datetime.fromisoformat),
    "elsewhere": ("elsewhere", str, str),
}


@dataclass(frozen=True)
class TableState:
    """How the rows of a table were made, and what has happened to it. None: not recorded.

    `identity`: how rows are made, by aspect (key, columns, aggregation, visitor key). `settings`: the values of the
    settings that all rows have, by name. `privacy`: the privacy settings of the last start, which history may lack.
    `swap`: the number of the last swap (`tidemark.stream.swap`) that changed the table. `has_history`: whether it has
    the rows from before it, or one of its columns, was added to the home. `kept_since`: the event time from which on a
    table of which others are made has all rows; retention deleted others. `elsewhere`: of a query, where it keeps its
    results in another system.
    """

    identity: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] | None = None
    privacy: Mapping[str, str] | None = None
    swap: int | None = None
    has_history: bool | None = None
    kept_since: datetime | None = None
    elsewhere: str | None = None

    @classmethod
    def of(cls, entries: Mapping[str, str]) -> TableState:
        """A state from its entries in the file."""
        identity = dict(entries)
        others = {
            own: read(identity.pop(name)) for own, (name, _, read) in _ENTRIES.items() if name in identity
        }
        return cls(identity, **others)

    @property
    def entries(self) -> dict[str, str]:
        """The state's entries in the file."""
        others = {
            name: write(value)
            for own, (name, write, _) in _ENTRIES.items()
            if (value := getattr(self, own)) is not None
        }
        return {**self.identity, **others}

    @property
    def applied(self) -> Mapping[str, str] | None:
        """The settings; of a state from before these were recorded, only the gap of sessions."""
        if self.settings is not None or GAP not in self.identity:
            return self.settings
        return {"session_gap_seconds": self.identity[GAP].removesuffix(" s")}

    def updated(self, newer: TableState, *, whole: bool = False) -> TableState:
        """The state with what a newer one records. A `whole` one says all of how rows are made; it lacks, for example,
        a goal that was removed, which rows since then lack, too."""
        identity = newer.identity if whole else {**self.identity, **newer.identity}
        others = {own: value for own in _ENTRIES if (value := getattr(newer, own)) is not None}
        return replace(self, identity=identity, **others)


def recorded(lakehouse: Lakehouse, name: str) -> TableState:
    """The state of a table; an empty one for a new table. Raises TableError."""
    return all_recorded(lakehouse).get(name, TableState())


def all_recorded(lakehouse: Lakehouse) -> dict[str, TableState]:
    """The states of tables and queries, by name. Raises TableError."""
    path = Path(lakehouse.checkpoint_root) / _FILE
    try:
        states = json.loads(path.read_text(encoding="utf-8"))
        return {name: TableState.of(entries) for name, entries in states.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TableError(
            f"{path} cannot be read: {error}",
            "Restore a savepoint or a backup. If neither version nor settings have changed, delete the file.",
        ) from error


def record_states(lakehouse: Lakehouse, states: Mapping[str, TableState], *, whole: bool = False) -> None:
    """Updates the states of these tables, see `TableState.updated`. Raises TableError and PlatformError."""
    known = all_recorded(lakehouse)
    updated = {
        name: known.get(name, TableState()).updated(state, whole=whole) for name, state in states.items()
    }
    if known | updated == known:
        return
    path = Path(lakehouse.checkpoint_root) / _FILE
    content = {name: state.entries for name, state in (known | updated).items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(content, indent=1, sort_keys=True) + "\n", durable=True)
    except OSError as error:
        raise unwritable(f"cannot write {path}", error, "Make it writable, and start again.") from error


def incomplete(lakehouse: Lakehouse) -> list[str]:
    """Names of the tables that lack their history, or that of a column."""
    return [name for name, state in all_recorded(lakehouse).items() if state.has_history is False]


def committed_tables(home: Home) -> frozenset[str]:
    """Names of the recorded tables that a pipeline with today's flows has run on. Raises TableError."""
    states = all_recorded(home.lakehouse)
    return frozenset(
        table.name
        for table in home.tables
        if table.name in states and (not table.now or COMMITTED in states[table.name].identity)
    )

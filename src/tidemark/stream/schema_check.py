"""Checks that existing rows of the tables can be combined with the rows that this version makes.

The tables are the state. How rows are made (`Aggregation.identity`, the key, the version of each flow's query) is
recorded beside the checkpoints, and in savepoints. Another window, key or aggregate is one
error before the start, so a table never has rows of two kinds. New columns and tables are compatible, and so is a key
that has a column more: earlier rows have NULL there until the history is filled, and add up with the later ones.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tidemark.contract.table import Table
from tidemark.errors import PlatformError, TableError
from tidemark.home import Home
from tidemark.local.records import replace_text
from tidemark.parse.visitor import fingerprint, has_visitor_key, make_visitor_key, visitor_key
from tidemark.settings import Settings
from tidemark.store.lakehouse import Lakehouse
from tidemark.stream import applied

_FILE = "states.json"
# The entry of a table's state with the number of the last swap (`tidemark.stream.swap`) that changed it.
SWAP = "swap"
# The entry of a query that keeps its results in another system.
ELSEWHERE = "elsewhere"
# The event time from which on a table of lines has all of them; others were deleted by retention.
KEPT_SINCE = "kept since"
_KEY = "visitor key"
_KEY_COLUMNS = "key"
_COMMITTED = "committed"
# Whether a table has the history from before it, or one of its columns, was added to the home.
_HISTORY, _MISSING, _WHOLE = "history", "missing", "whole"
# Entries that do not come from how rows are made.
_LASTING = frozenset({SWAP, ELSEWHERE, KEPT_SINCE, _HISTORY, applied.ENTRY, applied.PRIVACY})
_KEY_REMEDY = (
    "Put visitor.key back from a backup, or set TIDEMARK_VISITOR_KEY as before. If that key is lost:"
    " `tidemark rebuild all --new-visitor-key` makes every visitor id anew, with the home's key or a new one."
)

State = Mapping[str, str]


def require_fitting(home: Home, flows: Mapping[str, int]) -> None:
    """Raises TableError if a table's state or a flow's checkpoint differs from this version's; `flows` are
    the versions of the flows' queries. Records new tables."""
    lakehouse = home.lakehouse
    for flow, version in flows.items():
        there = sorted(
            path
            for path in Path(lakehouse.checkpoint_root).glob(f"{flow}-v*")
            if path.name.removeprefix(f"{flow}-v").isdigit()
        )
        if there and Path(lakehouse.checkpoint(flow, version)) not in there:
            raise TableError(
                f"the state of flow {flow} no longer fits: its query is of version {version}, its checkpoint"
                f" is {there[-1]}",
                "Restore a savepoint that this version made, or go on with the version before; to start over see"
                " docs/operations.md, 'Make all tables anew'.",
            )
    for name, changes in changed(home).items():
        rebuild = (
            ""
            if name.startswith("quality.")
            else f"Recompute it with today's: `tidemark rebuild {name}`. Or "
        )
        back = "go back: restore a savepoint and run what made it, another version or other settings."
        raise TableError(
            f"the state of {name} no longer fits: {'; '.join(changes)}",
            rebuild + (back if rebuild else back.capitalize()),
        )
    note(home)


def changed(home: Home) -> dict[str, list[str]]:
    """By table, how its rows were made and what differs now; without compatible tables."""
    known = _known(home.lakehouse)
    found = {}
    for table in home.tables:
        was, now = known.get(table.name, {}), _state(home.settings, table)
        differs = [
            f"{name} was {was[name]}, now {now[name]}"
            for name in was
            # The first releases recorded only that a column is a sum.
            if now.get(name, was[name]) != was[name]
            and was[name] != "sum"
            and not (name == _KEY_COLUMNS and _has_wider_key(was, now))
        ]
        if differs:
            found[table.name] = differs
    return found


def with_unfit(names: Sequence[str], unfit: Collection[str], remade: Sequence[str]) -> list[str]:
    """The named tables, and those of `remade` that do not fit (`changed`): the flows cannot go on before all of these
    are made anew."""
    return [*names, *(name for name in remade if name in unfit and name not in names)]


def note(home: Home) -> None:
    """Records that the rows of these tables were made by this version with these settings. Settings that may be others
    than those of earlier rows (`applied`) are recorded for new tables only."""
    settings, tables, known = home.settings, home.tables, _known(home.lakehouse)
    new = {t.name: applied.entry(settings, t) for t in tables if applied.ENTRY not in known.get(t.name, {})}
    made = {**states(settings, tables), **_without_history(home, known)}
    write(home.lakehouse, {name: {**state, **new.get(name, {})} for name, state in made.items()}, whole=True)


def states(settings: Settings, tables: Sequence[Table]) -> dict[str, State]:
    """By table, how this version makes its rows with these settings."""
    return {table.name: _state(settings, table) for table in tables if _has_state(table)}


def rebuilt(settings: Settings, tables: Sequence[Table]) -> dict[str, State]:
    """The states of tables that were just recomputed completely."""
    whole = {table.name: {_HISTORY: _WHOLE} for table in tables if _has_history(table)}
    made = {table.name: applied.entry(settings, table) for table in tables}
    return {
        name: {**state, **whole.get(name, {}), **made[name]}
        for name, state in states(settings, tables).items()
    }


def unapplied(home: Home) -> dict[str, dict[str, tuple[str, str]]]:
    """By table, the settings that have changed since its history was made: their value then, and now."""
    known = _known(home.lakehouse)
    found = {t.name: applied.differences(home.settings, t, known.get(t.name, {})) for t in home.tables}
    return {name: changes for name, changes in found.items() if changes}


def recorded(house: Lakehouse, table: str) -> State:
    """How the rows of the table of this name were made at the last start; empty for a new table."""
    return _known(house).get(table, {})


def incomplete(house: Lakehouse) -> list[str]:
    """Names of the tables that lack their history, or that of a column."""
    return [name for name, state in _known(house).items() if state.get(_HISTORY) == _MISSING]


def _without_history(home: Home, known: Mapping[str, State]) -> dict[str, dict[str, str]]:
    """The states of tables that are new to a home with others, or have a new column."""
    if not known:
        return {}
    made = {table.name: _state(home.settings, table) for table in home.tables if _has_history(table)}
    return {
        name: {**state, _HISTORY: _MISSING}
        for name, state in made.items()
        if name not in known or set(state) - set(known[name]) or _has_wider_key(known[name], state)
    }


def _has_wider_key(was: State, now: State) -> bool:
    """Whether a table's key has the columns of before and others."""
    return set(was.get(_KEY_COLUMNS, "").split(", ")) < set(now.get(_KEY_COLUMNS, "").split(", "))


def write(house: Lakehouse, made: Mapping[str, State], *, whole: bool = False) -> None:
    """Records the states of these tables; `whole` ones lose what they say no more of how rows are made, such as a goal
    that was removed: the rows since then lack it."""
    known = _known(house)
    kept = {name: known.get(name, {}) for name in made}
    if whole:
        kept = {
            name: {k: v for k, v in kept[name].items() if k in _LASTING or k in made[name]} for name in made
        }
    wanted = known | {name: {**kept[name], **state} for name, state in made.items()}
    if wanted != known:
        _write(house, wanted)


def require_visitor_key(home: Home, *, renew: bool = False) -> bytes:
    """The visitor key, created if neither it nor the tables exist yet. With `renew` the tables are rebuilt
    right afterwards: the key may have changed, and is created if it is missing.

    Raises TableError if the key of the tables is missing, or the home's key is another one.
    """
    settings, lakehouse = home.settings, home.lakehouse
    keyed = [table for table in home.tables if table.keyed]
    known = _known(lakehouse)
    noted = {known.get(table.name, {}).get(_KEY) for table in keyed} - {None}
    if not has_visitor_key(settings):
        there = bool(lakehouse.can.files) and any(lakehouse.exists(table) for table in keyed)
        if (there or any(table.name in known for table in keyed)) and not renew:
            raise TableError(f"the visitor key of the tables in {lakehouse.name} is missing", _KEY_REMEDY)
        if there and not noted:
            # After a kill before the end of the rebuild, the tables must not accept the new key.
            lost = {table.name: {_KEY: "lost"} for table in keyed}
            _write(lakehouse, {**known, **lost})
        make_visitor_key(settings)
    key = visitor_key(settings)
    if noted - {fingerprint(key)} and not renew:
        raise TableError(
            f"the visitor key is not the one that the tables in {lakehouse.name} were made with", _KEY_REMEDY
        )
    return key


def _has_state(table: Table) -> bool:
    # A table that follows another notices by itself that its rows are made in another way.
    return not table.follows and (table.kind == "upsert" or table.keyed or _is_judged(table))


def _has_history(table: Table) -> bool:
    """Whether the rows can be made anew from another table of the home."""
    return (table.made is not None and not table.follows) or _is_judged(table)


def _is_judged(table: Table) -> bool:
    return table.lines in ("accepted", "rejected")


def last_swap(house: Lakehouse, table: Table) -> int:
    """Recorded number of the last swap that changed the table; 0 if none."""
    return int(_known(house).get(table.name, {}).get(SWAP, 0))


def known(home: Home) -> frozenset[str]:
    """Names of the recorded tables that a pipeline with today's flows has run on."""
    recorded = _known(home.lakehouse)
    return frozenset(
        table.name
        for table in home.tables
        if table.name in recorded and (not table.now or _COMMITTED in recorded[table.name])
    )


def elsewhere(house: Lakehouse) -> dict[str, str]:
    """By query, where it keeps results and position besides its tables and checkpoint."""
    return {name: state[ELSEWHERE] for name, state in _known(house).items() if ELSEWHERE in state}


def _state(settings: Settings, table: Table) -> State:
    if not _has_state(table):
        return {}
    made = dict(table.made(settings.meaning).identity) if table.made else {}
    key = {_KEY: fingerprint(visitor_key(settings))} if table.keyed else {}
    # A column that such a table gains has no values in earlier rows.
    columns = {f"column {each.name}": each.type for each in table.columns} if _is_judged(table) else {}
    # A table that another flow commits from now on lacks the lines between the two flows, until it is filled.
    now = {_COMMITTED: "with the lines"} if table.now else {}
    return {
        **({_KEY_COLUMNS: ", ".join(table.key)} if table.kind == "upsert" else {}),
        **made,
        **key,
        **columns,
        **now,
    }


def _write(house: Lakehouse, states: Mapping[str, State]) -> None:
    path = Path(house.checkpoint_root) / _FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps(states, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise PlatformError(
            f"cannot write {path}: {error.strerror}", "Free space, or make it writable, and start again."
        ) from error


def _known(house: Lakehouse) -> dict[str, State]:
    path = Path(house.checkpoint_root) / _FILE
    try:
        known: dict[str, State] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TableError(
            f"{path} cannot be read: {error}",
            "Restore a savepoint or a backup. If neither version nor settings have changed, delete the file.",
        ) from error
    return known

"""Checks that existing rows of the tables can be combined with the rows that this version makes.

The tables are the state. How rows are made (`Aggregation.identity`, the key, the version of each flow's query) is
recorded (`tidemark.stream.table_state`). Another window, key or aggregate is one
error before the start, so a table never has rows of two kinds. New columns and tables are compatible, and so is a key
that has a column more: earlier rows have NULL there until the history is filled, and add up with the later ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tidemark.contract.table import Table
from tidemark.errors import TableError
from tidemark.home import Home
from tidemark.parse.visitor import fingerprint, has_visitor_key, make_visitor_key, visitor_key
from tidemark.settings import Settings
from tidemark.stream.applied import applied_to, differences
from tidemark.stream.table_state import COMMITTED, TableState, all_recorded, record_states

_KEY = "visitor key"
_KEY_COLUMNS = "key"
_KEY_REMEDY = (
    "Put visitor.key back from a backup, or set TIDEMARK_VISITOR_KEY as before. If that key is lost:"
    " `tidemark rebuild all --new-visitor-key` renews every visitor id, with the home's key or a new one."
)

_Identity = Mapping[str, str]


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
                " docs/operations.md, 'Recompute all tables'.",
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
    known = all_recorded(home.lakehouse)
    differing = {}
    for table in home.tables:
        was, now = known.get(table.name, TableState()).identity, _identity(home.settings, table)
        differs = [
            f"{name} was {was[name]}, now {now[name]}"
            for name in was
            # The first releases recorded only that a column is a sum.
            if now.get(name, was[name]) != was[name]
            and was[name] != "sum"
            and not (name == _KEY_COLUMNS and _has_wider_key(was, now))
        ]
        if differs:
            differing[table.name] = differs
    return differing


def with_unfit(names: Sequence[str], unfit: Collection[str], remade: Sequence[str]) -> list[str]:
    """The named tables, and those of `remade` that do not fit (`changed`): the flows cannot go on before all of these
    are made anew."""
    return [*names, *(name for name in remade if name in unfit and name not in names)]


def note(home: Home) -> None:
    """Records that the rows of these tables were made by this version with these settings. Settings that may be others
    than those of earlier rows (`applied`) are recorded for new tables only."""
    known = all_recorded(home.lakehouse)
    states = {}
    for table in home.tables:
        if _has_state(table):
            was, identity = known.get(table.name), _identity(home.settings, table)
            lacks_history = bool(known) and _has_history(table) and _has_more(was, identity)
            states[table.name] = TableState(
                identity,
                has_history=False if lacks_history else None,
                settings=None if was and was.settings is not None else applied_to(home.settings, table),
            )
    record_states(home.lakehouse, states, whole=True)


def rebuilt(settings: Settings, tables: Sequence[Table]) -> dict[str, TableState]:
    """The states of tables that were just recomputed completely."""
    return {
        table.name: TableState(
            _identity(settings, table),
            has_history=True if _has_history(table) else None,
            settings=applied_to(settings, table),
        )
        for table in tables
        if _has_state(table)
    }


def unapplied(home: Home) -> dict[str, dict[str, tuple[str, str]]]:
    """By table, the settings that have changed since its history was made: their value then, and now."""
    known = all_recorded(home.lakehouse)
    differing = {
        table.name: differences(home.settings, table, known.get(table.name, TableState()))
        for table in home.tables
    }
    return {name: changes for name, changes in differing.items() if changes}


def _has_more(was: TableState | None, now: _Identity) -> bool:
    """Whether a table is new, or has a column or a part of its key that its rows lack."""
    return was is None or bool(set(now) - set(was.identity)) or _has_wider_key(was.identity, now)


def _has_wider_key(was: _Identity, now: _Identity) -> bool:
    """Whether a table's key has the columns of before and others."""
    return set(was.get(_KEY_COLUMNS, "").split(", ")) < set(now.get(_KEY_COLUMNS, "").split(", "))


def require_visitor_key(home: Home, *, renew: bool = False) -> bytes:
    """The visitor key, created if neither it nor the tables exist yet. With `renew` the tables are rebuilt
    right afterwards: the key may have changed, and is created if it is missing.

    Raises TableError if the key of the tables is missing, or the home's key is another one.
    """
    settings, lakehouse = home.settings, home.lakehouse
    keyed = [table for table in home.tables if table.keyed]
    known = all_recorded(lakehouse)
    noted = {state.identity[_KEY] for t in keyed if (state := known.get(t.name)) and _KEY in state.identity}
    if not has_visitor_key(settings):
        there = bool(lakehouse.can.files) and any(lakehouse.exists(table) for table in keyed)
        if (there or any(table.name in known for table in keyed)) and not renew:
            raise TableError(f"the visitor key of the tables in {lakehouse.name} is missing", _KEY_REMEDY)
        if there and not noted:
            # After a kill before the end of the rebuild, the tables must not accept the new key.
            record_states(lakehouse, {table.name: TableState({_KEY: "lost"}) for table in keyed})
        make_visitor_key(settings)
    key = visitor_key(settings)
    if noted - {fingerprint(key)} and not renew:
        raise TableError(
            f"the visitor key is not the one that the tables in {lakehouse.name} were made with", _KEY_REMEDY
        )
    return key


def _has_state(table: Table) -> bool:
    # A table that follows another notices by itself that its rows are made in another way.
    return not table.follows and (table.kind == "upsert" or table.keyed or _has_lines(table))


def _has_history(table: Table) -> bool:
    """Whether the rows can be recomputed from another table of the home."""
    return (table.aggregation is not None and not table.follows) or _has_lines(table)


def _has_lines(table: Table) -> bool:
    return table.lines in ("accepted", "rejected")


def _identity(settings: Settings, table: Table) -> dict[str, str]:
    if not _has_state(table):
        return {}
    identity = dict(table.aggregation(settings.meaning).identity) if table.aggregation else {}
    key = {_KEY: fingerprint(visitor_key(settings))} if table.keyed else {}
    # A column that such a table gains has no values in earlier rows.
    columns = {f"column {each.name}": each.type for each in table.columns} if _has_lines(table) else {}
    # A table that another flow commits from now on lacks the lines between the two flows, until it is filled.
    now = {COMMITTED: "with the lines"} if table.now else {}
    return {
        **({_KEY_COLUMNS: ", ".join(table.key)} if table.kind == "upsert" else {}),
        **identity,
        **key,
        **columns,
        **now,
    }

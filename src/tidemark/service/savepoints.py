"""Creates and restores savepoints of a home."""

from __future__ import annotations

from tidemark.operate import losses
from tidemark.operate.savepoints import Savepoint, create, restore, saved_tables
from tidemark.pipeline import TABLES, chain, home_key
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.stream import schema_check


def make_savepoint(settings: Settings, name: str) -> Savepoint:
    """The `savepoint create` command. Raises as `savepoints.create`."""
    house = lakehouse.of(settings)
    lakehouse.require_files(house, "`savepoint`")
    losses.require_whole(settings, house, chain(house), schema_check.known(house, TABLES))
    return create(settings, house, name)


def restore_savepoint(
    settings: Settings, name: str, into: Settings | None, partitions: int | None, *, other_key: bool
) -> Savepoint:
    """The `savepoint restore` command. Raises as `savepoints.restore`, and TableError if the home's visitor key is
    not the savepoint's, unless `other_key` allows it."""
    house = saved_tables(settings, name)
    if not other_key:
        home_key(settings, house)
    return restore(settings, name, into, partitions)

"""Deletes the data of a visitor."""

from __future__ import annotations

from tidemark.operate import losses, notes
from tidemark.operate.forget import Forgotten, forget
from tidemark.pipeline import TABLES, chain, followers, home_key, places, streams
from tidemark.service.requirements import lakehouse_with_tables
from tidemark.service.stores import store_of
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.stream import schema_check


def forget_visitor(settings: Settings, *, visitor: str, address: str) -> Forgotten:
    """The `forget` command. Raises as `forget`, and TableError without tables."""
    house = lakehouse_with_tables(settings)
    lakehouse.require_files(house, "`forget`")
    losses.require_whole(settings, house, chain(house), schema_check.known(house, TABLES))
    home_key(settings, house)
    forgotten = forget(
        settings, house, TABLES, chain(house), streams(house), places(), followers(settings.meaning),
        visitor=visitor, address=address,
    )  # fmt: skip
    notes.record(settings, store_of(settings), "A visitor was deleted", notes.FORGET)
    return forgotten

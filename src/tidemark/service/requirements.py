"""What a home must have before an operation."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.errors import SettingError, TableError
from tidemark.operate import losses
from tidemark.pipeline import chain
from tidemark.service.stores import store_of
from tidemark.settings import Settings
from tidemark.settings.sections import MeaningSettings
from tidemark.store import deltalog, lakehouse
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lease import only_writer


def lakehouse_with_tables(settings: Settings, *, whole: bool = True) -> Lakehouse:
    """The settings' lakehouse. Raises TableError if its pipeline has not run yet or, unless `whole` is false, if
    its table quality.accounts or quality.sites is lost."""
    house = lakehouse.of(settings)
    store = store_of(settings)
    # A job's home has accounts, too.
    missing = [table for table in (ACCOUNTS, SITES) if not store.exists(table)]
    if missing and not house.can.durable and deltalog.last_batch(chain(house).first) >= 0:
        if whole:
            raise TableError(f"table {missing[0].name} at {house.path(missing[0])} is lost", losses.REPAIR)
        return house
    if missing:
        raise TableError(f"no tables yet in {house.name}", "Run `tidemark run` or `tidemark demo` first.")
    return house


def only_writer_of(
    settings: Settings, house: Lakehouse, what: str
) -> AbstractContextManager[threading.Event]:
    return only_writer(house, what, home=settings.home if house.can.keeps_home else None)


def require_lasting_key(meaning: MeaningSettings, house: Lakehouse) -> None:
    """Requires a visitor key where the home does not stay: a key made in it would differ on the next cluster."""
    if not house.can.keeps_home and not meaning.visitor_key:
        raise SettingError(
            f"tables in {house.name} need a visitor_key that stays",
            "Set TIDEMARK_VISITOR_KEY, from a secret.",
        )

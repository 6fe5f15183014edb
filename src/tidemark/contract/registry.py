"""The tables of this installation: one per module of the layers' packages, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import iter_modules

from tidemark.contract.table import Table
from tidemark.errors import TableError

LAYERS = ("bronze", "silver", "gold")
# A package declares its table as an entry point of this group, `NAME = "module:TABLE"`.
GROUP = "tidemark.tables"


def tables() -> tuple[Table, ...]:
    """Every table, layer by layer in order of names, then those of other packages.

    Raises TableError for an entry point that cannot be loaded, a table that the pipeline cannot make, or a duplicate
    name.
    """
    own = {table.name: table for table in _own()}
    others: dict[str, Table] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        table = _loaded(point)
        if table.name in own or table.name in others:
            raise _unusable(point, f"there is a table {table.name} already")
        others[table.name] = replace(table, package=point.dist.name if point.dist else point.value)
    return (*own.values(), *others.values())


def _own() -> Iterator[Table]:
    for layer in LAYERS:
        for module in sorted(iter_modules(import_module(layer).__path__), key=lambda module: module.name):
            if not module.name.startswith("_"):  # parts of a table's declaration
                yield import_module(f"{layer}.{module.name}").TABLE


def _loaded(point: EntryPoint) -> Table:
    try:
        table = point.load()
    except Exception as error:  # the import of a package may raise anything
        raise _unusable(point, f"it cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(table, Table):
        raise _unusable(point, f"it is a {type(table).__name__}, not a tidemark.contract.table.Table")
    if table.layer not in LAYERS:
        raise _unusable(point, f"its layer is {table.layer}, not one of {', '.join(LAYERS)}")
    if table.aggregation is None or table.reads != "silver.requests":
        raise _unusable(point, "it must read silver.requests (`reads`) and have an `aggregation`")
    return table


def _unusable(point: EntryPoint, why: str) -> TableError:
    package = point.dist.name if point.dist else point.value
    return TableError(
        f"the table {point.name} of the package {package} cannot be used: {why}",
        f"Correct or uninstall {package}.",
    )

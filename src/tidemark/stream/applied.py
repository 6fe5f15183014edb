"""The settings by which the rows of a table are made, as text, to tell later whether they have changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from tidemark.contract.table import Table
from tidemark.settings import Settings
from tidemark.settings.privacy import described
from tidemark.settings.sites import SiteSettings
from tidemark.stream.table_state import GAP, TableState

# The entry of recorded settings with the names of those that some rows have in another value.
_MIXED = "mixed"


def applied_to(settings: Settings, table: Table) -> dict[str, str] | None:
    """By name, the settings that the table's rows depend on: those of lines, or the gap of sessions; None for none."""
    if table.lines in ("accepted", "rejected"):
        return _of_lines(settings)
    if table.aggregation and GAP in table.aggregation(settings.meaning).identity:
        return {"session_gap_seconds": str(settings.meaning.session_gap_seconds)}
    return None


def _of_lines(settings: Settings) -> dict[str, str]:
    values = {
        "geo_database": settings.meaning.geo_database,
        "asn_database": settings.meaning.asn_database,
        "city_database": settings.meaning.city_database,
        "duplicate_days": str(settings.meaning.duplicate_days),
        **{f"formats.{name}": each.declared for name, each in settings.formats.items()},
    }
    values |= described(settings.privacy)
    usual = SiteSettings()
    for name, site in settings.sites.items():
        values |= {
            f"sites.{name}.{each.name}": _text(getattr(site, each.name))
            for each in fields(site)
            if getattr(site, each.name) != getattr(usual, each.name)
        }
    return values


def mixed(recorded: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Recorded settings with the mark that rows may have other values, too, in those of these names."""
    return {**recorded, _MIXED: ", ".join(sorted({*_mixed(recorded), *names}))}


def _mixed(recorded: Mapping[str, str]) -> set[str]:
    return set(filter(None, recorded.get(_MIXED, "").split(", ")))


def differences(settings: Settings, table: Table, state: TableState) -> dict[str, tuple[str, str]]:
    """The settings that differ from a table's state, with both values; a missing one is empty. The values are the same
    where only some rows have another one, because it was changed and changed back."""
    return _differing(state.applied, applied_to(settings, table) or {})


def line_differences(settings: Settings, state: TableState) -> dict[str, tuple[str, str]]:
    """The same for the state of a table of accepted or rejected lines."""
    return _differing(state.applied, _of_lines(settings))


def site_and_field(name: str) -> tuple[str, str]:
    """The site and the field that a setting such as `sites.shop.hosts` is of; both empty for one of no site."""
    section, _, rest = name.partition(".")
    site, _, field = rest.rpartition(".")
    return (site, field) if section == "sites" else ("", "")


def masks_history(settings: Settings, state: TableState) -> bool:
    """Whether lines of history are to be masked, because the privacy settings of the table of accepted lines, in this
    state, are others."""
    differing = line_differences(settings, state)
    return settings.privacy.active and any(name.startswith("privacy") for name in differing)


def privacy_differences(settings: Settings, state: TableState) -> dict[str, tuple[str, str]]:
    """The privacy settings that differ from those of the last start, or else of history."""
    if state.privacy is not None:
        return _differing(state.privacy, described(settings.privacy))
    differing = line_differences(settings, state)
    return {name: values for name, values in differing.items() if name.startswith("privacy")}


def _differing(was: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    if was is None:
        return {}
    several = _mixed(was)
    return {
        name: (was.get(name, ""), now.get(name, ""))
        for name in sorted({*was, *now, *several} - {_MIXED})
        if was.get(name, "") != now.get(name, "") or name in several
    }


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

"""The settings by which the rows of a table are made, as text, to tell later whether they have changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields

from tidemark.contract.table import Table
from tidemark.settings import Settings
from tidemark.settings.privacy import described
from tidemark.settings.sites import SiteSettings

# The entry of a table's state with them.
ENTRY = "settings"
# The entry with the privacy settings of the last start, which may be others than those of history.
PRIVACY = "privacy"
# The entry of an aggregation's identity by which a session ends.
_GAP = "gap"


def applied_to(settings: Settings, table: Table) -> dict[str, str]:
    """By entry, the settings that the table's rows depend on: those of lines, or the gap of sessions."""
    if table.lines in ("accepted", "rejected"):
        return _of_lines(settings)
    if table.made and _GAP in table.made(settings.meaning).identity:
        return {"session_gap_seconds": str(settings.meaning.session_gap_seconds)}
    return {}


def _of_lines(settings: Settings) -> dict[str, str]:
    found = {
        "geo_database": settings.meaning.geo_database,
        "asn_database": settings.meaning.asn_database,
        "city_database": settings.meaning.city_database,
        "duplicate_days": str(settings.meaning.duplicate_days),
        **{f"formats.{name}": each.declared for name, each in settings.formats.items()},
    }
    found |= described(settings.privacy)
    usual = SiteSettings()
    for name, site in settings.sites.items():
        found |= {
            f"sites.{name}.{each.name}": _text(getattr(site, each.name))
            for each in fields(site)
            if getattr(site, each.name) != getattr(usual, each.name)
        }
    return found


def entry(settings: Settings, table: Table) -> dict[str, str]:
    """The entry of the table's state; empty for a table that depends on no setting."""
    found = applied_to(settings, table)
    return {ENTRY: json.dumps(found, sort_keys=True)} if found else {}


def differences(settings: Settings, table: Table, state: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The settings that are others than those of a table's state, with both values; a missing one is empty."""
    return _differing(recorded(state), applied_to(settings, table))


def line_differences(settings: Settings, state: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The same for the state of a table of accepted or rejected lines."""
    return _differing(recorded(state), _of_lines(settings))


def privacy_differences(settings: Settings, state: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The privacy settings that are others than those of the last start, or else of history."""
    if PRIVACY in state:
        return _differing(json.loads(state[PRIVACY]), described(settings.privacy))
    found = line_differences(settings, state)
    return {name: values for name, values in found.items() if name.startswith("privacy")}


def privacy_entry(settings: Settings) -> dict[str, str]:
    """The entry PRIVACY of a table's state."""
    return {PRIVACY: json.dumps(described(settings.privacy), sort_keys=True)}


def with_settings(state: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """The entry of a table's state with other values of these settings; empty for a state without the entry."""
    was = recorded(state)
    return {} if was is None else {ENTRY: json.dumps({**was, **values}, sort_keys=True)}


def _differing(was: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    if was is None:
        return {}
    return {
        name: (was.get(name, ""), now.get(name, ""))
        for name in sorted({*was, *now})
        if was.get(name, "") != now.get(name, "")
    }


def recorded(state: Mapping[str, str]) -> dict[str, str] | None:
    """The settings of a table's state; None if it does not say them. Rows of before these were recorded only tell the
    gap of sessions."""
    if ENTRY in state:
        found: dict[str, str] = json.loads(state[ENTRY])
        return found
    return {"session_gap_seconds": state[_GAP].removesuffix(" s")} if _GAP in state else None


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)

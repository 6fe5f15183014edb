"""The settings by which lines are read, with the formats that the user declares, which are tested by their examples
when they are loaded."""

from __future__ import annotations

import logging
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from tidemark.errors import SettingError
from tidemark.parse import newer
from tidemark.parse.columns import Knowledge
from tidemark.parse.declaration import declared_format
from tidemark.parse.explain import Kind, explained
from tidemark.parse.format import Format
from tidemark.parse.formats import FORMATS
from tidemark.parse.newer import own_networks
from tidemark.parse.reading import Reading, SiteReading
from tidemark.parse.text import Lines
from tidemark.settings import Settings
from tidemark.settings.formats import FormatSettings

log = logging.getLogger("tidemark.formats")

_MOST_SHOWN = 80


def reading_of(settings: Settings) -> Reading:
    """How lines are read with these settings. Raises SettingError for a format that cannot be, or that does not read
    its examples, and for a robots.txt that cannot be read."""
    networks = own_networks(settings)
    sites = {
        name: SiteReading(**{**asdict(site), "robots": _robots(settings, name)}, networks=networks)
        for name, site in settings.sites.items()
    }
    own = tuple(own_format(name, each) for name, each in settings.formats.items())
    declared = {name: each.declared for name, each in settings.formats.items()}
    reading = Reading(sites, own, repr(sorted(declared.items())), networks)
    for format in own:
        _check(format, reading, settings.formats[format.name].source)
    return reading


def knowledge_of(settings: Settings, key: bytes) -> Knowledge:
    """The knowledge for enriching lines by these settings; `key` is the visitor key. Raises as `reading_of`."""
    databases = {name: newer.database(settings, name) for name in newer.DATABASES}
    return Knowledge(key, reading=reading_of(settings), **databases)


def _robots(settings: Settings, site: str) -> str:
    """The text of a site's robots.txt; empty without one."""
    name = settings.sites[site].robots
    if not name:
        return ""
    try:
        return (settings.home / name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SettingError(
            f"robots of site {site} cannot be read: {error}",
            "Name a file; a relative path is one of the home.",
        ) from error


def own_format(name: str, declared: FormatSettings) -> Format:
    """The format of a user's declaration. Raises SettingError if it cannot be read."""
    if name in FORMATS:
        raise SettingError(f"the format {name} already exists", "Choose another name.")
    return declared_format(name, declared)


def _check(format: Format, reading: Reading, source: str) -> None:
    """Reads the examples of an own format of `reading`, by its name and, if it is detected, without it.

    Raises SettingError, which names `source` and the example, if the format does not read one, or if a built-in format
    takes it first. An example that another own format takes first is a warning.
    """
    block = [each.encode() for each in format.examples]
    for kind in _kinds(block, format.name, reading):
        if not kind.format:
            lines = Lines.of(pa.array([kind.line.decode()]), np.ones(1, bool))
            [field] = format.progress(lines)[1]
            raise SettingError(
                f"{source}: the format {format.name} does not read its example, from"
                f" {f'the field {field}' if field else 'its end'} on: {_shown(kind)}",
                "Correct the format or the example.",
            )
        if kind.fault:
            raise SettingError(
                f"{source}: an example of the format {format.name} {kind.fault}: {_shown(kind)}",
                "Correct the format or the example.",
            )
    for kind in _kinds(block, None, reading) if format.detected else ():
        if kind.format in FORMATS:
            raise SettingError(
                f"{source}: an example of the format {format.name} is read as {kind.format}: {_shown(kind)}",
                "Set detected = false, and name the format on import.",
            )
        if kind.format != format.name:
            log.warning("%s: lines such as %s are read as %s", source, _shown(kind), kind.format)


def _kinds(block: list[bytes], named: str | None, reading: Reading) -> list[Kind]:
    return explained([(block, "")] if block else [], named, None, reading)


def _shown(kind: Kind) -> str:
    text = kind.line.decode()
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"

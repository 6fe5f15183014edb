"""The settings by which lines are read, with the formats that the user declares."""

from __future__ import annotations

from dataclasses import asdict

from tidemark.errors import SettingError
from tidemark.parse import examples, newer
from tidemark.parse.columns import Knowledge
from tidemark.parse.declaration import declared_format
from tidemark.parse.format import Format
from tidemark.parse.formats import FORMATS
from tidemark.parse.newer import own_networks
from tidemark.parse.reading import Reading, SiteReading
from tidemark.settings import Settings
from tidemark.settings.formats import FormatSettings


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
        examples.check(format, reading, settings.formats[format.name].source)
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

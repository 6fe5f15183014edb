"""The settings by which lines are read, with the formats that the user declares."""

from __future__ import annotations

from dataclasses import asdict

from tidemark.errors import SettingError
from tidemark.parse import examples
from tidemark.parse.declaration import declared_format
from tidemark.parse.format import Format
from tidemark.parse.formats import FORMATS
from tidemark.parse.reading import Reading, SiteReading
from tidemark.settings import Settings
from tidemark.settings.formats import FormatSettings


def reading_of(settings: Settings) -> Reading:
    """How lines are read with these settings. Raises SettingError for a format that cannot be, or that does not read
    its examples."""
    sites = {name: SiteReading(**asdict(site)) for name, site in settings.sites.items()}
    own = tuple(own_format(name, each) for name, each in settings.formats.items())
    declared = {name: each.declared for name, each in settings.formats.items()}
    reading = Reading(sites, own, repr(sorted(declared.items())))
    for format in own:
        examples.check(format, reading, settings.formats[format.name].source)
    return reading


def own_format(name: str, declared: FormatSettings) -> Format:
    """The format of a user's declaration. Raises SettingError if it cannot be read."""
    if name in FORMATS:
        raise SettingError(f"the format {name} already exists", "Choose another name.")
    return declared_format(name, declared)

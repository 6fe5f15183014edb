"""Data about addresses that a home has itself, in `<home>/data`: lists of networks, and databases (MMDB files).

`tidemark data update` puts them there. A list replaces that of the installation with the same name.
"""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import InputError
from tidemark.parse.list_files import validated
from tidemark.parse.networks import Own
from tidemark.settings import Settings

# The databases by their settings: what they are about, which is also the name of their files in a home.
KINDS = {"geo_database": "country", "asn_database": "asn", "city_database": "city"}
DATABASES = tuple(KINDS)


def networks_directory(settings: Settings) -> Path:
    """The directory of the home's lists of networks."""
    return settings.data / "networks"


def own_networks(settings: Settings) -> Own:
    """Names and texts of the home's lists, in the order of names. Raises InputError for one that cannot be read."""
    directory = networks_directory(settings)
    try:
        own = tuple((path.stem, path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.tsv")))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"a list of networks cannot be read: {error}", f"Remove it from {directory}."
        ) from error
    for name, text in own:
        validated(name, text)
    return own


def database_file(settings: Settings, setting: str) -> Path:
    """The home's own file of a database, whether or not it exists."""
    return settings.data / f"{KINDS[setting]}.mmdb"


def database(settings: Settings, setting: str) -> str:
    """The file of a database: that of the setting, else the home's; empty if there is none."""
    path = database_file(settings, setting)
    return getattr(settings.meaning, setting) or (str(path) if path.is_file() else "")

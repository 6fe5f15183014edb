"""Facts about addresses: countries, also from the data inside the package `iptocc`, and from a user's own databases
(MMDB files) autonomous systems and cities."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import iptocc
import maxminddb

from tidemark.errors import InputError
from tidemark.parse.values import is_address

UNKNOWN = "ZZ"
_CODE = re.compile("[A-Z]{2}")
# The data type `int` of the column; larger numbers are for private use.
_MOST_ASN = 2**31 - 1
# Records that are read to validate a database.
_SAMPLE = 10_000


class System(NamedTuple):
    """An autonomous system: its number, and the organisation that runs it."""

    asn: int | None
    organisation: str | None


class Place(NamedTuple):
    city: str | None
    region: str | None


def countries(database: str, addresses: Sequence[str | None]) -> list[str]:
    """The ISO 3166-1 alpha-2 code of the country of each address, UNKNOWN where it is not known, by an MMDB file as it
    is now, or the built-in data if `database` is empty. Raises InputError for a missing or corrupt file."""
    codes: Sequence[str | None] = []
    if database:
        codes = [_code(record) for record in _records(database, "geo_database", addresses)]
    elif addresses:
        codes = iptocc.country_code([address or "" for address in addresses])
    return [code or UNKNOWN for code in codes]


def systems(database: str, addresses: Sequence[str | None]) -> list[System]:
    """The autonomous system of each address, by a file in the layout of MaxMind, DB-IP or IPinfo. Raises InputError
    for a missing or corrupt file."""
    return [_system(record) for record in _records(database, "asn_database", addresses)]


def places(database: str, addresses: Sequence[str | None]) -> list[Place]:
    """The city and region of each address, likewise."""
    return [_place(record) for record in _records(database, "city_database", addresses)]


def version(database: str, setting: str) -> str:
    """Type and time of a database, for `silver.requests.rules_version`; for an empty one the version of the built-in
    data about countries. Raises InputError."""
    if not database:
        return _built_in_version()
    about = opened(database, setting).metadata()
    return f"{about.database_type} {about.build_epoch}"


@cache
def _built_in_version() -> str:
    return f"iptocc {metadata.version('iptocc')}"  # reads a file


def opened(database: str, setting: str) -> maxminddb.Reader:
    """A database as it is now. `setting` names it in an error. Raises InputError for a missing or corrupt file."""
    path = Path(database)
    if not path.is_file():
        called = "geo database" if setting == "geo_database" else setting
        raise InputError(f"{called} {database} does not exist", _remedy(setting))
    there = path.stat()
    return _opened(database, setting, there.st_ino, there.st_mtime_ns)


@lru_cache(maxsize=8)
def _opened(database: str, setting: str, *_: int) -> maxminddb.Reader:
    try:
        try:
            # The reader in C maps the file into memory, so one that is overwritten in place would end this process by a
            # signal. A copy without a name is as quick to read, and the system can free its memory.
            with tempfile.TemporaryFile(prefix="tidemark-") as copy, Path(database).open("rb") as file:
                shutil.copyfileobj(file, copy)
                copy.flush()
                return maxminddb.open_database(f"/dev/fd/{copy.fileno()}")
        # The reader in C, which is faster, wants exact types of numbers; and there may be no room for the copy.
        except (maxminddb.InvalidDatabaseError, OSError):
            return maxminddb.open_database(database, maxminddb.MODE_MEMORY)
    except (OSError, ValueError, LookupError, TypeError, maxminddb.InvalidDatabaseError) as error:
        raise _unreadable(database, setting, error) from error


def require_records(database: str, setting: str) -> None:
    """Raises InputError unless the first records of a database can be read, and one of them has what the setting is
    for."""
    reader = opened(database, setting)
    try:
        records = [record for _, record in islice(reader, _SAMPLE) if isinstance(record, dict)]
    except (ValueError, maxminddb.InvalidDatabaseError) as error:
        raise _unreadable(database, setting, error) from error
    known = {
        "asn_database": lambda record: _system(record) != System(None, None),
        "city_database": lambda record: _place(record) != Place(None, None),
        "geo_database": lambda record: _code(record) is not None,
    }[setting]
    if not any(map(known, records)):
        raise InputError(f"{database} has no record that {setting} could use", _remedy(setting))


def _records(database: str, setting: str, addresses: Sequence[str | None]) -> Iterator[dict[str, Any]]:
    """The record of each address, empty without one."""
    get: Callable[[str], Any] = opened(database, setting).get
    for address in addresses:
        try:
            record = get(address) if address and is_address(address) else None
        except ValueError:  # an IPv6 address in a database with only IPv4
            record = None
        except maxminddb.InvalidDatabaseError as error:
            raise _unreadable(database, setting, error) from error
        yield record if isinstance(record, dict) else {}


def _code(record: dict[str, Any]) -> str | None:
    place = record.get("country") or record.get("registered_country") or {}
    code = (place.get("iso_code") if isinstance(place, dict) else None) or record.get("country_code")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _system(record: dict[str, Any]) -> System:
    number = record.get("autonomous_system_number") or record.get("asn")
    if isinstance(number, str):
        digits = number.upper().removeprefix("AS")
        number = int(digits) if digits.isdecimal() else None
    known = isinstance(number, int) and 0 < number <= _MOST_ASN
    names = ("autonomous_system_organization", "as_name", "name", "organization")
    return System(
        number if known else None, next(filter(None, (_text(record.get(name)) for name in names)), None)
    )


def _place(record: dict[str, Any]) -> Place:
    regions = record.get("subdivisions")
    region = (
        regions[0] if isinstance(regions, list) and regions else record.get("region") or record.get("state1")
    )
    return Place(_text(record.get("city")), _text(region))


def _text(value: Any) -> str | None:
    """A text, or the English name of a place."""
    if isinstance(value, dict):
        names = value.get("names")
        value = names.get("en") if isinstance(names, dict) else None
    return value if isinstance(value, str) and value else None


def _remedy(setting: str) -> str:
    if setting == "geo_database":
        return "Set geo_database to a readable MMDB file with countries, or unset it for the built-in data."
    return f"Set {setting} to a readable MMDB file, or unset it."


def _unreadable(database: str, setting: str, error: Exception) -> InputError:
    if setting == "geo_database":
        return InputError(f"geo database {database} cannot be read: {error}", _remedy(setting))
    return InputError(f"{setting} {database} cannot be read: {error}", _remedy(setting))

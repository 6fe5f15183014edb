"""Country of an address: from the data inside the `iptocc` package, or from a user's MMDB file."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import iptocc
import maxminddb

from tidemark.errors import InputError

UNKNOWN = "ZZ"
_CODE = re.compile("[A-Z]{2}")
_REMEDY = "Set geo_database to a readable MMDB file with countries, or unset it for the built-in data."

# addresses -> ISO 3166-1 alpha-2 codes, `ZZ` where unknown
Lookup = Callable[[Sequence[str]], list[str]]


def lookup(database: str) -> Lookup:
    """The look-up in an MMDB file as it is now, or the built-in one if `database` is empty.

    Raises InputError for a missing or corrupt file.
    """
    return _from_file(database, *_stamp(database)) if database else _built_in


def data_version(database: str) -> str:
    """The version of the country data, for `silver.requests.rules_version`. Raises as `lookup`."""
    return _version_of(database, *_stamp(database)) if database else _built_in_version()


@cache
def _built_in_version() -> str:
    return f"iptocc {version('iptocc')}"  # reads a file


@lru_cache(maxsize=4)
def _version_of(database: str, *_: int) -> str:
    with _open(database) as reader:
        return f"{reader.metadata().database_type} {reader.metadata().build_epoch}"


def _stamp(database: str) -> tuple[int, ...]:
    """A value that changes when the file is replaced; empty for a missing one."""
    try:
        status = Path(database).stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns


def is_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address in its usual notation."""
    try:
        # Same result as `ipaddress.ip_address`, in a tenth of the time.
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def _built_in(addresses: Sequence[str]) -> list[str]:
    return [code or UNKNOWN for code in iptocc.country_code(list(addresses))] if addresses else []


@lru_cache(maxsize=4)
def _from_file(database: str, *_: int) -> Lookup:
    reader = _open(database)

    def country(address: str) -> str:
        try:
            record = reader.get(address) if is_address(address) else None
        except ValueError:  # an IPv6 address in a database with only IPv4
            return UNKNOWN
        except maxminddb.InvalidDatabaseError as error:
            raise _unreadable(database, error) from error
        return (code_of(record) if isinstance(record, dict) else None) or UNKNOWN

    return lambda addresses: [country(address) for address in addresses]


def code_of(record: dict[str, Any]) -> str | None:
    """The code of the country in a record of an MMDB file; None if it has none."""
    place = record.get("country") or record.get("registered_country") or {}
    code = (place.get("iso_code") if isinstance(place, dict) else None) or record.get("country_code")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _open(database: str) -> maxminddb.Reader:
    if not Path(database).is_file():
        raise InputError(f"geo database {database} does not exist", _REMEDY)
    try:
        return maxminddb.open_database(database, maxminddb.MODE_MEMORY)
    except (OSError, ValueError, LookupError, TypeError, maxminddb.InvalidDatabaseError) as error:
        raise _unreadable(database, error) from error


def _unreadable(database: str, error: Exception) -> InputError:
    return InputError(f"geo database {database} cannot be read: {error}", _REMEDY)

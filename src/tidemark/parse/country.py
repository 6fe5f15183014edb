"""Country of an address: from the data inside the `iptocc` package, or from a user's MMDB file."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path

import iptocc
import maxminddb

from tidemark.errors import InputError

UNKNOWN = "ZZ"
_CODE = re.compile("[A-Z]{2}")
_REMEDY = "Set geo_database to a readable MMDB file with countries, or unset it for the built-in data."

# addresses -> ISO 3166-1 alpha-2 codes, `ZZ` where unknown
Lookup = Callable[[Sequence[str]], list[str]]


@lru_cache(maxsize=4)
def lookup(database: str) -> Lookup:
    """The look-up in an MMDB file, or the built-in one if `database` is empty.

    Raises InputError for a missing or corrupt file.
    """
    return _from_file(database) if database else _built_in


@cache
def data_version(database: str) -> str:
    """The version of the country data, for `silver.requests.rules_version`."""
    if not database:
        return f"iptocc {version('iptocc')}"
    with _open(database) as reader:
        return f"{reader.metadata().database_type} {reader.metadata().build_epoch}"


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


def _from_file(database: str) -> Lookup:
    reader = _open(database)

    def country(address: str) -> str:
        try:
            record = reader.get(address) if is_address(address) else None
        except ValueError:  # an IPv6 address in a database with only IPv4
            return UNKNOWN
        except maxminddb.InvalidDatabaseError as error:
            raise _unreadable(database, error) from error
        if not isinstance(record, dict):
            return UNKNOWN
        place = record.get("country") or record.get("registered_country") or {}
        code = (place.get("iso_code") if isinstance(place, dict) else None) or record.get("country_code")
        return code if isinstance(code, str) and _CODE.fullmatch(code) else UNKNOWN

    return lambda addresses: [country(address) for address in addresses]


def _open(database: str) -> maxminddb.Reader:
    if not Path(database).is_file():
        raise InputError(f"geo database {database} does not exist", _REMEDY)
    try:
        return maxminddb.open_database(database, maxminddb.MODE_MEMORY)
    except (OSError, ValueError, LookupError, TypeError, maxminddb.InvalidDatabaseError) as error:
        raise _unreadable(database, error) from error


def _unreadable(database: str, error: Exception) -> InputError:
    return InputError(f"geo database {database} cannot be read: {error}", _REMEDY)

from __future__ import annotations

import ipaddress
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import InputError
from tidemark.parse.mmdb import countries, version
from tidemark.parse.values import is_address


class Short(int):
    """A number of two bytes."""


class Long(int):
    """A number of eight bytes."""


def mmdb(networks: dict[str, dict[str, Any]], version: int, *, exact: bool = False) -> bytes:
    """A MaxMind DB (format 2.0, 24-bit records) of non-overlapping networks; with `exact`, its numbers have the types
    that the reader in C wants."""
    tree: list[list[Any]] = [[None, None]]
    data, places = b"", []
    for network, record in networks.items():
        address = ipaddress.ip_network(network)
        places.append(len(data))
        data += _encoded(record)
        bits = f"{int(address.network_address):0{address.max_prefixlen}b}"[: address.prefixlen]
        node = 0
        for bit in bits[:-1]:
            if tree[node][int(bit)] is None:
                tree.append([None, None])
                tree[node][int(bit)] = len(tree) - 1
            node = tree[node][int(bit)]
        tree[node][int(bits[-1])] = ("data", places[-1])
    nodes = b""
    for node_pair in tree:
        for side in node_pair:
            value = len(tree) if side is None else side if isinstance(side, int) else len(tree) + 16 + side[1]
            nodes += value.to_bytes(3, "big")
    short, long = (Short, Long) if exact else (int, int)
    metadata = {
        "node_count": len(tree), "record_size": short(24), "ip_version": short(version),
        "database_type": "Test-Country", "languages": [], "binary_format_major_version": short(2),
        "binary_format_minor_version": short(0), "build_epoch": long(1_700_000_000), "description": {"en": "test"},
    }  # fmt: skip
    return nodes + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + _encoded(metadata)


def _encoded(value: Any) -> bytes:
    match value:
        case dict():
            return bytes([7 << 5 | len(value)]) + b"".join(
                _encoded(k) + _encoded(v) for k, v in value.items()
            )
        case list():
            return bytes([len(value), 11 - 7]) + b"".join(map(_encoded, value))
        case str():
            size = [len(value)] if len(value) < 29 else [29, len(value) - 29]
            return bytes([2 << 5 | size[0], *size[1:]]) + value.encode()
        case Short():
            return bytes([5 << 5 | 2]) + int(value).to_bytes(2, "big")
        case Long():
            return bytes([8, 9 - 7]) + int(value).to_bytes(8, "big")
        case _:
            return bytes([6 << 5 | 4]) + int(value).to_bytes(4, "big")


COUNTRIES = {
    "203.0.113.0/24": {"country": {"iso_code": "NZ"}},
    "198.51.100.0/25": {"registered_country": {"iso_code": "FR"}},
    "198.51.100.128/25": {"country_code": "IT"},
    "192.0.2.0/24": {"country": {"iso_code": "Europe"}},
}


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "countries.mmdb"
    path.write_bytes(mmdb(COUNTRIES, 4))
    return str(path)


def test_the_built_in_data() -> None:
    addresses = ["8.8.8.8", "2001:4860:4860::8888", "10.0.0.1", "::1", "garbage", "", "8.8.8.8%1", "日本"]
    assert countries("", addresses) == ["US", "US", "ZZ", "ZZ", "ZZ", "ZZ", "ZZ", "ZZ"]
    assert countries("", []) == []
    assert version("", "geo_database").startswith("iptocc ")


def test_a_database_of_the_user(database: str) -> None:
    result = countries(database, ["203.0.113.9", "198.51.100.1", "198.51.100.200", "8.8.8.8", "garbage"])
    assert result == ["NZ", "FR", "IT", "ZZ", "ZZ"]
    assert version(database, "geo_database") == "Test-Country 1700000000"


def test_what_is_no_country_code_is_unknown(database: str) -> None:
    assert countries(database, ["192.0.2.1"]) == ["ZZ"]


def test_an_ipv6_address_is_unknown_to_a_database_of_ipv4(database: str) -> None:
    assert countries(database, ["2001:db8::1", "203.0.113.9"]) == ["ZZ", "NZ"]


def test_a_database_of_ipv6(tmp_path: Path) -> None:
    path = tmp_path / "six.mmdb"
    path.write_bytes(mmdb({"2001:db8::/32": {"country": {"iso_code": "NO"}}}, 6))
    assert countries(str(path), ["2001:db8::1", "2001:db9::1", "203.0.113.9"]) == ["NO", "ZZ", "ZZ"]


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\xab\xcd\xefMaxMind.com", b"\xab\xcd\xefMaxMind.com\xff\xff"]
)
def test_a_corrupt_database_is_a_clear_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "corrupt.mmdb"
    path.write_bytes(content)
    for read in (lambda: version(str(path), "geo_database"), lambda: countries(str(path), [])):
        with pytest.raises(InputError, match="geo_database") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_truncated_database_is_a_clear_error(database: str, tmp_path: Path) -> None:
    whole = Path(database).read_bytes()
    for size in range(0, len(whole) - 1, 37):
        path = tmp_path / f"cut-{size}.mmdb"
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            version(str(path), "geo_database")


OVERWRITTEN = """
import sys
from pathlib import Path
from tidemark.parse.mmdb import countries, opened
path = Path(sys.argv[1])
reader, content = opened(str(path), "geo_database"), path.read_bytes()
with path.open("wb") as file:  # `cp` does it so
    print(reader.get("203.0.113.9"))
    file.write(content.replace(b"NZ", b"NO"))
print(countries(str(path), ["203.0.113.9"]), type(reader).__module__)
"""


def test_a_database_that_is_overwritten_in_place_is_read_as_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "countries.mmdb"
    path.write_bytes(mmdb(COUNTRIES, 4, exact=True))
    command = [sys.executable, "-c", OVERWRITTEN, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.splitlines() == ["{'country': {'iso_code': 'NZ'}}", "['NO'] maxminddb.extension"]


def test_a_database_is_read_where_there_is_no_room_for_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "countries.mmdb"
    path.write_bytes(mmdb(COUNTRIES, 4, exact=True))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    assert countries(str(path), ["203.0.113.9"]) == ["NZ"]


@pytest.mark.parametrize("path", ["/nowhere/x.mmdb", "/"])
def test_a_missing_database_is_a_clear_error(path: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        version(path, "geo_database")


@pytest.mark.parametrize(
    "text, valid",
    [("1.2.3.4", True), ("::", True), ("1.2.3", False), ("1.2.3.04", False), ("fe80::1%a", False),
     ("", False), ("7", False)],
)  # fmt: skip
def test_is_address(text: str, valid: bool) -> None:
    assert is_address(text) is valid


@given(
    st.one_of(
        st.text(max_size=12),
        st.from_regex(r"[0-9a-fA-F:.]{1,45}", fullmatch=True),
        st.from_regex(r"([0-9]{1,4}\.){3}[0-9]{1,4}", fullmatch=True),
        st.from_regex(r"([0-9a-f]{0,5}:){1,8}([0-9]{1,3}\.){0,3}[0-9a-f]{0,4}", fullmatch=True),
        st.ip_addresses().map(str),
    )
)
def test_is_address_says_what_the_standard_library_says(text: str) -> None:
    try:
        expected = "%" not in str(ipaddress.ip_address(text))
    except ValueError:
        expected = False
    assert is_address(text) is expected

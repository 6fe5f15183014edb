"""Newer data about addresses: taken in as a whole or not at all, and compared with history before a rebuild."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.app import lakehouse
from tests.parse.test_country import mmdb
from tidemark.cli import tidemark
from tidemark.errors import InputError
from tidemark.parse import newer
from tidemark.parse.inventory import inventory
from tidemark.parse.networks import kinds_of, verified
from tidemark.service.data import outdated, update
from tidemark.settings import Settings

HEADER = "# hosting\t2026-11-01\thttps://example.com/networks\tCC0-1.0\n"
ASN = {"192.0.2.0/25": {"autonomous_system_number": 64500, "autonomous_system_organization": "Example Ltd"}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.of(home=tmp_path / "home")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    directory = tmp_path / "given"
    directory.mkdir()
    return directory


def asn(networks: dict[str, dict[str, Any]]) -> bytes:
    return mmdb(networks, 4).replace(b"Test-Country", b"Test-ASN\x00\x00\x00\x00")


def test_lists_and_databases_of_a_directory_are_taken_in(settings: Settings, given: Path) -> None:
    (given / "example.tsv").write_text(HEADER + "198.51.100.0/24\n2001:db8::/32\n")
    (given / "asn.mmdb").write_bytes(asn(ASN))
    prefixes = [{"ipv4Prefix": "203.0.114.0/24"}, {"ipv4Prefix": "192.0.2.0/24"}]
    published = {"creationTime": "2026-11-20T14:46:21", "prefixes": prefixes}
    (given / "googlebot.json").write_text(json.dumps(published))
    (given / "README.md").write_text("not data: 192.0.2.0/24")

    planned = update(settings, given, dry_run=True)
    assert not newer.own_networks(settings) and not settings.home.exists()
    done = update(settings, given)

    assert planned == done and done.version != done.version_before and done.lines is None
    actual = {each.name: each for each in inventory(settings) if each.where == "home"}
    assert {name: (each.date, each.entries) for name, each in actual.items() if each.kind != "database"} == {
        "example": ("2026-11-01", 2), "google-googlebot": ("2026-11-20", 1),
    }  # fmt: skip
    assert {change.now.name: change.left_out for change in done.changes if change.left_out} == {
        "google-googlebot": ("192.0.2.0/24",)
    }
    own = newer.own_networks(settings)
    assert kinds_of(["198.51.100.9", "2001:db8::7"], own) == ["hosting", "hosting"]
    assert verified(["Googlebot"] * 2, ["203.0.114.5", "34.100.182.96"], own) == ["verified", "forged"]
    assert newer.database(settings, "asn_database") == str(settings.data / "asn.mmdb")
    again = update(settings, given)
    assert again.version == again.version_before == done.version


@pytest.mark.parametrize(
    "name, content",
    [
        ("example.tsv", "198.51.100.0/24\n"),
        ("example.tsv", HEADER),
        ("example.tsv", HEADER + "198.51.100.0/33\n"),
        ("example.tsv", HEADER + "198.51.100.1/24\n"),
        ("example.tsv", HEADER + "0.0.0.0/0\n"),
        ("example.tsv", HEADER.replace("hosting", "cloud") + "198.51.100.0/24\n"),
        ("Ex ample.tsv", HEADER + "198.51.100.0/24\n"),
        ("googlebot.json", "{}"),
        ("cloudflare.txt", "999.1.2.0/24"),
        ("asn.mmdb", "nothing"),
        ("asn.mmdb", asn({"192.0.2.0/24": {"country": "NZ"}})),
        ("asn.mmdb", asn(ASN)[:-60]),
        ("else.mmdb", mmdb(ASN, 4).replace(b"Test-Country", b"Test-Proxies")),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(
    settings: Settings, given: Path, name: str, content: str | bytes
) -> None:
    (given / "good.tsv").write_text(HEADER + "198.51.100.0/24\n")
    (given / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as refused:
        update(settings, given)
    assert "\n" not in str(refused.value) and not settings.home.exists()


def test_a_database_that_a_setting_names_is_not_replaced(settings: Settings, given: Path) -> None:
    mine = given / "asn.mmdb"
    mine.write_bytes(asn(ASN))
    with pytest.raises(InputError, match=r"asn_database names .*, which counts"):
        update(settings.changed(asn_database=str(mine)), mine)


def test_a_damaged_list_of_the_home_is_an_error(settings: Settings) -> None:
    directory = newer.networks_directory(settings)
    directory.mkdir(parents=True)
    (directory / "own.tsv").write_text(HEADER + "here\n")
    with pytest.raises(InputError, match="own is no list of networks"):
        newer.own_networks(settings)


def test_a_path_without_data_is_an_error(settings: Settings, given: Path) -> None:
    (given / "notes.txt").write_text("192.0.2.0/24")
    for path in (given, given / "notes.txt", given / "missing"):
        with pytest.raises(InputError):
            update(settings, path)


def test_the_command_says_what_history_would_change(settings: Settings, given: Path) -> None:
    lines = lakehouse.build(settings.home, lakehouse.requests())
    (given / "asn.mmdb").write_bytes(asn(ASN))
    inside = lines["client_ip"].str.split(".").str[3].astype(int) < 128

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(tidemark, ["--home", str(settings.home), "data", *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    actual = json.loads(call("update", str(given), "--json", "--dry-run"))
    changed = lines["as_org"].mask(lines["as_org"].notna(), "").fillna("none")
    wanted = int((inside | (changed != "none")).sum())
    assert actual["lines"] == len(lines)
    assert actual["lines_with_another"]["as_org"] == wanted
    assert actual["lines_with_another"]["asn"] == int(inside.sum())
    text = call("update", str(given))
    assert f"{wanted:,} lines of {len(lines):,} would have another as_org" in text
    assert "asn (Test-ASN" in call()
    assert outdated(settings)[0]["as_org"] == wanted
    assert {each["where"] for each in json.loads(call("--json"))} == {"installation", "home"}
    (given / "googlebot.json").write_text('["203.0.114.0/24", "192.0.2.0/24"]')
    text = call("update", str(given / "googlebot.json"), "--dry-run")
    assert "left out: 1 reserved network, 192.0.2.0/24" in text

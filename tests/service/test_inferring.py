"""Inferred formats in the settings file of a home."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.parse.infer_cases import CASES, requests
from tidemark.errors import SettingError
from tidemark.local.records import write_record
from tidemark.parse.infer import Inferred
from tidemark.service.inferring import Sampled, await_taken_over, declaration, sampled, save, with_format
from tidemark.settings import Settings, load

NOW = {case.name: [case.line(request) for request in requests(100)] for case in CASES}
COMBINED = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'


def sample(lines: Sequence[str], settings: Settings) -> Sampled:
    return sampled({"": [line.encode() for line in lines]}, None, "default", settings)


def saved(settings: Settings, path: str, lines: Sequence[str]) -> str:
    result = sample(lines, settings)
    assert isinstance(result.inferred, Inferred)
    return save(settings, path, result, result.inferred)


@pytest.mark.parametrize(
    "name", ["time first", "chi", "tabs", "single quotes", "logfmt with optional keys", "nested json"]
)
def test_a_saved_format_is_loaded_as_it_was_inferred(name: str, tmp_path: Path) -> None:
    settings = load({"home": tmp_path})
    result = sample(NOW[name], settings).inferred
    assert isinstance(result, Inferred)
    assert saved(settings, "/var/log/Shop access.log.2.gz", NOW[name]) == "shop_access"
    assert load({"home": tmp_path}).formats == {"shop_access": result.format}


def test_lines_are_read_after_it_is_saved_and_nothing_new_is_inferred(tmp_path: Path) -> None:
    settings = load({"home": tmp_path})
    lines = [*NOW["pipes"], COMBINED, COMBINED]
    assert sample(lines, settings).formats == {"": 100, "combined": 2}
    saved(settings, "a.log", lines)
    after = sample(lines, load({"home": tmp_path}))
    assert after.formats == {"a": 100, "combined": 2}
    assert after.inferred is None and after.unread == []


def test_what_stands_in_the_file_stays_and_the_table_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text(
        "# ours\nsession_gap_seconds = 900  # a quarter\n\n[formats.a]  # by hand\n"
        "nginx = '$remote_addr [$time_local] $status $host'\n"
    )
    file.chmod(0o640)
    before = file.read_text()
    assert saved(load({"home": tmp_path}), "a.log", NOW["time first"]) == "a_2"
    text = file.read_text()
    assert text.startswith(before.rstrip("\n"))
    assert "\n[formats.a_2]\n# Inferred on " in text
    assert ": 100.0% of 100 lines of a.log that no other format reads\n" in text
    assert (
        """layout = '[$time] $client_ip "$request" $status $bytes "$referrer" "$user_agent"'\ndetected = true\n"""
        in text
    )
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("form", ["formats = {{ a = {{ {} }} }}", "formats.a.{}"])
def test_formats_that_are_no_tables_are_left_as_they_are(form: str, tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    text = form.format("nginx = '$remote_addr [$time_local] $status'") + "\ntopic = 'log'\n"
    file.write_text(text)
    with pytest.raises(SettingError, match=r"not written as tables. Write \[formats.NAME\]"):
        saved(load({"home": tmp_path}), "b.log", NOW["time first"])
    assert file.read_text() == text


def test_a_name_of_a_file_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    assert saved(load({"home": tmp_path}), "shop\udcff\nx = 1.log", NOW["time first"]) == "shop_x_1"
    assert r"100 lines of shop\udcff\nx = 1.log that" in (tmp_path / "tidemark.toml").read_text()
    assert load({"home": tmp_path}).formats.keys() == {"shop_x_1"}


def test_a_name_that_a_format_has_gets_a_number(tmp_path: Path) -> None:
    settings = load({"home": tmp_path})
    assert saved(settings, "combined.log", NOW["tabs"]) == "combined_2"
    assert saved(load({"home": tmp_path}), "....log", NOW["csv"]) == "inferred"


def test_a_declaration_is_a_table_of_the_settings_file(tmp_path: Path) -> None:
    lines = [line.replace("[GIN]", "[APP]") for line in NOW["gin"]]
    result = sample(lines, load({"home": tmp_path})).inferred
    assert isinstance(result, Inferred)
    assert declaration("mine", result.format) == (
        "[formats.mine]\n"
        """layout = '[$_1] $date $_3 $clock | $status | $duration | $client_ip | $method "$target"'\n"""
        "detected = true\nsqueezed = true"
    )


def test_an_import_waits_until_the_running_pipeline_has_the_format(tmp_path: Path) -> None:
    settings = load({"home": tmp_path})
    settings.run_directory.mkdir()
    assert await_taken_over(settings, "mine")  # no pipeline runs
    record = settings.run_directory / "pipeline.json"
    write_record(record, pid=os.getpid(), formats=["other"])
    assert not await_taken_over(settings, "mine", seconds=0)
    write_record(record, pid=os.getpid(), formats=["mine", "other"])
    assert await_taken_over(settings, "mine", seconds=0)


def test_settings_with_a_format_keep_the_others(tmp_path: Path) -> None:
    settings = load({"home": tmp_path})
    result = sample(NOW["csv"], settings).inferred
    assert isinstance(result, Inferred)
    both = with_format(with_format(settings, "a", result.format), "b", result.format)
    assert set(both.formats) == {"a", "b"}

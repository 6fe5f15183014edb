"""One visitor's rows are deleted from every table and from the disk; other rows and the accounts stay exact."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests import processes
from tests.pipeline.harness import assert_equal, fresh, produce, rows, run_here, run_process
from tests.pipeline.recount import recount
from tests.recovery.killing import Pair, await_running, traffic
from tidemark.cli import main, tidemark
from tidemark.errors import SettingError
from tidemark.operate.forget import holding
from tidemark.service.forget import forget_all_of, forget_visitor
from tidemark.service.savepoints import make_savepoint
from tidemark.settings import Settings
from tidemark.stream.swap import Swap

TABLES = ("bronze.access_log", "silver.requests", "silver.rejected", "silver.sessions")


@pytest.fixture(scope="module")
def lines() -> list[Pair]:
    return traffic(seed=41, lines=2_000)


@pytest.fixture(scope="module")
def address(lines: list[Pair]) -> str:
    """The address with most lines."""
    return Counter(line.split()[0].decode() for _, line in lines).most_common(1)[0][0]


@pytest.fixture(scope="module")
def bad(address: str) -> list[Pair]:
    """Lines that are rejected: one with the address, one with another that ends like it."""
    return [("default", b"broken line of " + address.encode()), ("default", b"broken 1" + address.encode())]


@pytest.fixture(scope="module")
def original(
    broker: Settings,
    spark: SparkSession,
    lines: list[Pair],
    bad: list[Pair],
    tmp_path_factory: pytest.TempPathFactory,
) -> Settings:
    settings = fresh(broker, tmp_path_factory.mktemp("forget"))
    produce(settings, [*lines, *bad])
    run_here(spark, settings)
    return settings


@pytest.fixture
def home_with_rows(original: Settings, tmp_path: Path) -> Settings:
    shutil.copytree(original.home, tmp_path / "home")
    return original.changed(home=tmp_path / "home")


def keys(settings: Settings, table: str) -> set[tuple[object, ...]]:
    return set(rows(settings, table, ["partition", "offset"]))


def on_disk(settings: Settings, text: str) -> bool:
    """Whether any file of the tables, old versions too, still has the address."""
    result = False
    for table in TABLES[:3]:
        for file in (settings.tables / table.replace(".", "/")).glob("*.parquet"):
            for row in pq.read_table(file).to_pylist():
                value = (row.get("value") or b"").decode(errors="replace")
                alone = re.search(rf"(?<![\w.:]){re.escape(text)}(?![\w.:])", value)
                result |= row.get("client_ip") == text or alone is not None
    return result


def assert_balanced(settings: Settings) -> None:
    accounts = rows(settings, "quality.accounts", ["received", "accepted", "rejected", "duplicate"])
    assert all(r == a + b + d for r, a, b, d in accounts)  # type: ignore[operator]
    assert sum(row[1] for row in accounts) == len(keys(settings, "silver.requests"))  # type: ignore[misc]
    assert sum(row[2] for row in accounts) == len(keys(settings, "silver.rejected"))  # type: ignore[misc]
    assert sum(row[0] for row in accounts) == len(keys(settings, "bronze.access_log"))  # type: ignore[misc]
    sites = rows(settings, "quality.sites", ["accepted", "rejected"])
    assert sum(row[0] for row in sites) == len(keys(settings, "silver.requests"))  # type: ignore[misc]


def test_by_address(home_with_rows: Settings, spark: SparkSession, lines: list[Pair], address: str) -> None:
    settings = home_with_rows
    mine = {tuple(row[:2]) for row in rows(settings, "silver.requests", ["partition", "offset", "client_ip"])
            if row[2] == address}  # fmt: skip
    visitors = {
        row[0] for row in rows(settings, "silver.requests", ["visitor_id", "client_ip"]) if row[1] == address
    }
    others = keys(settings, "silver.requests") - mine
    gold = rows(settings, "gold.traffic", ["site", "window_start", "requests", "visitors"])
    kept_sessions = [
        r for r in rows(settings, "silver.sessions", ["visitor_id", "session_id"]) if r[0] not in visitors
    ]
    lines_before = len(keys(settings, "bronze.access_log"))
    assert on_disk(settings, address)
    done = forget_visitor(settings, visitor="", address=address)
    assert done.rows["silver.requests"] == len(mine) > 10
    assert done.rows["silver.rejected"] == 1
    assert done.rows["bronze.access_log"] == len(mine) + 1
    assert done.files_left == []
    assert keys(settings, "silver.requests") == others
    assert len(keys(settings, "bronze.access_log")) == lines_before - len(mine) - 1
    assert rows(settings, "silver.sessions", ["visitor_id", "session_id"]) == kept_sessions
    days = {row[0] for row in rows(settings, "silver.visitor_days", ["visitor_id"])}
    assert days and not days & visitors
    assert rows(settings, "gold.traffic", ["site", "window_start", "requests", "visitors"]) == gold
    assert sum(row[0] for row in rows(settings, "gold.sources", ["sessions"])) == len(kept_sessions)  # type: ignore[misc]
    assert not on_disk(settings, address)
    assert_balanced(settings)
    assert sum(forget_visitor(settings, visitor="", address=address).rows.values()) == 0
    # The flows go on.
    produce(settings, lines[:100])
    run_here(spark, settings)
    assert_balanced(settings)
    assert len(keys(settings, "silver.requests")) > len(others)


def test_a_site_leaves_every_table(
    home_with_rows: Settings, spark: SparkSession, lines: list[Pair], bad: list[Pair]
) -> None:
    settings = home_with_rows
    done = forget_all_of(settings, "shop")
    left = [pair for pair in [*lines, *bad] if pair[0] == "default"]
    assert done.rows["silver.requests"] == done.rows["bronze.access_log"] == len(lines) + len(bad) - len(left)
    assert_equal(settings, recount(left))
    with pytest.raises(SettingError, match="no lines of a site 'shop'"):
        forget_all_of(settings, "shop")
    # The flows go on.
    produce(settings, lines[:100])
    run_here(spark, settings)
    assert_balanced(settings)
    assert len(keys(settings, "silver.requests")) > len(left)


def test_by_visitor_through_the_command(home_with_rows: Settings) -> None:
    settings = home_with_rows
    ((visitor, count),) = Counter(
        row[0] for row in rows(settings, "silver.requests", ["visitor_id"])
    ).most_common(1)  # type: ignore[misc]
    make_savepoint(settings, "before")
    command = ["forget", "--visitor", str(visitor), "--json"]
    called = CliRunner().invoke(tidemark, command, env=settings.environment(), catch_exceptions=False)
    report = json.loads(called.output)
    assert report["rows"]["silver.requests"] == report["rows"]["bronze.access_log"] == count
    assert report["kept_in_savepoints"] == ["before"]
    assert visitor not in {row[0] for row in rows(settings, "silver.requests", ["visitor_id"])}
    assert visitor not in {row[0] for row in rows(settings, "silver.sessions", ["visitor_id"])}
    assert_balanced(settings)


def test_beside_a_running_pipeline(
    broker: Settings, spark: SparkSession, lines: list[Pair], address: str, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    process = run_process(settings, once=False)
    try:
        await_running(settings, process)
        produce(settings, lines)
        others = [pair for pair in traffic(seed=42, lines=1_500) if pair[1].split()[0].decode() != address]
        for start in range(0, len(others), 100):
            produce(settings, others[start : start + 100])
            time.sleep(0.1)
            if start == 700:
                done = forget_visitor(settings, visitor="", address=address)
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    run_here(spark, settings)
    assert done.rows["silver.requests"] > 0
    assert address not in {row[0] for row in rows(settings, "silver.requests", ["client_ip"])}
    assert (
        len(keys(settings, "bronze.access_log")) == len(lines) + len(others) - done.rows["bronze.access_log"]
    )
    assert_balanced(settings)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["swap:before-journal@1", "swap:between-tables@2", "swap:before-end@1"])
def test_killed_it_did_nothing_or_all(home_with_rows: Settings, address: str, point: str) -> None:
    settings = home_with_rows
    before = {table: keys(settings, table) for table in TABLES[:3]}
    done = processes.run(
        [sys.executable, "-m", "tidemark", "forget", "--address", address],
        env={**os.environ, **settings.environment(), "TIDEMARK_CRASH_AT": point},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    if not Swap(settings).interrupted:
        assert {table: keys(settings, table) for table in TABLES[:3]} == before
    forget_visitor(settings, visitor="", address=address)
    assert not on_disk(settings, address)
    assert_balanced(settings)


# The same addresses as servers write them, and as somebody may ask for them.
SPELLED = {
    "2001:db8::c0de": ("2001:DB8:0:0:0:0:0:C0DE", "2001:0db8::c0de", "2001:db8::c0de"),
    "198.51.100.77": ("198.51.100.77", "::ffff:198.51.100.77", "::FFFF:c633:644d"),
}


@pytest.fixture(scope="module")
def spelled(
    broker: Settings, spark: SparkSession, lines: list[Pair], tmp_path_factory: pytest.TempPathFactory
) -> Settings:
    """Pageviews from two addresses in three spellings each, and rejected lines that hold them."""
    settings = fresh(broker, tmp_path_factory.mktemp("spelled"))
    end = b' - - [17/May/2026:10:05:03 +0000] "GET /a HTTP/1.1" 200 512 "-" "Mozilla/5.0"'
    mine = [text.encode() for texts in SPELLED.values() for text in texts]
    broken = [("default", b"broken line of [" + text + b"], really") for text in mine]
    others = [
        ("default", text + end) for text in (b"2001:db8::c0df", b"198.51.100.7", b"::ffff:198.51.100.7")
    ]
    kept = [("default", b"broken 198.51.100.770 and 2001:db8::c0de:1")]
    produce(settings, [*lines[:50], *(("default", text + end) for text in mine), *broken, *others, *kept])
    run_here(spark, settings)
    return settings


@pytest.mark.parametrize("wanted", [text for texts in SPELLED.values() for text in texts])
def test_an_address_is_the_same_however_it_is_spelled(spelled: Settings, tmp_path: Path, wanted: str) -> None:
    shutil.copytree(spelled.home, tmp_path / "home")
    settings = spelled.changed(home=tmp_path / "home")
    before = {table: len(keys(settings, table)) for table in TABLES[:3]}
    done = forget_visitor(settings, visitor="", address=wanted)
    assert done.rows == {
        "bronze.access_log": 6, "silver.requests": 3, "silver.rejected": 3, "silver.sessions": 1,
        "silver.session_goals": 0, "silver.session_steps": 1, "silver.visitor_days": 1,
    }  # fmt: skip
    after = {table: len(keys(settings, table)) for table in TABLES[:3]}
    assert all(after[table] == before[table] - done.rows[table] for table in TABLES[:3])
    for texts in SPELLED.values():
        assert all(on_disk(settings, text) == (wanted not in texts) for text in texts)
    assert_balanced(settings)


@pytest.mark.parametrize("around", ["{}:4711 x", "client:{}, x", "from {}.", "{}: x", "ip:{}", "[{}]:443"])
def test_an_address_is_found_with_punctuation_and_a_port(around: str) -> None:
    holds = holding("198.51.100.77")
    assert holds(around.format("198.51.100.77").encode())
    for other in ("198.51.100.7", "198.51.100.770", "1.198.51.100.77", "198.51.100.77.1"):
        assert not holds(around.format(other).encode())
    # What would be a port behind an address of IPv4 is part of one of IPv6.
    assert holding("2001:db8::1")(around.format("2001:db8::1").encode()) == (not around.startswith("{}:4711"))


def test_nothing_found_is_reported(home_with_rows: Settings) -> None:
    command = ["forget", "--address", "2001:db8::dead"]
    called = CliRunner().invoke(tidemark, command, env=home_with_rows.environment(), catch_exceptions=False)
    assert called.exit_code == 0 and "nothing found of 2001:db8::dead" in called.output


@pytest.mark.parametrize(
    "command, message",
    [
        (["--address", "203.0.113.999"], "'203.0.113.999' is no IP address"),
        (["--address", "host.example"], "'host.example' is no IP address"),
        (["--address", "203.0.113.0/24"], "is no IP address"),
        (["--visitor", "203.0.113.9"], "is no visitor id"),
        (["--address", "--json"], "Option '--address' needs a value, and --json is an option"),
        (["--home", "--json", "--address", "203.0.113.9"], "Option '--home' needs a value"),
    ],
)
def test_what_is_no_address_or_visitor_is_refused(
    home_with_rows: Settings, command: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name, value in home_with_rows.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["tidemark", "forget", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_one_of_both_is_needed(home_with_rows: Settings) -> None:
    for visitor, address in (("", ""), ("a", "b")):
        with pytest.raises(SettingError, match="visitor"):
            forget_visitor(home_with_rows, visitor=visitor, address=address)

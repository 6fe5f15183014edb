"""A real home in each mode: no byte of it says more than the mode leaves, and masked figures equal the exact ones."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh, produce, run_here
from tests.privacy.lines import ANONYMOUS, EXACT, MASKED
from tidemark.contract.registry import tables
from tidemark.figures.declared import Definition, Step
from tidemark.figures.extents import extents
from tidemark.figures.funnels import funnel
from tidemark.figures.known import NotKnownError
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.retention import retention
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.operate import privacy_notes
from tidemark.operate.prove import files_with, holding_text
from tidemark.parse.visitor import make_visitor_key
from tidemark.pipeline import Pipeline
from tidemark.privacy.door import Door
from tidemark.service.rebuild import rebuild_table
from tidemark.settings import Settings
from tidemark.settings.privacy import Privacy, SitePrivacy

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 agentmark"
# What no mode but exact leaves, and what anonymous does not leave, either.
SECRETS = (
    "198.51.100.77", "198.51.100.78", "2001:db8:1:2::9", "alicemark", "tokenmark", "bobmark@", "passmark",
    "203.0.113.99",
)  # fmt: skip
KNOWN_TO_MASKED = ("198.51.100.", "2001:db8:1", "203.0.113.", "agentmark")


def lines() -> list[bytes]:
    """Two visitors of one network, and one of IPv6, on two days; odd lines; and one that no format reads."""
    result = []
    for day in (21, 22):
        for number, client in enumerate(("198.51.100.77", "198.51.100.78", "2001:db8:1:2::9")):
            start = f"{client} - alicemark [{day}/Nov/2026:10:0{number}:00 +0000]"
            end = f'200 5 "https://example.net/?email=bobmark@example.org" "{AGENT}"'
            result.append(f'{start} "GET /?token=tokenmark HTTP/1.1" {end}')
            result.append(f'{start} "GET /users/bobmark@example.org HTTP/1.1" {end} 0.012 "203.0.113.99"')
            result.append(f'{start} "GET /a HTTP/1.1" 200 5 "-" "{AGENT}"')
    result.append(f'unreadable 198.51.100.77 [{day}] key=tokenmark https://u:passmark@example.org/ "{AGENT}"')
    result.append(
        '{"time":"never","ip":"198.51.100.77","token":"tokenmark","agent":"agentmark","mail":"bobmark@a.org"}'
    )
    return [line.encode() for line in result]


def home_of(broker: Settings, spark: SparkSession, directory: Path, mode: SitePrivacy) -> Settings:
    """A home whose lines were imported from a file, and sent to the topic by somebody else."""
    settings = replace(fresh(broker, directory, visitor_key="one key"), privacy=Privacy(mode))
    log = directory / "access.log"
    log.write_bytes(b"".join(line + b"\n" for line in lines()))
    make_visitor_key(settings)
    import_files(
        [str(log)], Options(settings.kafka, site="shop", door=Door.of(settings), say=lambda text: None)
    )
    produce(settings, [("blog", line) for line in lines()])
    run_here(spark, settings)
    return settings


@pytest.fixture(scope="module")
def homes(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Settings]:
    modes = (EXACT, MASKED, ANONYMOUS)
    return {mode.mode: home_of(broker, spark, tmp_path_factory.mktemp(mode.mode), mode) for mode in modes}


def records(settings: Settings) -> list[tuple[str, bytes]]:
    """The site and the bytes of each record of the topic, headers included."""
    consumer = Consumer(
        {**kafka.client_config(settings.kafka), "group.id": "any", "auto.offset.reset": "earliest"}
    )
    ends = kafka.end_offsets(settings.kafka, settings.kafka.topic)
    consumer.assign([TopicPartition(settings.kafka.topic, partition, 0) for partition in ends])
    result = []
    while len(result) < 2 * len(lines()):
        for message in consumer.consume(100, timeout=5):
            headers = dict(message.headers() or [])
            result.append((headers["site"].decode(), message.value() + b"".join(headers.values())))
    consumer.close()
    return result


@pytest.fixture(scope="module", autouse=True)
def imported(homes: dict[str, Settings]) -> dict[str, list[bytes]]:
    """The imported records by mode, read before any test: a stricter mode deletes them from the topic."""
    return {
        mode: [data for site, data in records(homes[mode]) if site == "shop"]
        for mode in ("masked", "anonymous")
    }


@pytest.mark.parametrize("mode, gone", [("masked", SECRETS), ("anonymous", (*SECRETS, *KNOWN_TO_MASKED))])
def test_no_file_of_the_home_says_more_than_the_mode_leaves(
    homes: dict[str, Settings], imported: dict[str, list[bytes]], mode: str, gone: tuple[str, ...]
) -> None:
    assert files_with(homes["exact"].home, holding_text([gone[0]])), "the search finds what there is"
    for value in gone:
        assert files_with(homes[mode].home, holding_text([value])) == [], value
    assert len(imported[mode]) == len(lines())
    assert not [data for data in imported[mode] if any(value.encode() in data for value in gone)]


def test_gold_has_no_addresses(homes: dict[str, Settings]) -> None:
    assert files_with(homes["exact"].tables / "gold", holding_text([SECRETS[0]])) == []


def rows(settings: Settings, table: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = (
        DeltaTable(f"{settings.tables}/{table.replace('.', '/')}").to_pyarrow_table().to_pylist()
    )
    return result


# Figures of texts that a mode changes, and times of writing.
TEXTS = {
    "path",
    "query",
    "referrer",
    "entry_page",
    "exit_page",
    "entry_query",
    "entry_referrer",
    "steps",
    "updated_at",
}


def test_every_figure_of_masked_lines_equals_the_exact_one(homes: dict[str, Settings]) -> None:
    for table in tables():
        if table.name.startswith(("gold.", "silver.sessions", "silver.visitor_days")):
            columns = [column.name for column in table.columns if column.name not in TEXTS]
            exact, masked = (
                sorted(str([row[name] for name in columns]) for row in rows(homes[mode], table.name))
                for mode in ("exact", "masked")
            )
            assert masked == exact, table.name


def test_anonymous_visitors_are_those_of_a_day(homes: dict[str, Settings]) -> None:
    def visitors(mode: str) -> list[int]:
        days: dict[tuple[str, int], set[str]] = {}
        for row in rows(homes[mode], "silver.requests"):
            days.setdefault((row["site"], row["event_time"].day), set()).add(row["visitor_id"])
        assert len(days) == 4
        return [len(each) for each in days.values()] + [len(set().union(*days.values()))]

    assert visitors("exact") == [3, 3, 3, 3, 6]
    assert visitors("anonymous") == [3, 3, 3, 3, 12]


def test_bronze_is_read_to_the_same_rows(homes: dict[str, Settings]) -> None:
    for mode in ("masked", "anonymous"):
        assert {row["client_ip"] for row in rows(homes[mode], "silver.requests")} == (
            {None} if mode == "anonymous" else {"198.51.100.0", "2001:db8:1::"}
        )
        assert {row["browser"] for row in rows(homes[mode], "silver.requests")} == {"Firefox"}


@pytest.mark.parametrize(
    "before, mode, gone",
    [("exact", MASKED, SECRETS), ("masked", ANONYMOUS, (*SECRETS, *KNOWN_TO_MASKED))],
    ids=("masked", "anonymous"),
)
def test_a_rebuild_applies_a_stricter_mode_to_history(
    homes: dict[str, Settings],
    spark: SparkSession,
    before: str,
    mode: SitePrivacy,
    gone: tuple[str, ...],
    tmp_path: Path,
) -> None:
    shutil.copytree(homes[before].home, tmp_path / "home")
    settings = replace(homes[before].changed(home=tmp_path / "home"), privacy=Privacy(mode))
    lines_before = len(rows(settings, "bronze.access_log"))
    rebuild_table(settings, "all", None, dry_run=False, report=lambda tables, done, total: None)
    assert len(rows(settings, "bronze.access_log")) == lines_before
    for value in gone:
        assert files_with(settings.home, holding_text([value])) == [], value
    texts = [row["text"] for row in rows(settings, "quality.notes")]
    change = f"privacy.mode was {'unset' if before == 'exact' else before}, now {mode.mode}"
    assert any(change in text for text in texts)
    # Back to what it was: recorded, too, and nothing of history becomes exact again.
    again = replace(settings, privacy=homes[before].privacy)
    privacy_notes.note_changes(Pipeline.of(again).on(spark))
    privacy_notes.note_changes(Pipeline.of(again).on(spark))
    recorded = sorted(rows(settings, "quality.access"), key=lambda row: row["time"])
    assert [row["what"] for row in recorded] == ["privacy changed"] * 2
    assert change in recorded[0]["object"] and f"was {mode.mode}, now" in recorded[1]["object"]
    for name in ("gold.traffic", "gold.visitors_by_country"):
        columns = ("site", "window_start", "visitors", "pageviews", "requests")
        same = [
            sorted(str([row.get(c) for c in columns]) for row in rows(each, name))
            for each in (homes["exact"], settings)
        ]
        assert same[0] == same[1]


@pytest.mark.parametrize("mode", ("exact", "masked", "anonymous"))
def test_what_a_mode_makes_unknown_is_reported(homes: dict[str, Settings], mode: str) -> None:
    shown, selection = Rows(DeltaReader(homes[mode].home)), Selection("shop")
    steps = (Step("home", "/"), Step("a", "/a"))
    expectation = (
        pytest.raises(NotKnownError, match="not known in this mode") if mode == "anonymous" else nullcontext()
    )
    with expectation:
        assert retention(shown, selection, "day", extents(shown)["shop"]).periods
    with expectation:
        assert funnel(shown, selection, Definition(steps, within=timedelta(days=7))).counts[0]
    assert funnel(shown, selection, Definition(steps, within=timedelta(hours=2))).counts[0]

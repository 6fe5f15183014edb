"""The stateful processor in Spark's in-memory state tester, and once in a real stream."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.tws_tester import TwsTester

from examples.kit.pattern_stream import PatternProcessor, detect
from examples.kit.patterns import Pattern, Step, Where

START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = Step("small", (Where("amount", "<", 10),))
LARGE = Step("large", (Where("amount", ">=", 100),), times=3)
TESTING = Pattern("card testing", (SMALL, LARGE), within_ms=300_000)
SILENCE = Pattern("silence", (SMALL, Step("any", (Where("amount", ">", 0),), absent=True)), within_ms=60_000)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def millis(second: float) -> int:
    return round(at(second).timestamp() * 1000)


def paid(second: float, amount: int) -> Row:
    return Row(key="ann", time=at(second), id=f"t{second:g}", fields=json.dumps({"amount": amount}))


def in_memory(*patterns: Pattern) -> TwsTester:
    return TwsTester(
        PatternProcessor(patterns),
        timeMode="EventTime",
        eventTimeExtractor=lambda row: round(row["time"].timestamp() * 1000),
    )


def match(pattern: str, first: float, last: float, *seconds: float) -> Row:
    ids = [f"t{second:g}" for second in seconds]
    return Row(key="ann", pattern=pattern, started_at=at(first), matched_at=at(last), ids=ids)


def assert_no_state(tws: TwsTester) -> None:
    assert tws.peekValueState("state", "ann") is None


def test_events_out_of_order_match_in_order_of_time_once_the_watermark_has_passed_them() -> None:
    tws = in_memory(TESTING)
    assert tws.test("ann", [paid(30, 500), paid(1, 5), paid(20, 500)]) == []
    assert tws.setWatermark(millis(15)) == []
    assert tws.test("ann", [paid(25, 500)]) == []
    assert tws.setWatermark(millis(40)) == [match("card testing", 1, 30, 1, 20, 25, 30)]
    assert_no_state(tws)


def test_a_late_event_is_not_seen() -> None:
    tws = in_memory(TESTING)
    tws.test("ann", [paid(10, 500), paid(20, 500), paid(30, 500)])
    tws.setWatermark(millis(15))
    assert tws.test("ann", [paid(5, 5)]) == []
    assert tws.setWatermark(millis(40)) == []
    assert_no_state(tws)


def test_state_is_empty_when_the_time_is_over() -> None:
    tws = in_memory(TESTING)
    tws.test("ann", [paid(0, 5)])
    tws.setWatermark(millis(1))
    assert tws.peekValueState("state", "ann") is not None
    assert tws.setWatermark(millis(301)) == []
    assert_no_state(tws)


def test_absence_is_noticed_without_another_event() -> None:
    tws = in_memory(TESTING, SILENCE)
    tws.test("ann", [paid(0, 5)])
    assert tws.setWatermark(millis(59.9)) == []
    assert tws.setWatermark(millis(60)) == [match("silence", 0, 60, 0)]


def test_two_patterns_share_the_events() -> None:
    tws = in_memory(TESTING, SILENCE)
    tws.test("ann", [paid(0, 5), paid(70, 500), paid(80, 500), paid(90, 500)])
    assert tws.setWatermark(millis(100)) == [
        match("silence", 0, 60, 0),
        match("card testing", 0, 90, 0, 70, 80, 90),
    ]


def test_in_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    arrivals = [
        [("ann", 1, 5), ("bob", 2, 5), ("ann", 30, 500)],
        [("ann", 20, 500), ("bob", 31, 500)],
        [("ann", 25, 500), ("zoe", 100, 50)],
        [("zoe", 200, 50)],
    ]
    source, landed = tmp_path / "in", tmp_path / "landed"
    source.mkdir()
    schema = "customer string, at timestamp, payment string, amount long"
    result = detect(
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(source)),
        [TESTING], key="customer", time="at", id="payment", lateness="30 seconds",
    )  # fmt: skip
    for number, rows in enumerate(arrivals):
        lines = [
            json.dumps({"customer": c, "at": at(s).isoformat(), "payment": f"t{s}", "amount": a})
            for c, s, a in rows
        ]
        file = source / f"{number}.json"
        file.write_text("\n".join(lines))
        # One micro-batch a file, in order of their times; the second run takes the state of the first up.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        if number % 2 == 0:
            continue
        query = (
            result.writeStream.format("parquet")
            .option("path", str(landed))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
    rows = spark.read.parquet(str(landed)).collect()
    assert [(row.key, row.pattern, row.ids) for row in rows] == [
        ("ann", "card testing", ["t1", "t20", "t25", "t30"])
    ]

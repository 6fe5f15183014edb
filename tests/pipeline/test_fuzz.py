"""Any lines at all, through the whole pipeline: each is counted once, and the rejected ones keep their bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.pipeline.harness import fresh
from tests.pipeline.mutants import mutants
from tidemark.kafka import client as kafka
from tidemark.parse.formats import FORMATS
from tidemark.service.run import run_pipeline
from tidemark.settings import Settings
from tidemark.traffic.lines import line_format

Place = tuple[int, int]
_SITES = (None, None, None, b"shop", b"", b"\xff\xfe", "бар".encode(), b"default")
_FORMATS = (*[None] * 60, *(name.encode() for name in FORMATS), b"no such format", b"\xff")
_COLUMNS = (line_format(name).column_names for name in ("iis_w3c", "w3c_extended"))
_FIELDS = (None, None, *(names.encode() for names in _COLUMNS), b"date", b"\xff c-ip")


@pytest.mark.parametrize(
    "count, seed",
    [
        (6_000, 1),
        pytest.param(1_000_000, 2, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]),
    ],
)
def test_every_line_is_accounted_for(
    broker: Settings, spark: SparkSession, tmp_path: Path, count: int, seed: int
) -> None:
    settings = fresh(broker, tmp_path)
    sent, ids = send(settings, count, seed)
    run_pipeline(settings, once=True)

    bronze, accepted, rejected = (
        values(settings, table) for table in ("bronze/access_log", "silver/requests", "silver/rejected")
    )
    assert not accepted.keys() & rejected.keys()
    assert bronze.keys() == accepted.keys() | rejected.keys()
    assert all(sent[place] == value for place, value in bronze.items())
    assert all(sent[place] == value for place, value in rejected.items())
    duplicate = sent.keys() - bronze.keys()
    delivered = {ids[place] for place in accepted if place in ids}
    assert all(ids.get(place) in delivered for place in duplicate)

    accounts = table_of(settings, "quality/accounts", ["received", "accepted", "rejected", "duplicate"])
    for row in accounts.to_pylist():
        assert row["received"] == row["accepted"] + row["rejected"] + row["duplicate"]
    totals = {name: sum(accounts[name].to_pylist()) for name in accounts.column_names}
    assert totals == {
        "received": count,
        "accepted": len(accepted),
        "rejected": len(rejected),
        "duplicate": len(duplicate),
    }
    # A fuzz that only ever sees one side would prove little.
    assert min(len(accepted), len(rejected)) > count // 10


def send(settings: Settings, count: int, seed: int) -> tuple[dict[Place, bytes], dict[Place, bytes]]:
    """Lines and delivery ids, by partition and offset. One line in twenty has an id, often one used before."""
    chance = random.Random(seed)
    producer = Producer(
        {**kafka.client_config(settings.kafka), "linger.ms": 20, "message.max.bytes": kafka.MAX_RECORD_BYTES,
         "enable.idempotence": True}
    )  # fmt: skip
    sent: dict[Place, bytes] = {}
    ids: dict[Place, bytes] = {}
    ends = dict.fromkeys(range(settings.kafka.partitions), 0)
    for line in mutants(count, seed):
        partition = chance.choice(list(ends))
        place = (partition, ends[partition])
        ends[partition] += 1
        headers = [
            ("site", chance.choice(_SITES)),
            ("format", chance.choice(_FORMATS)),
            ("fields", chance.choice(_FIELDS)),
        ]
        if chance.random() < 0.05:
            ids[place] = b"%d" % chance.randrange(count // 30)
            headers.append(("id", ids[place]))
        sent[place] = line
        kept = [(name, value) for name, value in headers if value is not None]
        while True:
            try:
                producer.produce(settings.kafka.topic, line, headers=kept, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert kafka.end_offsets(settings.kafka, settings.kafka.topic) == ends
    return sent, ids


def values(settings: Settings, table: str) -> dict[Place, bytes | None]:
    """Bytes by partition and offset, where the table has them; each place once."""
    raw = table != "silver/requests"
    result = table_of(settings, table, ["partition", "offset", *(["value"] if raw else [])])
    places = list(zip(result["partition"].to_pylist(), result["offset"].to_pylist(), strict=True))
    assert len(set(places)) == len(places), f"{table} repeats a line"
    return dict(zip(places, result["value"].to_pylist() if raw else [None] * len(places), strict=True))


def table_of(settings: Settings, table: str, columns: list[str]):  # type: ignore[no-untyped-def]
    return DeltaTable(settings.tables / table).to_pyarrow_table(columns=columns)

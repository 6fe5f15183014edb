"""The configurations of docs/shippers.md: each line is counted once, though every shipper sends it twice."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bronze import access_log
from tests.importing import endpoint
from tests.pipeline.harness import fresh, rows, run_here
from tidemark.kafka import client as kafka
from tidemark.local.process import wait_until
from tidemark.parse import wrappers
from tidemark.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "shippers.md").read_text(encoding="utf-8")
NOON = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())
LINES = 50
RSYSLOGD = shutil.which("rsyslogd", path="/usr/sbin:/sbin:/usr/local/sbin") or ""
OMKAFKA = any(Path("/usr/lib").glob("*/rsyslog/omkafka.so"))


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks of a section of the page."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, heading
    return re.findall(rf"^```{language}\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)


def changed(text: str, settings: Settings, log: Path) -> str:
    """A configuration of the page, for the test's broker, topic and file."""
    for name, ours in (
        ("kafka-1:9092", settings.kafka.bootstrap_servers),
        ("access-log", settings.kafka.topic),
        ("/var/log/nginx/access.log", str(log)),
    ):
        assert name in text
        text = text.replace(name, ours)
    return text


def written(path: Path) -> Path:
    """A log whose requests have paths of its own."""
    path.write_text(
        "".join(
            f'203.0.113.{n} - - [21/Nov/2026:10:00:00 +0000] "GET /{path.stem}/{n} HTTP/1.1" 200 512'
            ' "-" "a \\"b\\" é"\n'
            for n in range(LINES)
        )
    )
    return path


@dataclass
class Shipped:
    """What the shippers sent, and the tables made of it."""

    settings: Settings
    sent: Counter[str]
    duplicates: int = 0

    def has(self, lines: int) -> bool:
        return sum(kafka.end_offsets(self.settings.kafka, self.settings.kafka.topic).values()) >= lines


@pytest.fixture(scope="module")
def shipped(broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    directory = tmp_path_factory.mktemp("shippers")
    shipped_lines = Shipped(fresh(broker, directory), Counter())
    for ship in (by_rsyslog, by_kcat, by_http, by_others):
        ship(shipped_lines, directory)
    run_here(spark, shipped_lines.settings)
    return shipped_lines


def by_rsyslog(shipped: Shipped, directory: Path) -> None:
    if not (RSYSLOGD and OMKAFKA):
        return
    log, work = written(directory / "rsyslog.log"), directory / "rsyslog"
    (config,) = blocks("rsyslog", "conf")
    file = directory / "rsyslog.conf"
    file.write_text(changed(config, shipped.settings, log).replace("/var/spool/rsyslog", str(work)))
    before = 0
    for again in (False, True):
        # The second run has lost its position, as after a crash.
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        process = subprocess.Popen([RSYSLOGD, "-n", "-f", file, "-i", directory / "rsyslog.pid"])
        before += LINES
        try:
            assert wait_until(lambda lines=before: shipped.has(lines), 60)  # type: ignore[misc]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        shipped.duplicates += LINES * again
    shipped.sent.update(f"/rsyslog/{n}" for n in range(LINES))


def by_kcat(shipped: Shipped, directory: Path) -> None:
    if not (shutil.which("kcat") and shutil.which("jq")):
        return
    once, repeated, _ = blocks("kcat", "sh")
    run(changed(once, shipped.settings, written(directory / "kcat.log")))
    for _ in range(2):
        run(changed(repeated, shipped.settings, written(directory / "kcat-jq.log")))
    shipped.sent.update(f"/{name}/{n}" for name in ("kcat", "kcat-jq") for n in range(LINES))
    shipped.duplicates += LINES


def run(script: str) -> None:
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], check=True, timeout=60)


def by_http(shipped: Shipped, directory: Path) -> None:
    plain, objects = (written(directory / f"{name}.log").read_bytes() for name in ("plain", "objects"))
    body = "\n".join(
        json.dumps({"line": line, "id": f"objects-{n}"})
        for n, line in enumerate(objects.decode().splitlines())
    ).encode()
    with endpoint.running(shipped.settings) as server:
        for _ in range(2):
            kind = {"Content_Type": "application/x-ndjson"}
            assert server.post(plain, "?site=shop", Idempotency_Key="plain")[0] == 200
            assert server.post(body, "?site=shop", **kind)[0] == 200
    shipped.sent.update(f"/{name}/{n}" for name in ("plain", "objects") for n in range(LINES))
    shipped.duplicates += 2 * LINES


DOCUMENTED = [
    (value, {}) for name in ("kcat", "Fluent Bit", "Vector", "Filebeat", "OpenTelemetry Collector")
    for block in blocks(name, "json") for value in block.splitlines()
]  # fmt: skip
LINE = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET {} HTTP/1.1" 200 512'
DOCUMENTED.append((LINE.format("/vector-text"), {"site": "shop", "id": "5f2c"}))
DOCUMENTED.append(
    (f"<134>Nov 21 10:00:00 web-1 nginx: {LINE.format('/syslog')}", {"site": "shop", "id": "1"})
)
DOCUMENTED.append((f"MESSAGE={LINE.format('/export')}", {"site": "shop", "id": "2"}))
# A header takes precedence over a key.
DOCUMENTED.append(
    (
        json.dumps({"log": LINE.format("/both"), "tidemark_site": "blog", "tidemark_id": "3"}),
        {"site": "shop", "id": "4"},
    )
)


def by_others(shipped: Shipped, directory: Path) -> None:
    producer = Producer(kafka.client_config(shipped.settings.kafka))
    for number, (value, headers) in enumerate(DOCUMENTED):
        identified = "tidemark_id" in value or "id" in headers
        for seconds in (0, 60) if identified else (0,):
            producer.produce(
                shipped.settings.kafka.topic,
                value.encode(),
                headers=dict(headers or {"site": "shop"} if not identified else headers),
                timestamp=(NOON + number + seconds) * 1000,
            )
        shipped.duplicates += identified
        shipped.sent[path_of(value)] += 1
    assert producer.flush(30) == 0


def path_of(value: str) -> str:
    match = re.search(r"GET (\S+) HTTP", value)
    assert match, value
    return match[1]


def test_every_line_is_there_once_and_every_repetition_is_a_duplicate(shipped: Shipped) -> None:
    result = rows(shipped.settings, "silver.requests", ["site", "path"])
    assert Counter(result) == Counter({("shop", path): number for path, number in shipped.sent.items()})
    assert rows(shipped.settings, "silver.rejected", ["offset"]) == []
    accounts = rows(shipped.settings, "quality.accounts", ["duplicate"])
    assert sum(row[0] for row in accounts) == shipped.duplicates  # type: ignore[misc]


def test_lines_are_as_in_the_file(shipped: Shipped) -> None:
    agents = {
        path: agent for path, agent in rows(shipped.settings, "silver.requests", ["path", "user_agent"])
        if path in {f"/{name}/7" for name in ("rsyslog", "kcat", "kcat-jq", "plain", "objects")}
    }  # fmt: skip
    assert set(agents.values()) == {'a "b" é'}


def test_a_record_keeps_its_kafka_timestamp_and_its_bytes(shipped: Shipped) -> None:
    result = rows(shipped.settings, "bronze.access_log", ["value", "kafka_timestamp"])
    expected = {(value.encode(), NOON + number) for number, (value, _) in enumerate(DOCUMENTED)}
    assert expected <= set(result)


BROKEN = {
    b'{"tidemark_id": 17, "tidemark_site": true}': ("true", "17"),
    b'{"tidemark_id": null}': ("default", None),
    b'{"tidemark_id": "a", "tidemark_site": "b"': ("default", None),
    b'{"tidemark_id": "a"} {"tidemark_id": "b"}': ("default", "a"),
    b'{"tidemark_id": "\xff"}': ("default", "\ufffd"),
    b'{"tidemark_id": "\\ud800"}': ("default", "?"),
    b'{"tidemark_id": {"a": 1}}': ("default", '{"a":1}'),
    b'{"tidemark_id": "a", "n": ' + b"9" * 5_000 + b"}": ("default", None),
    b'{"tidemark_id": "a", "n": ' + b"[" * 5_000: ("default", None),
    b'{"message": "\\"tidemark_id\\": \\"a\\""}': ("default", None),
    b'{"message": {"tidemark_id": "a"}}': ("default", None),
    b'"tidemark_id": "a"': ("default", None),
}


def test_keys_of_odd_objects_stop_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("access-log", 0, offset, value, None, None) for offset, value in enumerate(BROKEN)],
        "topic string, partition int, offset long, value binary, timestamp timestamp, "
        "headers array<struct<key string, value binary>>",
    )
    actual = {row.value: (row.site, row.id) for row in access_log.access_log(frame).collect()}
    assert {bytes(value): given for value, given in actual.items()} == BROKEN


STRINGS = {
    r'"a \"b\" \u00e9"': 'a "b" é',
    '""': None,
    '"': None,
    '"a': None,
    # No JSON: lines in quotes whose own quotes are as they were, or doubled as in CSV.
    r'"a\"': "a\\",
    '"a" "b"': 'a" "b',
    '"a ""b"" c"': 'a "b" c',
    '"a"}{"line":"b"': 'a"}{"line":"b',
    '"a",': None,
    '["a"]': None,
}


@pytest.mark.parametrize("times", [1, 50], ids=["one by one", "by Arrow"])
def test_a_json_string_is_an_envelope(times: int) -> None:
    result = wrappers.unwrapped(pa.array([*STRINGS, None, *['"whole"'] * 100] * times))
    assert result.to_pylist() == [*STRINGS.values(), None, *["whole"] * 100] * times


@pytest.mark.skipif(not (RSYSLOGD and OMKAFKA), reason="no rsyslog-kafka")
def test_rsyslog_was_run(shipped: Shipped) -> None:
    assert shipped.sent["/rsyslog/7"] == 1


@pytest.mark.skipif(not (shutil.which("kcat") and shutil.which("jq")), reason="no kcat, or no jq")
def test_kcat_was_run(shipped: Shipped) -> None:
    assert shipped.sent["/kcat-jq/7"] == 1


def configurations() -> Iterator[tuple[str, str]]:
    for name in ("Fluent Bit", "Vector", "Filebeat", "OpenTelemetry Collector"):
        yield from ((name, text) for text in blocks(name, "yaml"))


@pytest.mark.parametrize(("name", "text"), list(configurations()), ids=lambda each: each.split("\n")[0][:12])
def test_configurations_that_are_not_run_are_yaml_of_our_topic(name: str, text: str) -> None:
    def values(of: object) -> Iterator[object]:
        if isinstance(of, dict):
            of = list(of.values())
        if isinstance(of, Sequence) and not isinstance(of, str):
            for each in of:
                yield from values(each)
        else:
            yield of

    result = set(values(yaml.safe_load(text)))
    assert {"access-log", "kafka-1:9092"} <= result
    assert any("/var/log/nginx/access.log" in str(each) for each in result)

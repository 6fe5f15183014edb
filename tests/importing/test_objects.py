"""Every version of an object once, against a real server of S3 and a real broker."""

from __future__ import annotations

import gzip
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from tests.importing.bucket import SECRET, Bucket, text
from tidemark.errors import InputError
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options
from tidemark.importing.object_sources import Objects
from tidemark.importing.objects import ObjectOptions, import_objects
from tidemark.importing.sources import blocks_of
from tidemark.kafka import client as kafka
from tidemark.objects.listing import Selection
from tidemark.objects.store import Location, open_store
from tidemark.privacy.door import Door
from tidemark.settings import Settings
from tidemark.settings.privacy import Privacy, SitePrivacy

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Start = Callable[..., "subprocess.Popen[bytes]"]
Import = Callable[..., Report]


def test_each_version_of_an_object_once(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered
) -> None:
    content, messages = numbered(500), list[str]()
    bucket.put("b/2.log.gz", gzip.compress(text(content[100:300])))
    bucket.put("b/3.log", text(content[300:400]).removesuffix(b"\n"))
    bucket.put("b/empty.log", b"")

    first, again = imported("b/"), imported("b/")
    assert (first.files, first.added, first.known) == (2, 300, 0)
    assert (again.files, again.added, again.known) == (2, 0, 300)

    # A late object whose key sorts first, one that has grown, one that was written again as it is.
    bucket.put("b/1.log", text(content[:100]))
    bucket.put("b/3.log", text(content[300:450]))
    bucket.put("b/2.log.gz", gzip.compress(text(content[100:300]), compresslevel=1))
    grown = imported(messages=messages)
    assert (grown.files, grown.added, grown.known) == (3, 150, 300)
    assert lines() == sorted(content[:450])
    assert messages == []

    # Other content is all imported, and reported.
    bucket.put("b/1.log", text(content[450:]))
    assert imported(messages=messages).added == 50
    assert lines() == sorted(content)
    assert len(messages) == 1 and "b/1.log has other content" in messages[0]


def test_one_object_a_beginning_of_keys_and_a_selection(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered
) -> None:
    keys = ["a/x.log", "a/xy.log", "a/z.txt", "ab/x.log"]
    for number, key in enumerate(keys):
        bucket.put(key, text(numbered(1, start=number)))

    assert (imported("a/x.log").added, lines()) == (1, numbered(1))
    assert (imported("a/x").added, lines()) == (1, numbered(2))
    assert imported("a", where="*.log").files == 3
    with pytest.raises(InputError, match=r"no object of .* is selected"):
        imported(where="*.nothing")
    with pytest.raises(InputError, match="no object"):
        imported(since=datetime.now(UTC) + timedelta(minutes=5))
    assert (imported().known, lines()) == (3, numbered(4))


def test_imports_at_once_share_a_bucket(
    bucket: Bucket, options: Options, lines: Lines, numbered: Numbered
) -> None:
    content = numbered(3000)
    for number in range(60):
        bucket.put(f"{number:03}.gz", gzip.compress(text(content[50 * number : 50 * number + 50])))
    reports = [Report(), Report()]

    def run(report: Report) -> None:
        import_objects([bucket.url], options, ObjectOptions(bucket.server.url), report)

    threads = [threading.Thread(target=run, args=[report]) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lines() == sorted(content)
    assert sum(report.added for report in reports) == len(content)
    assert [report.files for report in reports] == [60, 60]


def test_killed_in_the_middle_and_started_again(
    bucket: Bucket, tidemark: Start, settings: Settings, lines: Lines, numbered: Numbered
) -> None:
    content = numbered(60_000)
    for number in range(30):
        bucket.put(f"{number:03}.gz", gzip.compress(text(content[2000 * number : 2000 * number + 2000])))
    command = (bucket.url, "--endpoint", bucket.server.url)
    admin = kafka.admin_client(settings.kafka)
    kafka.ensure_topic(settings.kafka, settings.kafka.topic)

    seen = []
    for delay in (0.0, 0.1, 0.3):
        process = tidemark(*command)
        before = sum(
            kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin, committed=False).values()
        )
        while process.poll() is None:
            ends = kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin, committed=False)
            if sum(ends.values()) > before:
                break
            time.sleep(0.01)
        time.sleep(delay)
        process.kill()
        process.communicate()
        seen.append(process.returncode)

    last = tidemark(*command)
    out, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    assert b"30 objects" in out
    assert lines() == sorted(content)
    assert seen[0] == -signal.SIGKILL


@pytest.mark.parametrize("fault", ["busy", "truncated", "unordered"])
def test_a_store_that_fails_for_a_moment(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered, fault: str
) -> None:
    content = numbered(40)
    for number in range(4):
        bucket.put(f"{number}.log", text(content[10 * number : 10 * number + 10]))
    failures: dict[str, int] = {}

    def fail(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        path = environment["PATH_INFO"]
        failures[path] = failures.get(path, 0) + 1
        listing = path.rstrip("/") == f"/{bucket.name}"
        if fault == "busy" and failures[path] == 1:
            start("503 Slow Down", [])
            return [b"<Error><Code>SlowDown</Code></Error>"]
        body = b"".join(serve())
        if fault == "truncated" and not listing and failures[path] == 1:
            return [body[:7]]  # Less than its Content-Length.
        if fault == "unordered" and listing:
            head, *entries = body.split(b"<Contents>")
            last, tail = entries[-1].split(b"</Contents>", 1)
            entries = [*entries[:-1], last + b"</Contents>"]
            return [head + b"".join(b"<Contents>" + each for each in reversed(entries)) + tail]
        return [body]

    bucket.server.fault = fail
    assert imported().added == 40
    assert imported().known == 40
    assert lines() == sorted(content)


def test_objects_that_change_while_they_are_read(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered
) -> None:
    for key in ("gone", "kept", "replaced"):
        bucket.put(key, text(numbered(10)))
    bucket.put("kept", text(numbered(10, start=10)))
    changed: set[str] = set()

    def change(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        key = environment["PATH_INFO"].rpartition("/")[2]
        if key in ("gone", "replaced") and key not in changed:
            changed.add(key)
            if key == "gone":
                bucket.delete(key)
            else:
                bucket.put(key, text(numbered(30, start=20)))
        return serve()

    bucket.server.fault = change
    messages: list[str] = []
    report = imported(messages=messages)
    assert report.added == 40
    assert [each.rpartition("/")[2] for each in messages] == ["gone was deleted before it was read"]
    assert imported().added == 0
    assert lines() == sorted(numbered(40, start=10))


def test_damaged_objects_do_not_stop_the_others(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered
) -> None:
    sound = gzip.compress(text(numbered(20)))
    bucket.put("1.gz", sound[:-8] + bytes(8))  # Without its checksum.
    bucket.put("2.gz", gzip.compress(text(numbered(20, start=20))))
    with pytest.raises(InputError, match=r"1\.gz is damaged.*0 lines of it went in"):
        imported()
    bucket.put("1.gz", sound)
    assert imported().added == 20
    assert lines() == sorted(numbered(40))


def test_a_refusal_is_one_error_without_credentials(
    bucket: Bucket, tidemark: Start, numbered: Numbered
) -> None:
    for number in range(20):
        bucket.put(f"{number}.log", text(numbered(1)))

    def deny(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        start("403 Forbidden", [])
        return [b"<Error><Code>ExpiredToken</Code><AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId></Error>"]

    bucket.server.fault = deny
    process = tidemark(bucket.url, "--endpoint", bucket.server.url)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.count(b"the credentials have expired") == 1 and b"aws sso login" in err
    assert SECRET.encode() not in out + err and b"AKIA" not in out + err


def test_a_queue_names_the_objects_and_keeps_what_kafka_has_not(
    bucket: Bucket, imported: Import, lines: Lines, numbered: Numbered
) -> None:
    s3, sqs = bucket.server.client("s3"), bucket.server.client("sqs")
    queue = sqs.create_queue(QueueName=bucket.name, Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    queue = bucket.server.url + "/" + queue.split("/", 3)[3]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    bucket.put("old.log", text(numbered(5, start=90)))  # Nothing announces it.
    s3.put_bucket_notification_configuration(
        Bucket=bucket.name,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]
        },
    )
    bucket.put("a b/ü+1.log", text(numbered(10)))
    bucket.put("2.log.gz", gzip.compress(text(numbered(10, start=10)))[:-9])

    def left() -> int:
        names = ["ApproximateNumberOfMessages"]
        attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return int(attributes[names[0]])

    messages: list[str] = []
    assert imported(queue=queue, messages=messages).added == 20
    assert any("2.log.gz is truncated" in each for each in messages)
    assert left() == 1
    bucket.put("2.log.gz", gzip.compress(text(numbered(10, start=10))))
    assert imported(queue=queue).added == 0
    assert left() == 0
    assert lines() == sorted(numbered(20))


def test_followed_until_it_is_stopped(
    bucket: Bucket, options: Options, lines: Lines, numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.importing.objects.POLL_SECONDS", 0.05)
    stop, report = threading.Event(), Report()
    how = Options(options.kafka, say=lambda _: None, stopped=stop.is_set)
    wanted = ObjectOptions(bucket.server.url)
    arguments = ([bucket.url], how, wanted, report)
    thread = threading.Thread(target=import_objects, args=arguments, kwargs={"follow": True})
    thread.start()
    try:
        for number in range(3):
            bucket.put(f"{9 - number}.log", text(numbered(10, start=10 * number)))
            deadline = time.monotonic() + 60
            while report.added < 10 * number + 10:
                assert time.monotonic() < deadline and thread.is_alive()
                time.sleep(0.02)
    finally:
        stop.set()
        thread.join()
    assert (report.files, report.known) == (3, 0)
    assert lines() == sorted(numbered(30))


def test_lines_are_masked_before_kafka(
    bucket: Bucket, settings: Settings, lines: Lines, numbered: Numbered
) -> None:
    bucket.put("a.log", text(numbered(3)))
    masked = replace(settings, privacy=Privacy(SitePrivacy("masked")))
    options = Options(settings.kafka, say=lambda _: None, door=Door.of(masked))
    import_objects([bucket.url], options, ObjectOptions(bucket.server.url), Report())
    assert len(lines()) == 3
    assert not any(b"192.0.2.7" in line for line in lines())


def test_https_is_an_object_too(bucket: Bucket, options: Options, lines: Lines, numbered: Numbered) -> None:
    url = bucket.server.client("s3").generate_presigned_url(
        "get_object", Params={"Bucket": bucket.name, "Key": "a.gz"}
    )
    bucket.put("a.gz", gzip.compress(text(numbered(5))))
    for known in (0, 5):
        report = Report()
        import_objects([url], options, ObjectOptions(), report)
        assert (report.added, report.known) == (5 - known, known)
    assert lines() == sorted(numbered(5))


def test_urls_that_differ_in_their_query_are_objects_of_their_own(
    bucket: Bucket,
    options: Options,
    lines: Lines,
    numbered: Numbered,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(environment: WSGIEnvironment, start: StartResponse, _: Callable[[], Any]) -> list[bytes]:
        part = int(environment["QUERY_STRING"].partition("part=")[2][:1] or 9)
        body = text(numbered(10, start=10 * part))
        modified = "Sat, 21 Nov 2026 10:00:00 GMT"
        start(
            "200 OK",
            [("ETag", f'"{part}"'), ("Last-Modified", modified), ("Content-Length", str(len(body)))],
        )
        return [] if environment["REQUEST_METHOD"] == "HEAD" else [body]

    def imported(query: str) -> tuple[int, int]:
        report = Report()
        import_objects([f"{bucket.server.url}/log{query}"], options, ObjectOptions(), report)
        return report.added, report.known

    monkeypatch.setattr(bucket.server, "fault", answer)
    queries = ("?part=1", "", "?part=2&X-Amz-Signature=s1", "?part=3")
    with monkeypatch.context() as earlier:  # It knew this one without its query.
        earlier.setattr(Location, "identity_of", Location.url_of)
        assert imported("?part=1") == (10, 0)
    assert [imported(query) for query in queries] == [(0, 10), (10, 0), (10, 0), (10, 0)]
    signed = ("?sig=a&se=2026", "?part=1&token=t", "?part=2&X-Amz-Signature=s2", "?part=3")
    assert [imported(query) for query in signed] == [(0, 10)] * 4
    assert lines() == sorted(numbered(30, start=10) + numbered(10, start=90))


def test_the_first_objects_are_looked_at(bucket: Bucket, numbered: Numbered) -> None:
    bucket.put("0.txt", b"something else")
    for number in range(5):
        bucket.put(f"{number}.gz", gzip.compress(text(numbered(2, start=2 * number))))
    location = open_store(bucket.url, endpoint=bucket.server.url)
    with Objects([location], Selection(where="*.gz")).first() as sources:
        assert [each.name for each in sources] == [f"{bucket.url}{number}.gz" for number in range(3)]
        assert [line for each in sources for block in blocks_of(each) for line in block.lines] == numbered(6)


def test_a_directory_is_imported_like_a_bucket(
    options: Options, lines: Lines, numbered: Numbered, tmp_path: Path
) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "a.log").write_bytes(text(numbered(3)))
    for known in (0, 3):
        report = Report()
        import_objects([f"file://{tmp_path}/"], options, ObjectOptions(), report)
        assert (report.added, report.known) == (3 - known, known)
    with (tmp_path / "day" / "a.log").open("ab") as file:
        file.write(text(numbered(2, start=3)))
    report = Report()
    import_objects([f"file://{tmp_path}/"], options, ObjectOptions(), report)
    assert (report.added, lines()) == (2, sorted(numbered(5)))


def test_a_followed_pipe_is_kept_when_it_ends(tidemark: Start, lines: Lines) -> None:
    process = tidemark("-", "--follow", stdin=subprocess.PIPE)
    out, err = process.communicate(b"one\ntwo\nthr", timeout=60)
    assert process.returncode == 0, err
    assert b"3 lines added" in out
    assert lines() == [b"one", b"thr", b"two"]

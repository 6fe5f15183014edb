"""Stores that refuse, are silent or stop in the middle: one error with a remedy, and a later import adds the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.importing.bucket import KEY, SECRET, Bucket, Fault, text
from tidemark.errors import InputError
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options
from tidemark.importing.objects import ObjectOptions, import_objects
from tidemark.objects.store import open_store

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Import = Callable[..., Report]
OBJECTS = 12
RENEW = "Get new ones, for example by `aws sso login`"
LATER = "Start again later; an import continues where it stopped."


@contextmanager
def impatient(**seconds: float) -> Iterator[None]:
    """Requests are not repeated for long."""
    quick = partial(open_store, **({"retry_seconds": 0.3} | seconds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemark.importing.objects.open_store", quick)
        patch.setattr("tidemark.objects.fetching._PATIENCE_SECONDS", 0.0)
        yield


@pytest.fixture
def content(bucket: Bucket, numbered: Numbered) -> list[bytes]:
    """The lines of objects in the bucket, ten in each."""
    lines = numbered(10 * OBJECTS)
    for number in range(OBJECTS):
        bucket.put(f"{number:02}.log", text(lines[10 * number : 10 * number + 10]))
    return lines


@pytest.fixture
def silence() -> Iterator[threading.Event]:
    """Set at the end of a test, so that requests that were not answered end."""
    over = threading.Event()
    yield over
    over.set()


def key_of(environment: Any) -> str:
    """The key that a request asks for; empty if it lists."""
    return str(environment["PATH_INFO"].strip("/").partition("/")[2])


def refusing(status: str, code: str, more: str = "", *, keys: Callable[[str], bool]) -> Fault:
    """A store that answers requests for some keys with an error, and repeats credentials in it."""
    secrets = f"<AWSAccessKeyId>{KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign>"

    def answer(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        if not keys(key_of(environment)):
            return serve()
        start(status, [])
        return [f"<Error><Code>{code}</Code>{more}{secrets}</Error>".encode()]

    return answer


def one_error(
    imported: Import, bucket: Bucket, problem: str, remedy: str, path: str = "", **seconds: float
) -> None:
    """Runs an import, which ends with one error, and nothing else is said."""
    messages: list[str] = []
    with impatient(**seconds), pytest.raises(InputError) as raised:
        imported(path, messages=messages)
    assert raised.value.exit_code != 0
    error = str(raised.value)
    assert bucket.name in error and problem in error and remedy in error
    assert SECRET not in error and KEY not in error
    assert messages == []


@pytest.mark.parametrize(
    "status, code, more, problem, remedy",
    [
        ("403 Forbidden", "AccessDenied", "", "may not be listed", "Allow s3:ListBucket on the bucket"),
        ("403 Forbidden", "InvalidAccessKeyId", "", "does not accept the credentials", "AWS_ACCESS_KEY_ID"),
        ("400 Bad Request", "ExpiredToken", "", "the credentials have expired", RENEW),
        ("301 Moved Permanently", "PermanentRedirect", "", "is in another region", "Set AWS_REGION to the region"),
        (
            "400 Bad Request", "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>",
            "is in another region, eu-west-1", "Set AWS_REGION=eu-west-1.",
        ),
        ("404 Not Found", "NoSuchBucket", "", "does not exist", "Check its name"),
        ("503 Slow Down", "SlowDown", "", "the store answers 503 (SlowDown)", LATER),
    ],
)  # fmt: skip
def test_a_bucket_that_cannot_be_listed(
    bucket: Bucket, imported: Import, status: str, code: str, more: str, problem: str, remedy: str
) -> None:
    bucket.server.fault = refusing(status, code, more, keys=lambda key: not key)
    one_error(imported, bucket, problem, remedy)


@pytest.mark.parametrize(
    "status, error", [("403 Forbidden", ""), ("400 Bad Request", "the credentials have expired")]
)
def test_a_prefix_that_may_not_be_asked_for_as_an_object(
    bucket: Bucket, imported: Import, content: list[bytes], status: str, error: str
) -> None:
    def answer(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        if environment["REQUEST_METHOD"] == "HEAD":
            start(status, [])
            return []
        return refusing(status, "ExpiredToken", keys=lambda key: bool(error))(environment, start, serve)

    bucket.server.fault = answer
    if error:
        one_error(imported, bucket, error, RENEW, path="0")
    else:
        assert imported("0").added == 100


def test_a_machine_without_credentials(
    bucket: Bucket, imported: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", bucket.server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    bucket.server.fault = refusing("404 Not Found", "", keys=lambda key: True)
    one_error(imported, bucket, "there are no credentials", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize(
    "status, code, problem, remedy",
    [
        ("400 Bad Request", "ExpiredToken", "the credentials have expired", RENEW),
        ("503 Slow Down", "SlowDown", "the store answers 503 (SlowDown)", LATER),
    ],
)
def test_a_store_that_refuses_in_the_middle_is_one_error_and_nothing_is_lost(
    bucket: Bucket,
    imported: Import,
    lines: Lines,
    content: list[bytes],
    status: str,
    code: str,
    problem: str,
    remedy: str,
) -> None:
    bucket.server.fault = refusing(status, code, keys=lambda key: key >= "03.log")
    one_error(imported, bucket, problem, remedy)
    assert lines() == sorted(content[:30])

    bucket.server.fault = None
    report = imported()
    assert (report.added, report.known) == (90, 30)
    assert lines() == sorted(content)


@pytest.mark.parametrize("begun", [False, True], ids=["no answer", "a part of a body"])
def test_a_silent_store(
    bucket: Bucket,
    imported: Import,
    lines: Lines,
    content: list[bytes],
    silence: threading.Event,
    begun: bool,
) -> None:
    def be_silent(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        if not key_of(environment):
            return serve()
        if not begun:
            silence.wait(30)
            return serve()

        def parts(body: bytes) -> Iterator[bytes]:
            yield body[:100]
            silence.wait(30)

        return parts(b"".join(serve()))

    bucket.server.fault = be_silent
    one_error(imported, bucket, "the store does not answer, or not to the end", LATER, silent_seconds=0.5)
    assert lines() == []

    bucket.server.fault = None
    assert imported().added == 120
    assert lines() == sorted(content)


def test_an_object_that_may_not_be_read_does_not_stop_the_others(
    bucket: Bucket, imported: Import, lines: Lines, content: list[bytes]
) -> None:
    bucket.server.fault = refusing("403 Forbidden", "AccessDenied", keys=lambda key: key == "05.log")
    one_error(imported, bucket, "05.log may not be read", "Allow s3:GetObject on the objects")
    assert lines() == sorted(content[:50] + content[60:])


def test_a_followed_store_that_fails_for_a_while(
    bucket: Bucket, options: Options, lines: Lines, content: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.importing.objects.POLL_SECONDS", 0.05)
    monkeypatch.setattr("tidemark.importing.objects._LISTING_PART", 1.0)
    busy = refusing("503 Slow Down", "SlowDown", keys=lambda key: key >= "03.log")
    listings, report = list[str](), Report()

    def recover(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        """Answers with errors until the third listing."""
        if not key_of(environment):
            listings.append("")
        return busy(environment, start, serve) if len(listings) < 3 else serve()

    bucket.server.fault = recover
    how = Options(options.kafka, say=lambda text: None, stopped=lambda: report.added >= 120)
    with impatient():
        import_objects([bucket.url], how, ObjectOptions(bucket.server.url), report, follow=True)
    assert lines() == sorted(content)


@pytest.mark.parametrize("listing", [True, False])
def test_a_stop_does_not_wait_for_a_silent_store(
    bucket: Bucket,
    options: Options,
    content: list[bytes],
    silence: threading.Event,
    listing: bool,
) -> None:
    event = threading.Event()

    def be_silent(environment: Any, start: Any, serve: Callable[[], Any]) -> Any:
        if listing or key_of(environment):
            event.set()
            silence.wait(60)
        return serve()

    bucket.server.fault = be_silent
    report = Report()
    how = Options(options.kafka, say=lambda text: None, stopped=event.is_set)
    with impatient(silent_seconds=600):
        import_objects([bucket.url], how, ObjectOptions(bucket.server.url), report)
    assert report.stopped

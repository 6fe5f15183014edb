"""Stores by their URL, and their errors as a sentence with a remedy and without credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.errors import InputError, SettingError
from tidemark.objects.faults import MissingError, PassingError, error_of, explained
from tidemark.objects.listing import listed
from tidemark.objects.store import is_url, open_store, public

SECRET = "wJalrXUtnFEMI5ecre7"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.mark.parametrize(
    "url, root, path",
    [
        ("s3://logs", "s3://logs", ""),
        ("s3://logs/cdn/2026/", "s3://logs", "cdn/2026/"),
        ("s3://logs/a?b#c.log", "s3://logs", "a?b#c.log"),
        ("gs://logs/x.gz", "gs://logs", "x.gz"),
        ("https://ana:pw@example.org/a.gz?X-Amz-Signature=1", "https://example.org/a.gz", ""),
        ("file:///var/log/", "file://", "var/log/"),
    ],
)
def test_a_url_is_a_store_and_a_path(url: str, root: str, path: str) -> None:
    location = open_store(url)
    assert is_url(url)
    assert (location.root, location.path) == (root, path)


@pytest.mark.parametrize(
    "query, identity",
    [
        ("", ""),
        ("?X-Amz-Date=1&X-Amz-Signature=2&x-goog-signature=3", ""),
        ("?st=5&se=6&expires=7", "?st=5&se=6&expires=7"),
        ("?sv=1&ss=b&srt=o&sp=r&se=2&st=3&spr=https&sig=4", ""),
        ("?Expires=1&Signature=2&Key-Pair-Id=3", ""),
        ("?b=1&sig=2&a=%20&&X%2DAmz-Date=3", "?b=1&a=%20"),
    ],
)
def test_what_names_an_object_in_a_query_is_not_its_signature(query: str, identity: str) -> None:
    location = open_store(f"https://example.org/a.gz{query}")
    assert location.identity_of("") == f"https://example.org/a.gz{identity}"
    assert location.url == "https://example.org/a.gz"


@pytest.mark.parametrize(
    "url, endpoint",
    [("s3:///a", ""), ("ftp://x/y", ""), ("s3://x", "minio:9000"), ("az://logs/x", "")],
)
def test_what_is_no_store_is_an_error(url: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(SettingError):
        open_store(url, endpoint=endpoint)


def test_paths_are_no_urls() -> None:
    assert not any(map(is_url, ("-", "/var/log/a.log", "s3/a", "C://x", "weird://x")))
    assert public("https://a:b@example.org/x?sig=1#2") == "https://example.org/x"


def answer(status: int, code: str, more: str = "") -> Exception:
    """What obstore raises: the answer of a store, which may repeat the request that it got."""
    return ValueError(
        f"Error performing GET http://x/ - Server returned non-2xx status code: {status} X: "
        f"<Error><Code>{code}</Code>{more}<AWSAccessKeyId>AKIAEXAMPLE</AWSAccessKeyId>"
        f"<StringToSign>{SECRET}</StringToSign></Error>"
    )


@pytest.mark.parametrize(
    "error, problem, remedy",
    [
        (answer(403, "AccessDenied"), "s3://logs/a may not be listed", "Allow s3:ListBucket"),
        (answer(404, "NoSuchBucket"), "s3://logs does not exist", "Check its name"),
        (answer(400, "ExpiredToken"), "the credentials have expired", "aws sso login"),
        (answer(403, "SignatureDoesNotMatch"), "does not accept the credentials", "AWS_PROFILE"),
        (answer(403, "RequestTimeTooSkewed"), "clock", "Set the clock."),
        (answer(301, "PermanentRedirect"), "another region", "Set AWS_REGION to the region of the bucket."),
        (
            answer(400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
            "another region, eu-west-1",
            "Set AWS_REGION=eu-west-1.",
        ),
        (ValueError("PUT http://169.254.169.254/latest/api/token"), "no credentials", "AWS_PROFILE"),
    ],
)
def test_a_refusal_names_its_remedy_and_no_credentials(error: Exception, problem: str, remedy: str) -> None:
    result = error_of(open_store("s3://logs/a"), "listed", error)
    assert problem in result.problem
    assert remedy in result.remedy
    assert SECRET not in str(result) and "AKIA" not in str(result)
    assert not isinstance(result, PassingError)


def test_a_busy_store_may_answer_later() -> None:
    error = error_of(open_store("s3://logs/a"), "read", answer(503, "SlowDown"), "a/b")
    assert isinstance(error, PassingError)
    assert error.problem == "s3://logs/a/b cannot be read: the store answers 503 (SlowDown)"


def test_a_directory_is_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x")
    location = open_store(f"file://{tmp_path}/")
    with explained(location, "listed"):
        keys = [each["path"] for page in location.store.list(location.path) for each in page]
    assert [location.url_of(key) for key in keys] == [f"file://{tmp_path}/a.log"]
    with pytest.raises(MissingError), explained(location, "read", "nothing"):
        location.store.get("nothing")


def test_errors_of_the_caller_stay_as_they_are() -> None:
    with pytest.raises(InputError, match="mine"), explained(open_store("s3://logs"), "read"):
        raise InputError("mine")


def test_a_directory_that_cannot_be_listed_is_named_with_its_cause(tmp_path: Path) -> None:
    location = open_store(f"file://{tmp_path}/")
    (tmp_path / "loop").symlink_to(".")
    with pytest.raises(InputError, match=r"cannot be listed: .*loop found: .*\. Check path and rights\."):
        list(listed(location))
    (tmp_path / "loop").unlink()
    (tmp_path / "\udcff.log").touch()  # a byte that is no UTF-8
    with pytest.raises(InputError, match="no UTF-8"):
        list(listed(location))

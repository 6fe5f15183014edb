"""Messages of SQS in the forms in which S3's notifications arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemark.errors import SettingError
from tidemark.objects.notifications import Queue, urls_in


def record(event: str, key: str) -> dict[str, Any]:
    return {"eventName": event, "s3": {"bucket": {"name": "logs"}, "object": {"key": key}}}


S3 = {"Records": [record("ObjectCreated:Put", "a+b/%C3%BC%2B1.gz"), record("ObjectRemoved:Delete", "x")]}


@pytest.mark.parametrize(
    "body, urls",
    [
        (S3, ["s3://logs/a b/ü+1.gz"]),
        ({"Type": "Notification", "Message": json.dumps(S3)}, ["s3://logs/a b/ü+1.gz"]),
        (
            {
                "detail-type": "Object Created",
                "detail": {"bucket": {"name": "logs"}, "object": {"key": "a b+.gz"}},
            },
            ["s3://logs/a b+.gz"],
        ),
        ({"Service": "Amazon S3", "Event": "s3:TestEvent"}, []),
        (["other"], []),
        ({"Records": [{}]}, []),
    ],
)
def test_the_objects_of_a_message(body: Any, urls: list[str]) -> None:
    assert list(urls_in(json.dumps(body))) == urls


def test_what_is_no_json_names_nothing() -> None:
    assert list(urls_in("hello")) == []


@pytest.mark.parametrize("url", ["arn:aws:sqs:eu-west-1:1:logs", "https://sqs.eu-west-1.amazonaws.com/"])
def test_what_is_no_url_of_a_queue(url: str) -> None:
    with pytest.raises(SettingError, match="not the URL of a queue"):
        Queue(url)

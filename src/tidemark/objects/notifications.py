"""Notifications of new objects from a queue of SQS: of S3 itself, through SNS, or through EventBridge."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from tidemark.errors import InputError, PlatformError, SettingError

# SQS gives at most ten messages at once; an acknowledgement is of several requests.
_MESSAGES = 10
_REQUESTS = 10
# How long a request waits for messages, so that a signal is noticed in between.
_WAIT_SECONDS = 2
# A queue that does not answer is an error after a minute and a half.
_SILENT_SECONDS = 30
_ATTEMPTS = 3
_DOCS = "see docs/objects.md"


@dataclass(frozen=True)
class Notice:
    """A message: by its receipt it is acknowledged. `urls` are the objects that it names; none for a test message and
    for objects that were deleted."""

    receipt: str
    urls: tuple[str, ...]


class Queue:
    """A queue of SQS by its URL. Every method raises InputError."""

    def __init__(self, url: str) -> None:
        """Raises PlatformError if the library is not installed, and SettingError for what is no URL of a queue."""
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http") or not parts.path.strip("/"):
            raise SettingError(
                f"{url} is not the URL of a queue", "Copy it from SQS: https://sqs.REGION.…/ACCOUNT/NAME."
            )
        if importlib.util.find_spec("boto3") is None:
            raise PlatformError(
                "the library for queues of SQS is not installed",
                "Install it: `pip install 'tidemark[queue]'`.",
            )
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        self._url = url
        named = re.match(r"sqs\.([a-z0-9-]+)\.amazonaws\.com", parts.netloc)
        # boto3 knows the second variable and profiles itself.
        region = named[1] if named else os.environ.get("AWS_REGION")
        try:
            self._client = boto3.client(
                "sqs",
                endpoint_url=f"{parts.scheme}://{parts.netloc}",
                region_name=region,
                config=Config(
                    connect_timeout=_SILENT_SECONDS,
                    read_timeout=_SILENT_SECONDS,
                    retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
                ),
            )
        except BotoCoreError as error:
            raise SettingError(
                f"{url} cannot be read: {error}", "Set AWS_REGION, and check AWS_PROFILE."
            ) from error

    def receive(self, stopped: Callable[[], bool], *, wait: bool) -> list[Notice]:
        """Up to a hundred messages. With `wait` it waits for the first one until stopped."""
        notices: list[Notice] = []
        for request in range(_REQUESTS):
            seconds = 0 if notices or request else _WAIT_SECONDS
            answer = self._ask("receive_message", MaxNumberOfMessages=_MESSAGES, WaitTimeSeconds=seconds)
            messages = answer.get("Messages", [])
            notices += [Notice(each["ReceiptHandle"], tuple(urls_in(each["Body"]))) for each in messages]
            if not messages and (notices or not wait or stopped()):
                break
        return notices

    def acknowledge(self, notices: Sequence[Notice]) -> None:
        """Removes messages from the queue."""
        for at in range(0, len(notices), _MESSAGES):
            entries = [
                {"Id": str(number), "ReceiptHandle": notice.receipt}
                for number, notice in enumerate(notices[at : at + _MESSAGES])
            ]
            self._ask("delete_message_batch", Entries=entries)

    def _ask(self, operation: str, **arguments: Any) -> Mapping[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(QueueUrl=self._url, **arguments)
            return answer
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if "Expired" in code:
                remedy = "The credentials have expired: get new ones, for example by `aws sso login`."
            elif "NonExistent" in code:
                remedy = "Check the URL and its region."
            else:
                remedy = f"Allow sqs:ReceiveMessage and sqs:DeleteMessage on the queue; {_DOCS}."
            raise InputError(f"queue {self._url} cannot be read: {code}", remedy) from None
        except BotoCoreError as error:
            raise InputError(
                f"queue {self._url} cannot be read: {type(error).__name__}",
                f"Check the network and the credentials; {_DOCS}.",
            ) from None


def urls_in(body: str) -> Iterator[str]:
    """The objects that a message says were written. A message of another kind names none."""
    try:
        message = json.loads(body)
        if isinstance(message, dict) and message.get("Type") == "Notification":  # of SNS
            message = json.loads(message["Message"])
        yield from _urls(message)
    except (ValueError, LookupError, TypeError, AttributeError):
        return


def _urls(message: Any) -> Iterator[str]:
    if message.get("detail-type") == "Object Created":  # of EventBridge, whose keys are as they are
        yield f"s3://{message['detail']['bucket']['name']}/{message['detail']['object']['key']}"
    for record in message.get("Records", []):
        if record["eventName"].startswith(("ObjectCreated:", "ObjectRestore:Completed")):
            yield f"s3://{record['s3']['bucket']['name']}/{unquote_plus(record['s3']['object']['key'])}"

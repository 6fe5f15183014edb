"""The rules of silver.requests that reject lines. No table of its own, so its name begins with an underscore."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemark.contract.expression import column
from tidemark.contract.rules import RejectingRule
from tidemark.parse.site import MOST_CHARACTERS

_FIRST_ARRIVAL = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_ARRIVAL = datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC)
_ARRIVED = column("kafka_timestamp").between(_FIRST_ARRIVAL, _LAST_ARRIVAL)
_NOT_ARRIVED = column("kafka_timestamp").is_null() | ~_ARRIVED
_EMPTY = column("value").length() == 0
_NO_LINE = ~column("well_formed")

# `unless`: another rule rejects such a line already, so the reasons name each fault once.
# Rows from before silver.requests had `kafka_timestamp` may lack it, so it is not expected of them.
REJECTING = (
    RejectingRule("empty", column("value").length() > 0, "value", "The line has content."),
    RejectingRule(
        "too_long", column("fits") & column("chunk").is_null(),
        "value", "The line is not longer than a server can write.",
    ),
    RejectingRule(
        "unknown_format", column("format_known"),
        "format", "The sender named a known format, or none.",
    ),
    RejectingRule(
        "invalid_site", column("site_ok"), "site",
        f"The site's name has at most {MOST_CHARACTERS} characters, and no control characters.",
    ),
    RejectingRule(
        "invalid_kafka_timestamp", _ARRIVED, "kafka_timestamp",
        "The record has a Kafka timestamp, not before 1970 and not after 9998.", expected=False,
    ),
    RejectingRule(
        "no_fields", column("fields_known"), "fields",
        "The sender named the columns of a line of a W3C log (header `fields`).", unless=_EMPTY,
    ),
    RejectingRule(
        "partial", column("whole"), "value",
        "The line is whole: no part of one that a container runtime split.", unless=_EMPTY,
    ),
    RejectingRule(
        "malformed", column("well_formed"), "value", "The line has the fields of a known log format.",
        unless=~column("fits") | ~column("fields_known") | ~column("whole") | _EMPTY,
    ),
    RejectingRule(
        "invalid_time", column("event_time").is_valid(), "event_time",
        "The time in the line is valid, and not before 1970.", unless=_NO_LINE,
    ),
    RejectingRule(
        "future_time", column("event_time") <= column("kafka_timestamp") + timedelta(days=1), "event_time",
        "The time in the line is at most a day after its arrival.",
        unless=column("event_time").is_null() | _NOT_ARRIVED, expected=False,
    ),
    RejectingRule(
        "invalid_status", column("status_ok"), "status",
        "The line says a status of three digits from 100 on, or that there was none.", unless=_NO_LINE,
    ),
)  # fmt: skip

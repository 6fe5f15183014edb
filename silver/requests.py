"""silver.requests: every accepted line, parsed and enriched."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow.compute as pc
from pyarrow.compute import field

from tidemark.contract.rules import Rule
from tidemark.contract.table import Column, Table
from tidemark.engine.arrays import Arrays, Vectorized
from tidemark.engine.verdict import verdict
from tidemark.parse.columns import KNOWN, Knowledge, describe
from tidemark.parse.formats import FIELDS, FORMATS, fields
from tidemark.parse.page import is_asset, is_pageview
from tidemark.parse.site import MOST_CHARACTERS, valid_names

# The sum of the sizes of many lines must not overflow.
MOST_RESPONSE_BYTES = 1 << 40

_ARRIVAL = field("kafka_timestamp")
_A_DAY_AHEAD = pc.add(_ARRIVAL, timedelta(days=1))
_FIRST_ARRIVAL = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_ARRIVAL = datetime(9998, 12, 31, 23, 59, 59, 999_999, UTC)
_ARRIVAL_OK = pc.greater_equal(_ARRIVAL, _FIRST_ARRIVAL) & pc.less_equal(_ARRIVAL, _LAST_ARRIVAL)
_NO_ARRIVAL = _ARRIVAL.is_null() | ~_ARRIVAL_OK
_NO_LINE = ~field("well_formed")

RULES = (
    Rule("empty", "", "value", "The line has content.", judged=pc.binary_length(field("value")) > 0),
    Rule(
        "too_long", "", "value", "The line is not longer than a server can write.",
        judged=field("fits") & field("chunk").is_null(),
    ),
    Rule("invalid_utf8", "", "value", "The bytes are UTF-8.", judged=field("utf8_ok")),
    Rule(
        "control_characters", "", "value", "The line is text: servers escape control characters.",
        judged=field("text_ok") | ~field("utf8_ok") | ~field("fits"),
    ),
    Rule(
        "unknown_format", "", "value", "The sender named a known format, or none.",
        judged=field("format").is_null() | field("format").isin(FORMATS),
    ),
    Rule(
        "invalid_site", "", "site",
        f"The site's name has at most {MOST_CHARACTERS} characters, and no control characters.",
        judged=field("site_ok"),
    ),
    Rule(
        "invalid_kafka_timestamp", "", "kafka_timestamp",
        "The record has a Kafka timestamp, not before 1970 and not after 9998.", judged=~_NO_ARRIVAL,
    ),
    Rule(
        "malformed", "", "value", "The line has the fields of a known log format.",
        judged=field("well_formed") | ~field("text_ok") | (pc.binary_length(field("value")) == 0),
    ),
    Rule(
        "invalid_address", "", "client_ip", "The client's address is an IPv4 or IPv6 address.",
        judged=field("address_ok") | _NO_LINE,
    ),
    Rule(
        "invalid_time", "", "event_time", "The time in the line is valid, and not before 1970.",
        judged=field("event_time").is_valid() | _NO_LINE,
    ),
    Rule(
        "future_time", "", "event_time", "The time in the line is at most a day after its arrival.",
        judged=field("event_time").is_null() | (field("event_time") <= _A_DAY_AHEAD) | _NO_ARRIVAL,
    ),
    Rule(
        "invalid_status", "status BETWEEN 100 AND 599", "status", "The status code is one of HTTP's.",
        judged=(field("status") >= 100) & (field("status") <= 599) | _NO_LINE,
    ),
    Rule(
        "invalid_size", f"bytes BETWEEN 0 AND {MOST_RESPONSE_BYTES}", "bytes",
        "The response size is a number, not negative, and at most 1 TiB.",
        judged=(field("bytes") >= 0) & (field("bytes") <= MOST_RESPONSE_BYTES) | _NO_LINE,
    ),
    Rule("time_known", "event_time IS NOT NULL", "event_time", "Every request has its event time."),
    Rule("visitor_known", "visitor_id IS NOT NULL", "visitor_id", "Every request has its visitor."),
    Rule("country_code", "country RLIKE '^[A-Z]{2}$'", "country", "The country is an ISO 3166-1 alpha-2 code or ZZ."),
    Rule(
        "pageview_is_page", "NOT pageview OR (method = 'GET' AND NOT bot AND NOT asset AND status < 400)",
        "pageview", "A pageview is a person's successful GET of a page.",
    ),
    Rule("country_located", "country <> 'ZZ'", "country", "The address could be located.", severity="info"),
)  # fmt: skip

TABLE = Table(
    name="silver.requests",
    about="One row per accepted line, parsed and enriched.",
    kind="append",
    key=("topic", "partition", "offset"),
    time="event_time",
    reads="bronze.access_log",
    rules=RULES,
    lines="accepted",
    keyed=True,
    columns=(
        Column("topic", "string", "Kafka topic."),
        Column("partition", "int", "Kafka partition."),
        Column("offset", "long", "Offset in the partition."),
        Column("site", "string", "Site of the line."),
        Column("event_time", "timestamp", "Time in the log line, UTC."),
        Column("ingested_at", "timestamp", "When Tidemark read the line."),
        Column("client_ip", "string", "Client address as logged. Personal data."),
        Column("country", "string", "ISO 3166-1 alpha-2 country of the address; ZZ where unknown."),
        Column("visitor_id", "string", "Keyed hash of site, address and user agent."),
        Column("method", "string", "HTTP method; NULL for a request that is not HTTP."),
        Column("path", "string", "Path without the query; NULL for a request that is not HTTP."),
        Column("query", "string", "Query without its question mark; NULL if there is none."),
        Column("protocol", "string", "Such as HTTP/1.1."),
        Column("status", "int", "HTTP status code."),
        Column("bytes", "long", "Size of the response; 0 where the log has a dash."),
        Column("referrer", "string", "Referring address; NULL if none was sent."),
        Column("referrer_host", "string", "Its host without www."),
        Column("channel", "string", "direct, internal, search, social, email, paid, campaign or referral."),
        Column("user_agent", "string", "User agent; NULL if none was sent."),
        Column("browser", "string", "Browser family."),
        Column("os", "string", "Operating system family."),
        Column("device", "string", "desktop, mobile, tablet, bot or other."),
        Column("bot", "boolean", "Whether the user agent is on the list of known crawlers."),
        Column("asset", "boolean", "Whether the path is a file that belongs to a page."),
        Column("pageview", "boolean", "GET by a non-bot of a non-asset path with status below 400."),
        Column("host", "string", "Virtual host, where the format has it."),
        Column("remote_user", "string", "Authenticated user; NULL if none."),
        Column("rules_version", "string", "Geo data, user-agent rules and bot list the row was made with."),
    ),
)


def judging(knowledge: Knowledge, *, again: bool = False) -> Vectorized:
    """What makes rows of bronze.access_log to judged lines: adds every column of this table, `accepted`, `reasons`
    (empty for a good line), and what the rules speak of. Lines judged `again` keep their `ingested_at`."""
    inputs = ("site", "value", "format", "chunk", "kafka_timestamp", *(["ingested_at"] if again else []))
    verdicts = "asset boolean, pageview boolean, accepted boolean, reasons array<string>"
    return Vectorized(inputs, f"{FIELDS}, {KNOWN}, {verdicts}", partial(_judged, RULES, knowledge))


def _judged(rules: Sequence[Rule], knowledge: Knowledge, lines: Arrays) -> Arrays:
    found = {**lines, **fields(lines)}
    found |= describe(knowledge, lines["site"], found)
    if "ingested_at" in lines:
        found["ingested_at"] = lines["ingested_at"]
    found["site_ok"] = valid_names(lines["site"])
    found["asset"] = is_asset(found["path"])
    found["pageview"] = is_pageview(found)
    return found | verdict(rules, found)

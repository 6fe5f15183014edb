"""silver.requests: every accepted line, parsed and enriched."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.enrich.columns import Knowledge, enrich
from tidemark.formats import FORMATS, parse
from tidemark.quality.rules import Rule, accepted, reasons
from tidemark.table import Column, Table

# Files that belong to a page rather than being one.
ASSETS = (
    "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "avif", "bmp",
    "woff", "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "wasm",
)  # fmt: skip

# Sums of the sizes of many lines must not overflow, whatever the lines say.
MOST_RESPONSE_BYTES = 1 << 40

RULES = (
    Rule("empty", "octet_length(value) > 0", "value", "The line has content.", quarantine=True, in_table=False),
    Rule(
        "too_long", "fits AND chunk IS NULL", "value",
        "The line is no longer than a server could have written.", quarantine=True, in_table=False,
    ),
    Rule(
        "invalid_utf8", "utf8_ok", "value",
        "The bytes are UTF-8.", quarantine=True, in_table=False,
    ),
    Rule(
        "control_characters", "text_ok OR NOT utf8_ok OR NOT fits", "value",
        "The line is text: servers escape control characters.", quarantine=True, in_table=False,
    ),
    Rule(
        "unknown_format", f"format IS NULL OR format IN {FORMATS}", "value",
        "The sender named a format that exists, or none.", quarantine=True, in_table=False,
    ),
    Rule(
        "malformed", "well_formed OR NOT text_ok OR octet_length(value) = 0", "value",
        "The line has the fields of a known log format.", quarantine=True, in_table=False,
    ),
    Rule(
        "invalid_address", "address_ok OR NOT well_formed", "client_ip",
        "The client's address is an IPv4 or IPv6 address.", quarantine=True, in_table=False,
    ),
    Rule(
        "invalid_time", "event_time IS NOT NULL OR NOT well_formed", "event_time",
        "The time in the line exists, and is not before 1970.", quarantine=True, in_table=False,
    ),
    Rule(
        "future_time", "event_time IS NULL OR event_time <= kafka_timestamp + INTERVAL 1 DAY", "event_time",
        "The line is not from the future: at most a day ahead of its arrival.", quarantine=True, in_table=False,
    ),
    Rule(
        "invalid_status", "status BETWEEN 100 AND 599 OR NOT well_formed", "status",
        "The status code is one of HTTP's.", quarantine=True, in_table="status BETWEEN 100 AND 599",
    ),
    Rule(
        "invalid_size", f"bytes BETWEEN 0 AND {MOST_RESPONSE_BYTES} OR NOT well_formed", "bytes",
        "The response size is a number, not negative, and at most 1 TiB.", quarantine=True,
        in_table=f"bytes BETWEEN 0 AND {MOST_RESPONSE_BYTES}",
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
    accounted="accepted",
    columns=(
        Column("topic", "string", "Kafka topic."),
        Column("partition", "int", "Kafka partition."),
        Column("offset", "long", "Offset in the partition."),
        Column("site", "string", "Site the line belongs to."),
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


def judged(lines: DataFrame, knowledge: Knowledge) -> DataFrame:
    """Rows of bronze.access_log with every column of this table, `reasons` (empty for a good line)
    and `accepted`."""
    enriched = enrich(parse(lines), knowledge)
    return (
        enriched.withColumn("asset", is_asset())
        .withColumn("pageview", is_pageview())
        .withColumn("accepted", accepted(RULES))
        .withColumn("reasons", reasons(RULES))
    )


def is_asset() -> SparkColumn:
    """Whether `path` ends like a file that belongs to a page; false without a path."""
    ending = F.lower(F.substring_index("path", ".", -1))
    return F.coalesce(F.contains(F.col("path"), F.lit(".")) & ending.isin(*ASSETS), F.lit(False))


def is_pageview() -> SparkColumn:
    """A person's successful GET of a page."""
    page = (F.col("method") == "GET") & ~F.col("bot") & ~F.col("asset") & (F.col("status") < 400)
    return F.coalesce(page, F.lit(False))

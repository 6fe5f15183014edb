"""silver.requests: every accepted line, parsed and enriched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from silver._rejecting import REJECTING
from tidemark.contract.channels import CHANNELS
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation, RejectingRule
from tidemark.contract.table import Column, Table
from tidemark.engine.arrays import Arrays, Vectorized
from tidemark.engine.verdict import verdict
from tidemark.figures.quantiles import FINE, buckets
from tidemark.parse.bots import FORGED_KIND, KINDS, OTHER_KIND
from tidemark.parse.columns import KNOWN, Knowledge, describe
from tidemark.parse.detect import FIELDS, fields
from tidemark.parse.nearest import of_rejected
from tidemark.parse.networks import PUBLIC_KINDS
from tidemark.parse.page import is_asset, is_pageview
from tidemark.parse.site import valid_names
from tidemark.parse.tags import CLICK_IDS, SEARCH_PARAMETERS
from tidemark.parse.values import MOST_RESPONSE_BYTES
from tidemark.privacy.masking import MASKABLE, Masking, columns

EXPECTS = (
    Expectation("visitor_known", column("visitor_id").is_valid(), "visitor_id", "Every request has its visitor."),
    Expectation(
        "status_in_range", column("status").is_null() | column("status").between(100, 999),
        "status", "The status has three digits, where there was one.",
    ),
    Expectation(
        "size_in_range", column("bytes").between(0, MOST_RESPONSE_BYTES),
        "bytes", "The size is not negative, and at most 1 TiB.",
    ),
    Expectation(
        "country_code", column("country").matches("[A-Z]{2}"),
        "country", "The country is an ISO 3166-1 alpha-2 code or ZZ.",
    ),
    Expectation(
        "pageview_is_page",
        ~column("pageview")
        | (
            (column("method").is_null() | (column("method") == "GET"))
            & ~column("bot") & ~column("asset") & (column("status") < 400)
        ),
        "pageview", "A pageview is a person's successful GET of a page; without a method, a request for one.",
    ),
    Expectation(
        "country_located", column("country") != "ZZ", "country", "The address could be located.", severity="info"
    ),
)  # fmt: skip

TABLE = Table(
    name="silver.requests",
    about="One row per accepted line, parsed and enriched.",
    kind="append",
    key=("topic", "partition", "offset"),
    time="event_time",
    clock="ingested_at",
    reads="bronze.access_log",
    rejecting=REJECTING,
    expects=EXPECTS,
    lines="accepted",
    clients="client_ip",
    keyed=True,
    columns=(
        Column("topic", "string", "Kafka topic."),
        Column("partition", "int", "Kafka partition."),
        Column("offset", "long", "Offset in the partition."),
        Column("site", "string", "Site of the line."),
        Column("event_time", "timestamp", "Time in the log line, UTC, to the microsecond if the line has it."),
        Column("ingested_at", "timestamp", "When Tidemark read the line."),
        Column(
            "client_ip", "string",
            "Client address in canonical form, a host name where the server logs one, or NULL. Personal data.",
        ),
        Column("country", "string", "ISO 3166-1 alpha-2 country of the address; ZZ where unknown."),
        Column(
            "network", "string",
            f"Kind of the address's network: {', '.join(PUBLIC_KINDS[:-1])} or {PUBLIC_KINDS[-1]} (such as iCloud "
            "Private Relay, whose users are people); NULL for any other.",
        ),
        Column("asn", "int", "Number of its autonomous system; NULL without `asn_database`."),
        Column("as_org", "string", "Organisation that runs that, likewise."),
        Column("city", "string", "City of the address, in English; NULL without `city_database`."),
        Column("region", "string", "Its region, such as a state, likewise."),
        Column("visitor_id", "string", "Keyed hash of site, address and user agent."),
        Column("method", "string", "HTTP method; NULL for a request that is not HTTP, and in formats without one."),
        Column("path", "string", "Path without the query; NULL for a request that is not HTTP."),
        Column("query", "string", "Query without its question mark; NULL if there is none."),
        Column("protocol", "string", "Such as HTTP/1.1."),
        Column("status", "int", "HTTP status code; NULL where there was none."),
        Column("bytes", "long", "Size of the response; 0 where the line has none."),
        Column("duration_us", "long", "Time the server took, in microseconds; NULL where the line has none."),
        Column(
            "latency_bucket", "int",
            "Bucket of the time: 0 below 1 µs, else ceil(ln d / ln γ), γ = (1+α)/(1-α), α = 0.01; NULL without time.",
        ),
        Column("referrer", "string", "Referring address; NULL if none was sent."),
        Column("referrer_host", "string", "Its host without www., or the package of an app; NULL if it has none."),
        Column("channel", "string", f"Marketing channel: {', '.join(CHANNELS[:-1])} or {CHANNELS[-1]}."),
        Column(
            "source", "string",
            "utm_source without blanks around it, else the platform of the click id, else the listed name of the "
            "referring host, else that host; lower case, empty for a visit without any of them.",
        ),
        Column("utm_source", "string", "Campaign tag of the query, decoded, at most 200 characters; NULL if none."),
        Column("utm_medium", "string", "Likewise."),
        Column("utm_campaign", "string", "Likewise."),
        Column("utm_term", "string", "Likewise."),
        Column("utm_content", "string", "Likewise."),
        Column("click_id", "string", f"Name of the query's click id: {', '.join(CLICK_IDS)}; NULL if none."),
        Column(
            "search_term", "string",
            f"Term of a site search: the first of the query's {', '.join(SEARCH_PARAMETERS)} that is not blank; "
            "decoded, at most 200 characters.",
        ),
        Column("user_agent", "string", "User agent; NULL if none was sent."),
        Column("browser", "string", "Browser family."),
        Column("os", "string", "Operating system family."),
        Column("device", "string", "desktop, mobile, tablet, bot or other."),
        Column("bot", "boolean", "Whether the user agent is on the list of known crawlers."),
        Column("bot_name", "string", "The part of the user agent that names the bot, such as GPTBot; NULL for people."),
        Column(
            "bot_kind", "string",
            f"{', '.join(KINDS)} or {OTHER_KIND}; {FORGED_KIND} if `bot_verified` is; NULL for people.",
        ),
        Column(
            "bot_verified", "string",
            "verified if the address is in a network that the bot's operator publishes for it, else forged; NULL for "
            "people, without an address, and where nobody publishes networks.",
        ),
        Column(
            "ai_purpose", "string",
            "Purpose of an AI company's bot: training, search or assistant; NULL for people and other bots.",
        ),
        Column("disallowed", "boolean", "Whether `robots` of the site forbids the path to the bot; NULL for people."),
        Column("asset", "boolean", "Whether the path is a file that belongs to a page."),
        Column(
            "pageview", "boolean",
            "GET by a non-bot of a non-asset path with status below 400; in a format without methods, any request.",
        ),
        Column("host", "string", "Host of the request in lower case, without port, where the line has it."),
        Column("remote_user", "string", "Authenticated user; NULL if none."),
        Column("format", "string", "Log format by which the line was read.", of="read_as"),
        Column("edge_country", "string", "Country as a proxy at the edge located the client; see `country`."),
        Column("kafka_timestamp", "timestamp", "When the line was produced to Kafka."),
        Column(
            "rules_version", "string",
            "Geo data, databases of addresses, lists and rules for user agents, bots, channels, sources and networks, "
            "log formats and settings of sites that the row was made with.",
        ),
    ),
)  # fmt: skip


def validation(knowledge: Knowledge, masking: Masking | None = None, *, again: bool = False) -> Vectorized:
    """Validates rows of bronze.access_log: adds every column of this table, `accepted`, `reasons`
    (empty for a good line), and the columns of the rules. Lines validated `again` keep their `ingested_at`.

    With `masking` also `privacy`, and the columns of bronze that the privacy mode may change."""
    inputs = (
        "site",
        "value",
        "format",
        "fields",
        "chunk",
        "kafka_timestamp",
        *(["privacy"] if masking else []),
        *(["ingested_at"] if again else []),
    )
    verdicts = "accepted boolean, reasons array<string>, nearest string, lacks string"
    schema = f"latency_bucket int, asset boolean, pageview boolean, {verdicts}"
    if masking:
        schema += ", privacy string" + (f", {MASKABLE}" if masking.privacy.active else "")
    return Vectorized(
        inputs, f"{FIELDS}, {KNOWN}, {schema}", partial(_validated, REJECTING, knowledge, masking)
    )


def _validated(
    rules: Sequence[RejectingRule], knowledge: Knowledge, masking: Masking | None, lines: Arrays
) -> Arrays:
    again = "ingested_at" in lines
    if masking:
        arrays = {**lines, **columns(knowledge, masking, lines, trusted=again)}
    else:
        arrays = {**lines, **fields(lines, knowledge.reading)}
        arrays |= describe(knowledge, lines["site"], arrays)
    if again:
        arrays["ingested_at"] = lines["ingested_at"]
    arrays["site_ok"] = valid_names(lines["site"])
    arrays["latency_bucket"] = buckets(arrays["duration_us"], FINE)
    arrays["asset"] = is_asset(arrays["path"])
    arrays["pageview"] = is_pageview(arrays)
    arrays |= verdict({rule.name: rule.accepts.arrow for rule in rules}, arrays)
    return {**arrays, **of_rejected({rule.name: rule.on for rule in rules}, arrays)}

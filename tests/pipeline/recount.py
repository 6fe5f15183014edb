"""An independent recomputation of the tables with DuckDB, sharing no code with the project.

What it takes from the same sources as the project is data: countries from `iptocc`, and what `tests.pipeline.meaning`
names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import duckdb
import iptocc
import pyarrow as pa

from tests.pipeline import meaning, places, queries

_LINE = (
    r'^(\S+) \S+ (.+?) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    # A line may end within its agent.
    r'(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)(?:"|$))?(?: (\d+\.\d{3}))?$'
)
_ASSET = (
    r"\.(css|[mc]?js|map|webmanifest|wasm|a?png|jpe?g|jpe|jfif|gif|svgz?|ico|cur|webp|avif|hei[cf]|jxl|jp2|bmp|tiff?"
    r"|woff2?|ttf|otf|eot|mp4|m4[asv]|mov|web[ma]|og[agv]|avi|flv|f4v|mpe?g|wm[av]|mkv|3gp|(m2)?ts|vtt|m3u8|mpd|mp3"
    r"|aac|opus|flac|wav|mid)(;[^/]*)?$"
)
_HTTP = r"^[A-Z][A-Z_-]{1,31} [^ \t].* HTTP/\d(\.\d)?$"


Row = tuple[object, ...]


@dataclass(frozen=True)
class Expected:
    """The recomputed tables as sets of rows; where rows are of visitors or lines, without their ids and with their
    number."""

    accepted: int
    rejected: int
    requests: set[Row]
    windows: set[Row]
    traffic: set[Row]
    pages: set[Row]
    formats: set[Row]
    responses: set[Row]
    errors: set[Row]
    latency: set[Row]
    page_latency: set[Row]
    visitor_hours: set[Row]
    visitor_days: set[Row]
    bots: set[Row]
    networks: set[Row]
    bot_pages: set[Row]
    searches: set[Row]
    sessions: set[Row]
    steps: set[Row]
    session_goals: set[Row]
    goals: set[Row]
    completions: set[Row]
    sources: set[Row]
    # No tables, but what walks are made of: pageviews of visitors with their number, and days of visitors.
    views: set[Row]
    people: set[Row]


@dataclass(frozen=True)
class Delivery:
    """A line as a shipper sends it: `seconds` is its Kafka timestamp, since the epoch."""

    site: str
    line: bytes
    id: str | None
    partition: int
    seconds: int


def delivered_once(deliveries: Iterable[Delivery], days: int = 7) -> tuple[list[tuple[str, bytes]], int]:
    """(site, line) pairs without repetitions, and how many these were, for deliveries in order of reading."""
    accepted: dict[tuple[str, str], list[int]] = defaultdict(list)
    pairs, duplicate = [], 0
    for each in deliveries:
        if each.id and re.match(_LINE, each.line.decode("utf-8", "replace")):
            moments = accepted[each.site, each.id]
            if any(abs(each.seconds - moment) < days * 86_400 for moment in moments):
                duplicate += 1
                continue
            moments.append(each.seconds)
        pairs.append((each.site, each.line))
    return pairs, duplicate


def recount(
    lines: Iterable[tuple[str, bytes]],
    gap_seconds: int = 1800,
    hosts: Mapping[str, Collection[str]] | None = None,
    goals: Mapping[str, str] | None = None,
    robots: Mapping[str, str] | None = None,
) -> Expected:
    """Recomputes everything from (site, line) pairs; `hosts` are the own ones of sites, `goals` conditions by name,
    `robots` the robots.txt of sites, whose rules must not overlap."""
    own = tuple((site, tuple(names)) for site, names in (hosts or {}).items())
    return _recount(
        tuple(lines), gap_seconds, own, tuple((goals or {}).items()), tuple((robots or {}).items())
    )


@lru_cache(maxsize=8)  # tests compare with the same lines before and after what they do
def _recount(
    pairs: tuple[tuple[str, bytes], ...],
    gap_seconds: int,
    hosts: tuple[tuple[str, tuple[str, ...]], ...],
    conditions: tuple[tuple[str, str], ...],
    robots: tuple[tuple[str, str], ...],
) -> Expected:
    own, goals = dict(hosts), dict(conditions)
    rules = {site: meaning.robots_of(text) for site, text in robots}
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    raw = pa.table({"site": [s for s, _ in pairs], "line": [v.decode("utf-8", "replace") for _, v in pairs]})
    db.register("raw", raw)
    db.execute(queries.PARSED, [_HTTP, _LINE, _LINE])
    _known(
        db,
        "places",
        "ip",
        ["country", "network"],
        lambda ip: [iptocc.country_code(ip) or "ZZ", places.network_of(ip)],
    )
    _known(db, "robots", "ip, agent", ["bot", "bot_name", "bot_kind", "ai_purpose", "bot_verified"], _bot)
    _known(db, "forbidden", "site, agent, http, target", ["disallowed"],
           lambda site, agent, http, target: [
               meaning.forbidden(rules[site], agent, target if http else "") if site in rules else None
           ])  # fmt: skip
    _known(db, "origins", "site, referrer, query", [*meaning.Origin._fields, "search_term"],
           lambda site, referrer, query: [
               *meaning.origin(referrer, query, own.get(site, ())), meaning.search_term(query)
           ])  # fmt: skip
    _known(db, "buckets", "micros", ["latency_bucket", "page_bucket"], _buckets)
    db.execute(queries.REQUESTS, [_ASSET])
    db.execute(queries.SESSIONS.format(gap=gap_seconds))
    counts = "count(*) FILTER (pageview), count(*), count(*) FILTER (bot)"
    visitors = "count(DISTINCT visitor) FILTER (NOT bot)"
    accepted = db.execute("SELECT count(*) FROM requests").fetchone()[0]  # type: ignore[index]
    return Expected(
        accepted=accepted,
        rejected=len(pairs) - accepted,
        windows=_rows(
            db, f"SELECT site, {_window(300)}, country, {visitors}, {counts} FROM requests GROUP BY 1, 2, 3"
        ),
        traffic=_rows(
            db,
            f"""SELECT site, {_window(60)}, {visitors}, {counts}, sum(bytes)::BIGINT,
            {", ".join(f"count(*) FILTER (status // 100 = {c})" for c in (2, 3, 4, 5))} FROM requests GROUP BY 1, 2""",
        ),
        pages=_rows(
            db,
            f"""SELECT site, {_window(3600)}, path, count(*), count(DISTINCT visitor)
            FROM requests WHERE pageview GROUP BY 1, 2, 3""",
        ),
        formats=_rows(
            db,
            f"""SELECT site, {_window(86_400)}, form, count(*), {visitors}, min(epoch(t)::BIGINT), max(epoch(t)::BIGINT)
            FROM requests GROUP BY 1, 2, 3""",
        ),
        responses=_rows(
            db,
            f"""SELECT site, {_window(3600)}, status, method, protocol, '', bot, count(*), sum(bytes)::BIGINT
            FROM requests GROUP BY ALL""",
        ),
        errors=_rows(
            db,
            f"""SELECT site, {_window(3600)}, left(path, 200), status, count(*), {visitors}, max(epoch(t)::BIGINT)
            FROM requests WHERE status >= 400 GROUP BY 1, 2, 3, 4""",
        ),
        visitor_hours=_rows(
            db,
            f"SELECT site, {_window(3600)}, count(DISTINCT visitor) FROM requests WHERE NOT bot GROUP BY 1, 2",
        ),
        latency=_rows(
            db,
            f"""SELECT site, {_window(300)}, bot, latency_bucket, count(*) FROM requests WHERE micros >= 0
            GROUP BY 1, 2, 3, 4""",
        ),
        page_latency=_rows(
            db,
            f"""SELECT site, hour, path, sum(n)::BIGINT, string_agg(page_bucket || ':' || n, ' ' ORDER BY page_bucket)
            FROM (SELECT site, {_window(3600)} AS hour, left(path, 200) AS path, page_bucket, count(*) AS n
                  FROM requests WHERE micros >= 0 AND NOT bot AND NOT asset AND status < 400 GROUP BY ALL)
            GROUP BY 1, 2, 3""",
        ),
        visitor_days=_rows(db, queries.VISITOR_DAYS),
        bots=_rows(
            db,
            f"""SELECT site, {_window(3600)}, bot_name, bot_kind, coalesce(bot_verified, ''), count(*),
            count(*) FILTER (method = 'GET' AND NOT asset AND status < 400 AND path <> '/robots.txt'),
            sum(bytes)::BIGINT, count(*) FILTER (path = '/robots.txt'), count(*) FILTER (status >= 400),
            count(*) FILTER (disallowed)
            FROM requests WHERE bot GROUP BY 1, 2, 3, 4, 5""",
        ),
        networks=_rows(
            db,
            f"""SELECT site, {_window(3600)}, coalesce(network, ''), '', count(*),
            count(*) FILTER (pageview), {visitors} FROM requests GROUP BY 1, 2, 3""",
        ),
        bot_pages=_rows(
            db,
            f"""SELECT site, {_window(86_400)}, bot_name, left(path, 200), count(*),
            count(*) FILTER (bot_verified = 'forged') FROM requests WHERE bot
            GROUP BY 1, 2, 3, 4""",
        ),
        searches=_rows(
            db,
            f"""SELECT site, {_window(86_400)}, search_term, count(*), {visitors} FROM requests
            WHERE NOT bot AND search_term IS NOT NULL GROUP BY 1, 2, 3""",
        ),
        requests=_rows(
            db,
            """SELECT site, epoch(t)::BIGINT, country, nullif(method, ''), if(http, path, NULL), status, bytes, micros,
            latency_bucket, network, bot, bot_name, bot_kind, bot_verified, ai_purpose, disallowed, channel,
            source, utm_source, utm_medium, utm_campaign, utm_term, utm_content, click_id, search_term, asset,
            pageview, count(*)
            FROM requests GROUP BY ALL""",
        ),
        sessions=_rows(
            db,
            """SELECT site, country, a, b, b - a, views, entry, leave, views = 1, closed, channel, source, medium,
            campaign, count(*) FROM sessions GROUP BY ALL""",
        ),
        steps=_rows(
            db,
            "SELECT site, a, views, array_to_string(steps[1:200], ' '), count(*) FROM sessions GROUP BY ALL",
        ),
        session_goals=_rows(db, "SELECT site, a, b, views, channel, count(*) FROM sessions GROUP BY ALL")
        if goals
        else set(),
        goals=_goals(db, goals, gap_seconds),
        completions=_completions(db, goals),
        sources=_rows(
            db,
            """SELECT site, a // 3600 * 3600, channel, source, medium, campaign, count(*), count(*) FILTER (views = 1),
            sum(views)::BIGINT, count(DISTINCT visitor) FROM sessions GROUP BY 1, 2, 3, 4, 5, 6""",
        ),
        views=_rows(
            db,
            "SELECT site, visitor, epoch(t)::BIGINT, path, count(*) FROM requests WHERE pageview GROUP BY ALL",
        ),
        people=_rows(
            db, "SELECT DISTINCT site, visitor, epoch(t)::BIGINT // 86400 FROM requests WHERE NOT bot"
        ),
    )


def _known(
    db: duckdb.DuckDBPyConnection, table: str, keys: str, columns: list[str], of: Callable[..., list[object]]
) -> None:
    """Makes a table with what a function says about the distinct values of some columns of `parsed`."""
    names = [name.strip() for name in keys.split(",")]
    result = db.execute(f"SELECT DISTINCT {keys} FROM parsed").fetchall()
    rows = [(*key, *of(*key)) for key in result]
    values = list(zip(*rows, strict=True)) or [()] * (len(names) + len(columns))
    types = [
        pa.int64() if name in _NUMBERS else pa.bool_() if name in _FLAGS else pa.string()
        for name in (*names, *columns)
    ]
    db.register(
        table,
        pa.table([pa.array(each, t) for each, t in zip(values, types, strict=True)], [*names, *columns]),
    )


_NUMBERS = ("micros", "latency_bucket", "page_bucket")
_FLAGS = ("bot", "http", "disallowed")


def _bot(ip: str, agent: str) -> list[object]:
    bot = meaning.bot_of(agent)
    if bot is None:
        return [False, None, None, None, None]
    verified = places.verified(ip, bot.name)
    kind = "forged" if verified == "forged" else bot.kind
    return [True, bot.name, kind, bot.purpose, verified]


def _buckets(micros: int | None) -> list[object]:
    if micros is None or micros < 0:
        return [None, None]
    return [meaning.bucket(micros, Fraction(1, 100)), meaning.bucket(micros, Fraction(5, 100))]


def _window(seconds: int) -> str:
    return f"(epoch(t)::BIGINT // {seconds}) * {seconds}"


def _rows(db: duckdb.DuckDBPyConnection, query: str) -> set[tuple[object, ...]]:
    return set(db.execute(query).fetchall())


def _completions(db: duckdb.DuckDBPyConnection, goals: Mapping[str, str]) -> set[Row]:
    result: set[Row] = set()
    for name, condition in goals.items():
        which = f"NOT bot AND {condition}"
        result |= _rows(
            db, f"SELECT site, {_window(3600)}, '{name}', count(*) FROM requests WHERE {which} GROUP BY 1, 2"
        )
    return result


def _goals(db: duckdb.DuckDBPyConnection, goals: Mapping[str, str], gap_seconds: int) -> set[Row]:
    result: set[Row] = set()
    for name, condition in goals.items():
        result |= _rows(
            db,
            f"""WITH matches AS (
              SELECT site, visitor, epoch(t)::BIGINT AS s FROM requests WHERE NOT bot AND {condition})
            SELECT site, a // 3600 * 3600, '{name}', channel, count(*), count(DISTINCT visitor) FROM sessions
            WHERE EXISTS (FROM matches WHERE matches.site = sessions.site AND matches.visitor = sessions.visitor
                          AND s >= a AND s < b + {gap_seconds}) GROUP BY 1, 2, 3, 4""",
        )
    return result

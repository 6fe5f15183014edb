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

import duckdb
import iptocc
import pyarrow as pa

from tests.pipeline import meaning

_LINE = (
    r'^(\S+) \S+ (.+?) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    r'(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?(?: (\d+\.\d{3}))?$'
)
_ASSET = r"\.(css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|avif|bmp|woff2?|ttf|otf|eot|mp4|webm|mp3|wasm)$"
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
    bot_pages: set[Row]
    searches: set[Row]
    sessions: set[Row]
    sources: set[Row]


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
) -> Expected:
    """Recomputes everything from (site, line) pairs; `hosts` are the own ones of sites."""
    pairs = list(lines)
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    raw = pa.table({"site": [s for s, _ in pairs], "line": [v.decode("utf-8", "replace") for _, v in pairs]})
    db.register("raw", raw)
    db.execute(_PARSED, [_HTTP, _LINE, _LINE])
    _known(db, "places", "ip", ["country"], lambda ip: [iptocc.country_code(ip) or "ZZ"])
    _known(db, "robots", "agent", ["bot", "bot_name", "bot_kind", "ai_purpose"], _bot)
    own = hosts or {}
    _known(db, "origins", "site, referrer, query", [*meaning.Origin._fields, "search_term"],
           lambda site, referrer, query: [
               *meaning.origin(referrer, query, own.get(site, ())), meaning.search_term(query)
           ])  # fmt: skip
    _known(db, "buckets", "micros", ["latency_bucket", "page_bucket"], _buckets)
    db.execute(_REQUESTS, [_ASSET])
    db.execute(_SESSIONS.format(gap=gap_seconds))
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
        visitor_days=_rows(db, _VISITOR_DAYS),
        bots=_rows(
            db,
            f"""SELECT site, {_window(3600)}, bot_name, bot_kind, count(*),
            count(*) FILTER (method = 'GET' AND NOT asset AND status < 400 AND path <> '/robots.txt'),
            sum(bytes)::BIGINT, count(*) FILTER (path = '/robots.txt'), count(*) FILTER (status >= 400)
            FROM requests WHERE bot GROUP BY 1, 2, 3, 4""",
        ),
        bot_pages=_rows(
            db,
            f"""SELECT site, {_window(86_400)}, bot_name, left(path, 200), count(*) FROM requests WHERE bot
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
            latency_bucket, bot, bot_name, bot_kind, ai_purpose, channel, source, utm_source, utm_medium, utm_campaign,
            utm_term, utm_content, click_id, search_term, asset, pageview, count(*) FROM requests GROUP BY ALL""",
        ),
        sessions=_rows(
            db,
            """SELECT site, country, a, b, b - a, views, entry, leave, views = 1, closed, channel, source, medium,
            campaign, count(*) FROM sessions GROUP BY ALL""",
        ),
        sources=_rows(
            db,
            """SELECT site, a // 3600 * 3600, channel, source, medium, campaign, count(*), count(*) FILTER (views = 1),
            sum(views)::BIGINT, count(DISTINCT visitor) FROM sessions GROUP BY 1, 2, 3, 4, 5, 6""",
        ),
    )


_PARSED = """
CREATE TABLE parsed AS
SELECT *, regexp_matches(request, ?) AS http, if(contains(target, '?'), target[strpos(target, '?') + 1:], '') AS query
FROM (
  SELECT site, g.ip, strptime(g.time, '%d/%b/%Y:%H:%M:%S %z') AS t, g.request, CAST(g.status AS INT) AS status,
         if(regexp_matches(line, '" \\d{3} [0-9-]+( \\d+\\.\\d{3})?$'), 'common', 'combined') AS form,
         CASE g.size WHEN '-' THEN 0 ELSE CAST(g.size AS BIGINT) END AS bytes, g.agent,
         if(g.referrer = '-', '', g.referrer) AS referrer, split_part(g.request, ' ', 2) AS target,
         if(g.took = '', NULL, round(CAST(g.took AS DECIMAL(18, 3)) * 1000000)::BIGINT) AS micros
  FROM (SELECT site, line, regexp_extract(line, ?,
          ['ip', 'login', 'time', 'request', 'status', 'size', 'referrer', 'agent', 'took']) AS g
        FROM raw WHERE regexp_matches(line, ?)))
"""

_REQUESTS = """
CREATE TABLE requests AS
SELECT *, method = 'GET' AND NOT bot AND NOT asset AND status < 400 AS pageview
FROM (SELECT *, regexp_matches(lower(path), ?) AS asset
FROM (SELECT parsed.* EXCLUDE (request, target), country, bot, bot_name, bot_kind, ai_purpose,
             ip || ' ' || agent AS visitor,
             if(http, split_part(request, ' ', 1), '') AS method,
             if(http, split_part(request, ' ', -1), '') AS protocol,
             if(http, split_part(target, '?', 1), '') AS path,
             origins.* EXCLUDE (site, referrer, query), latency_bucket, page_bucket
      FROM parsed JOIN places USING (ip) JOIN robots USING (agent) JOIN origins USING (site, referrer, query)
      LEFT JOIN buckets USING (micros)))
"""

# Events of the same time are ordered by what they say. A session that begins with the site's own page is direct.
_SESSIONS = """
CREATE TABLE sessions AS
WITH views AS (
  SELECT row_number() OVER () AS id, site, visitor, country, path, query, referrer, epoch(t)::BIGINT AS s,
         if(channel = 'internal', 'direct', channel) AS channel, if(channel = 'internal', '', source) AS source,
         lower(coalesce(utm_medium, '')) AS medium, lower(coalesce(utm_campaign, '')) AS campaign
  FROM requests WHERE pageview),
gaps AS (
  SELECT *, lag(s) OVER (PARTITION BY site, visitor ORDER BY s, id) AS before FROM views),
numbered AS (
  SELECT *, sum(CASE WHEN before IS NULL OR s - before >= {gap} THEN 1 ELSE 0 END)
            OVER (PARTITION BY site, visitor ORDER BY s, id ROWS UNBOUNDED PRECEDING) AS n FROM gaps),
entries AS (
  SELECT site, visitor, n, channel, source, medium, campaign FROM numbered
  QUALIFY row_number() OVER (PARTITION BY site, visitor, n
                             ORDER BY s, path, query, referrer, channel, source, medium, campaign) = 1),
found AS (
  SELECT site, any_value(country) AS country, min(s) AS a, max(s) AS b, count(*) AS views,
         min((s, path))[2] AS entry, max((s, path))[2] AS leave, visitor, n
  FROM numbered GROUP BY site, visitor, n),
clocks AS (SELECT site, max(epoch(t)::BIGINT) AS newest FROM requests GROUP BY site)
SELECT *, newest - b > {gap} AS closed FROM found JOIN entries USING (site, visitor, n) JOIN clocks USING (site)
"""

# Visitors without their ids, which need the key: how many there are of each kind.
_VISITOR_DAYS = """
WITH minutes AS (
  SELECT site, visitor, epoch(t)::BIGINT // 86400 * 86400 AS day, epoch(t)::BIGINT // 60 % 1440 AS minute,
         count(*) AS requests, count(*) FILTER (pageview) AS views, count(*) FILTER (asset) AS assets,
         count(*) FILTER (status = 404) AS missing, count(*) FILTER (path = '/robots.txt') AS robots
  FROM requests WHERE NOT bot GROUP BY ALL),
days AS (
  SELECT site, day, visitor, sum(requests)::BIGINT AS requests, sum(views)::BIGINT AS views,
         sum(assets)::BIGINT AS assets, sum(missing)::BIGINT AS missing, sum(robots)::BIGINT AS robots,
         string_agg(minute || ':' || views, ' ' ORDER BY minute) FILTER (views > 0) AS minutes
  FROM minutes GROUP BY ALL)
SELECT site, day, requests, views, assets, missing, robots, coalesce(minutes, ''), count(*) FROM days GROUP BY ALL
"""


def _known(
    db: duckdb.DuckDBPyConnection, table: str, keys: str, columns: list[str], of: Callable[..., list[object]]
) -> None:
    """Makes a table with what a function says about the distinct values of some columns of `parsed`."""
    names = [name.strip() for name in keys.split(",")]
    found = db.execute(f"SELECT DISTINCT {keys} FROM parsed").fetchall()
    rows = [(*key, *of(*key)) for key in found]
    values = list(zip(*rows, strict=True)) or [()] * (len(names) + len(columns))
    types = [
        pa.int64() if name in _NUMBERS else pa.bool_() if name == "bot" else pa.string()
        for name in (*names, *columns)
    ]
    db.register(
        table,
        pa.table([pa.array(each, t) for each, t in zip(values, types, strict=True)], [*names, *columns]),
    )


_NUMBERS = ("micros", "latency_bucket", "page_bucket")


def _bot(agent: str) -> list[object]:
    bot = meaning.bot_of(agent)
    return [bot is not None, *(bot or (None, None, None))]


def _buckets(micros: int | None) -> list[object]:
    if micros is None or micros < 0:
        return [None, None]
    return [meaning.bucket(micros, Fraction(1, 100)), meaning.bucket(micros, Fraction(5, 100))]


def _window(seconds: int) -> str:
    return f"(epoch(t)::BIGINT // {seconds}) * {seconds}"


def _rows(db: duckdb.DuckDBPyConnection, query: str) -> set[tuple[object, ...]]:
    return set(db.execute(query).fetchall())

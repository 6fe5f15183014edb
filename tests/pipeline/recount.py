"""An independent recomputation of the tables with DuckDB, sharing no code with the project.

What it takes from the same sources as the project is data: countries from `iptocc`, bots from
`crawleruseragents`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl

import crawleruseragents
import duckdb
import iptocc
import pyarrow as pa

_LINE = (
    r'^(\S+) \S+ (.+?) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-)'
    r'(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?$'
)
_ASSET = r"\.(css|js|mjs|map|png|jpe?g|gif|svg|ico|webp|avif|bmp|woff2?|ttf|otf|eot|mp4|webm|mp3|wasm)$"
_HTTP = r"^[A-Z][A-Z_-]{1,31} [^ \t].* HTTP/\d(\.\d)?$"


@dataclass(frozen=True)
class Expected:
    """The recomputed tables as sets of rows."""

    accepted: int
    rejected: int
    windows: set[tuple[object, ...]]
    traffic: set[tuple[object, ...]]
    pages: set[tuple[object, ...]]
    formats: set[tuple[object, ...]]
    responses: set[tuple[object, ...]]
    errors: set[tuple[object, ...]]
    visitor_hours: set[tuple[object, ...]]
    page_latency: set[tuple[object, ...]]
    visitor_days: set[tuple[object, ...]]
    bots: set[tuple[object, ...]]
    bot_pages: set[tuple[object, ...]]
    audience: set[tuple[object, ...]]
    latency: set[tuple[object, ...]]
    searches: set[tuple[object, ...]]
    sessions: set[tuple[object, ...]]


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


def recount(lines: Iterable[tuple[str, bytes]], gap_seconds: int = 1800) -> Expected:
    """Recomputes everything from (site, line) pairs."""
    pairs = list(lines)
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    raw = pa.table({"site": [s for s, _ in pairs], "line": [v.decode("utf-8", "replace") for _, v in pairs]})
    db.register("raw", raw)
    db.execute(
        """
        CREATE TABLE parsed AS
        SELECT site, g.ip, strptime(g.time, '%d/%b/%Y:%H:%M:%S %z') AS t, g.request, CAST(g.status AS INT) AS status,
               if(regexp_matches(line, '" \\d{3} [0-9-]+$'), 'common', 'combined') AS form,
               CASE g.size WHEN '-' THEN 0 ELSE CAST(g.size AS BIGINT) END AS bytes, g.agent
        FROM (SELECT site, line, regexp_extract(line, ?,
                ['ip', 'login', 'time', 'request', 'status', 'size', 'referrer', 'agent']) AS g
              FROM raw WHERE regexp_matches(line, ?))
        """,
        [_LINE, _LINE],
    )
    ips = [row[0] for row in db.execute("SELECT DISTINCT ip FROM parsed").fetchall()]
    agents = [row[0] for row in db.execute("SELECT DISTINCT agent FROM parsed").fetchall()]
    db.register("places", pa.table({"ip": ips, "country": [iptocc.country_code(ip) or "ZZ" for ip in ips]}))
    db.register(
        "robots", pa.table({"agent": agents, "bot": [crawleruseragents.is_crawler(a) for a in agents]})
    )
    db.execute(
        """
        CREATE TABLE requests AS
        SELECT *, method = 'GET' AND NOT bot AND NOT asset AND status < 400 AS pageview
        FROM (SELECT *, regexp_matches(lower(path), ?) AS asset
        FROM (SELECT site, t, status, bytes, form, country, bot, ip || ' ' || agent AS visitor,
                     if(http, split_part(request, ' ', 1), '') AS method,
                     if(http, split_part(request, ' ', -1), '') AS protocol,
                     if(http, split_part(request, ' ', 2), '') AS target, split_part(target, '?', 1) AS path
              FROM (SELECT *, regexp_matches(request, ?) AS http FROM parsed)
              JOIN places USING (ip) JOIN robots USING (agent)))
        """,
        [_ASSET, _HTTP],
    )
    targets = [row[0] for row in db.execute("SELECT DISTINCT target FROM requests").fetchall()]
    found = [(target, _term(target)) for target in targets]
    searched = [(target, term) for target, term in found if term]
    text = pa.string()
    terms = pa.table({"target": pa.array([t for t, _ in searched], text),
                      "term": pa.array([t for _, t in searched], text)})  # fmt: skip
    db.register("terms", terms)
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
        latency=set(),  # these lines have no durations
        page_latency=set(),
        visitor_days=_rows(db, _VISITOR_DAYS),
        searches=_rows(
            db,
            f"""SELECT site, {_window(86_400)}, term, count(*), count(DISTINCT visitor)
            FROM requests JOIN terms USING (target) WHERE NOT bot GROUP BY 1, 2, 3""",
        ),
        # Of all bots, and of all devices and programs: their names are not read here.
        bots=_rows(
            db,
            f"""SELECT site, {_window(3600)}, count(*),
            count(*) FILTER (method = 'GET' AND NOT asset AND status < 400 AND path <> '/robots.txt'),
            sum(bytes)::BIGINT, count(*) FILTER (path = '/robots.txt'), count(*) FILTER (status >= 400)
            FROM requests WHERE bot GROUP BY 1, 2""",
        ),
        bot_pages=_rows(
            db,
            f"SELECT site, {_window(86_400)}, left(path, 200), count(*) FROM requests WHERE bot GROUP BY 1, 2, 3",
        ),
        audience=_rows(
            db,
            f"""SELECT site, {_window(3600)}, country, count(*), count(*) FILTER (pageview), sum(bytes)::BIGINT,
            {visitors} FROM requests GROUP BY 1, 2, 3""",
        ),
        sessions=_rows(db, _SESSIONS.format(gap=gap_seconds)),
    )


def _term(target: str) -> str:
    """What a request searches for: the first parameter of these that is not empty; else nothing."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(target.partition("?")[2]):
        given.setdefault(name, value)
    return next(
        (given[name] for name in ("q", "s", "query", "search", "keyword", "term") if name in given), ""
    )[:200]


_SESSIONS = """
WITH views AS (SELECT row_number() OVER () AS id, site, visitor, country, path, epoch(t)::BIGINT AS s
               FROM requests WHERE pageview),
gaps AS (
  SELECT *, lag(s) OVER (PARTITION BY site, visitor ORDER BY s, id) AS before FROM views),
numbered AS (
  SELECT *, sum(CASE WHEN before IS NULL OR s - before >= {gap} THEN 1 ELSE 0 END)
            OVER (PARTITION BY site, visitor ORDER BY s, id ROWS UNBOUNDED PRECEDING) AS n FROM gaps),
found AS (
  SELECT site, any_value(country) AS country, min(s) AS a, max(s) AS b, count(*) AS views,
         min((s, path))[2] AS entry, max((s, path))[2] AS leave, visitor, n
  FROM numbered GROUP BY site, visitor, n),
clocks AS (SELECT site, max(epoch(t)::BIGINT) AS newest FROM requests GROUP BY site)
SELECT site, country, a, b, b - a, views, entry, leave, views = 1, newest - b > {gap}, count(*)
FROM found JOIN clocks USING (site) GROUP BY ALL
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


def _window(seconds: int) -> str:
    return f"(epoch(t)::BIGINT // {seconds}) * {seconds}"


def _rows(db: duckdb.DuckDBPyConnection, query: str) -> set[tuple[object, ...]]:
    return set(db.execute(query).fetchall())

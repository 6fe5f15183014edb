"""The SQL of the recomputation: lines taken apart, requests, sessions."""

from __future__ import annotations

PARSED = """
CREATE TABLE parsed AS
SELECT *, regexp_matches(request, ?) AS http,
       if(contains(target, '?'), target[strpos(target, '?') + 1:], '') AS query, query <> '' AS asks
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

REQUESTS = """
CREATE TABLE requests AS
SELECT *, method = 'GET' AND NOT bot AND NOT asset AND status < 400 AS pageview
FROM (SELECT *, regexp_matches(lower(path), ?) AS asset
FROM (SELECT parsed.* EXCLUDE (request, target), country, network, bot, bot_name, bot_kind, bot_verified, ai_purpose,
             disallowed, ip || ' ' || agent AS visitor,
             if(http, split_part(request, ' ', 1), '') AS method,
             if(http, split_part(request, ' ', -1), '') AS protocol,
             if(http, split_part(target, '?', 1), '') AS path,
             origins.* EXCLUDE (site, referrer, query), latency_bucket, page_bucket
      FROM parsed JOIN places USING (ip) JOIN robots USING (ip, agent) JOIN origins USING (site, referrer, query)
      JOIN forbidden USING (site, agent, http, target)
      LEFT JOIN buckets USING (micros)))
"""

# Events of the same time are ordered by what they say, none before an empty query. A session that begins with the
# site's own page is direct.
SESSIONS = """
CREATE TABLE sessions AS
WITH views AS (
  SELECT row_number() OVER () AS id, site, visitor, country, path, asks, query, referrer, epoch(t)::BIGINT AS s,
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
                             ORDER BY s, path, asks, query, referrer, channel, source, medium, campaign) = 1),
found AS (
  SELECT site, any_value(country) AS country, min(s) AS a, max(s) AS b, count(*) AS views,
         min((s, path))[2] AS entry, max((s, path))[2] AS leave, list(s || path ORDER BY s, path) AS steps, visitor, n
  FROM numbered GROUP BY site, visitor, n),
clocks AS (SELECT site, max(epoch(t)::BIGINT) AS newest FROM requests GROUP BY site)
SELECT *, newest - b > {gap} AS closed FROM found JOIN entries USING (site, visitor, n) JOIN clocks USING (site)
"""

# Visitors without their ids, which need the key: how many there are of each kind.
VISITOR_DAYS = """
WITH minutes AS (
  SELECT site, visitor, epoch(t)::BIGINT // 86400 * 86400 AS day, epoch(t)::BIGINT // 60 % 1440 AS minute,
         count(*) AS requests, count(*) FILTER (pageview) AS views, count(*) FILTER (asset) AS assets,
         count(*) FILTER (status = 404) AS missing, count(*) FILTER (path = '/robots.txt') AS robots,
         count(*) FILTER (network = 'hosting') AS hosting
  FROM requests WHERE NOT bot GROUP BY ALL),
days AS (
  SELECT site, day, visitor, sum(requests)::BIGINT AS requests, sum(views)::BIGINT AS views,
         sum(assets)::BIGINT AS assets, sum(missing)::BIGINT AS missing, sum(robots)::BIGINT AS robots,
         sum(hosting)::BIGINT AS hosting,
         string_agg(minute || ':' || views, ' ' ORDER BY minute) FILTER (views > 0) AS minutes
  FROM minutes GROUP BY ALL)
SELECT site, day, requests, views, assets, missing, robots, hosting, coalesce(minutes, ''), count(*) FROM days
GROUP BY ALL
"""

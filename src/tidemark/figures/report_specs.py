"""The declaration of the reports: names, meanings, parameters and figures. The command, the HTTP API and its OpenAPI
document, the tools of MCP and the Python interface derive from it; report.py computes the figures."""

from __future__ import annotations

from tidemark.figures.spec import Figure, Parameter, ReportSpec

BY = Parameter("by", "Length of the periods (default: day).", choices=("day", "week", "month"))
FUNNEL = Parameter("name", "Name of a funnel that the home's tidemark.toml declares.", argument=True)
METRIC = Parameter(
    "name",
    "Metric to explain: requests, pageviews, visitors, sessions, bounces, bounce_rate, bytes, bot_requests, "
    "share_bots, not_found (404), status_4xx, status_5xx, share_5xx, or goal:NAME for the requests of people that "
    "match a goal.",
    argument=True,
)
FROM_PAGE = Parameter("from_page", "Paths from this page on (default: from the entry page).")
TO_PAGE = Parameter("to_page", "Paths backward from this page, in place of from_page.")
AS_OF = Parameter("as_of", "Figures of days as reported at this time (default: first report).", "time")

VISITORS = Figure("visitors", "integer", "Distinct people (address and user agent of a site), without bots.")
PAGEVIEWS = Figure(
    "pageviews", "integer", "GET requests of people for pages (no assets) with a status below 400."
)
REQUESTS = Figure("requests", "integer", "All requests, of bots and for assets, too.")
SITE = Figure("site", "string", "The site.")
DAY = Figure("day", "time", "Start of the day (UTC).")


def _quantile(name: str, share: str) -> Figure:
    return Figure(
        name, "number", f"Duration in seconds within which {share} of the requests were answered.", True
    )


SPECS = (
    ReportSpec(
        "overview",
        "Main figures of the range: requests, pageviews, visitors, sessions, bounce rate. Ask for the period before, "
        "too, to see what changed.",
        (
            REQUESTS,
            PAGEVIEWS,
            VISITORS,
            Figure(
                "sessions",
                "integer",
                "Visits that began in the range: pageviews of one visitor with gaps under 30 minutes.",
            ),
            Figure("bounce_rate", "number", "Share (0 to 1) of the sessions with one pageview.", True),
            Figure("duration", "number", "Median duration of the sessions in seconds.", True),
        ),
    ),
    ReportSpec(
        "latency",
        "How long the server took to answer requests whose log line has a duration: quantiles in seconds.",
        (
            Figure("timed", "integer", "Requests with a duration."),
            _quantile("p50", "half"),
            _quantile("p95", "95%"),
            _quantile("p99", "99%"),
        ),
    ),
    ReportSpec(
        "sources",
        "Where sessions come from: channel, source, medium and campaign of the session's first pageview. Most sessions "
        "first.",
        lists={
            "rows": (
                Figure(
                    "channel",
                    "string",
                    "Kind of source, such as direct, organic search, email, ai assistants.",
                ),
                Figure("source", "string", "The source's name, such as google; empty for direct."),
                Figure("medium", "string", "utm_medium of the entry; empty without."),
                Figure("campaign", "string", "utm_campaign of the entry; empty without."),
                Figure("sessions", "integer", "Sessions."),
                Figure("bounces", "integer", "Sessions with one pageview."),
                PAGEVIEWS,
                VISITORS,
            )
        },
    ),
    ReportSpec(
        "pages",
        "Pages that people viewed, and how often sessions entered and left there. Most pageviews first.",
        lists={
            "rows": (
                Figure("path", "string", "Path of the page, without query."),
                PAGEVIEWS,
                VISITORS,
                Figure("entries", "integer", "Sessions that began on the page."),
                Figure("bounces", "integer", "Sessions of this page only."),
                Figure("exits", "integer", "Sessions that ended on the page."),
            )
        },
    ),
    ReportSpec(
        "countries",
        "Countries of visitors, by their address. Most visitors first.",
        lists={
            "rows": (
                Figure("country", "string", "ISO 3166-1 alpha-2 code; ZZ where unknown."),
                VISITORS,
                PAGEVIEWS,
                REQUESTS,
            )
        },
    ),
    ReportSpec(
        "networks",
        "Networks that requests come from: hosting, CDN, crawlers, relays, and the organisations behind them. Most "
        "requests first.",
        lists={
            "rows": (
                Figure("network", "string", "Kind: hosting, cdn, crawler, relay; empty for others."),
                Figure("as_org", "string", "Organisation; empty where unknown."),
                REQUESTS,
                PAGEVIEWS,
                VISITORS,
            )
        },
    ),
    ReportSpec(
        "errors",
        "Failed requests (status 400 to 599) by path and status: 404 not found, 403, 500, 503 and others. Most "
        "requests first. Compare two ranges to see which path has more; the referrers are in single requests.",
        lists={
            "rows": (
                Figure("path", "string", "First 200 characters of the path."),
                Figure("status", "integer", "HTTP status of the answer, such as 404."),
                REQUESTS,
                VISITORS,
                Figure("newest_event_time", "time", "Time of the newest of these requests.", True),
            )
        },
    ),
    ReportSpec(
        "bots",
        "Declared bots (by user agent) and their traffic. Also `suspected`, days of visitors that behave like bots, "
        "and `people`, each day's people.",
        lists={
            "rows": (
                Figure("bot_name", "string", "Name of the bot."),
                Figure("bot_kind", "string", "Kind, such as search-engine, ai-crawler, seo, forged."),
                Figure("bot_verified", "string", "verified or forged by its address; empty where unknown."),
                Figure("requests", "integer", "Requests of the bot."),
                Figure("pages", "integer", "Its successful requests for pages."),
                Figure("bytes", "integer", "Bytes sent to it."),
                Figure("robots_txt", "integer", "Requests of /robots.txt."),
                Figure("errors", "integer", "Requests with a status from 400."),
                Figure("disallowed", "integer", "Requests that robots.txt forbids."),
                Figure("requests_share", "number", "Share (0 to 1) of all requests.", True),
                Figure("bytes_share", "number", "Share (0 to 1) of all bytes.", True),
            ),
            "suspected": (
                DAY,
                SITE,
                Figure("visitor_id", "string", "The visitor."),
                Figure("reasons", "string", "Letters of the rules that the visitor's day meets."),
            ),
            "people": (DAY, VISITORS, REQUESTS, PAGEVIEWS),
        },
    ),
    ReportSpec(
        "ai",
        "AI operators: pages that their crawlers read, against sessions that their assistants sent.",
        lists={
            "rows": (
                Figure("operator", "string", "The operator."),
                Figure("bots", "string", "Names of its bots that crawled.", many=True),
                Figure("crawled", "integer", "Pages that its bots read."),
                Figure("referred", "integer", "Sessions that its assistants sent."),
                Figure("ratio", "number", "Pages read per session sent.", True),
            )
        },
    ),
    ReportSpec(
        "funnel",
        "How many visitors (or sessions) took the steps of a declared funnel in order.",
        lists={
            "steps": (
                Figure("name", "string", "The step: a pattern of paths or a goal."),
                Figure("count", "integer", "Visitors or sessions that took it and all steps before."),
                Figure("of_first", "number", "Share (0 to 1) of those of the first step.", True),
                Figure("of_previous", "number", "Share (0 to 1) of those of the step before.", True),
                Figure("median_seconds", "number", "Median time since the first step.", True),
            )
        },
        parameters=(FUNNEL,),
    ),
    ReportSpec(
        "retention",
        "Of the visitors who first came in a period of the range, how many came back in each later period.",
        (Figure("open_from", "string", "First period (a date) that is not over yet.", True),),
        lists={
            "cohorts": (
                Figure("start", "string", "First day of the period in which they first came."),
                Figure("size", "integer", "Visitors of the cohort."),
                Figure(
                    "returned", "integer", "Of these, the visitors in each period from its own on.", many=True
                ),
            )
        },
        parameters=(BY,),
    ),
    ReportSpec(
        "goals",
        "Declared goals: requests of people that match a goal, and sessions with at least one.",
        lists={
            "goals": (
                Figure("name", "string", "The goal."),
                Figure("conversions", "integer", "Sessions with at least one match."),
                Figure("completions", "integer", "Requests that match."),
            )
        },
    ),
    ReportSpec(
        "paths",
        "Paths of sessions, page by page: the most frequent pages at each level, from the entry page or from a page.",
        lists={
            "levels": (
                Figure(
                    "path", "string", "The page; `left` where sessions ended, `other` for all other pages."
                ),
                Figure("count", "integer", "Sessions."),
            )
        },
        nested=frozenset({"levels"}),
        parameters=(FROM_PAGE, TO_PAGE),
    ),
    ReportSpec(
        "alerts",
        "Alerts that fired in the range, newest first, and how each alert rule stands.",
        lists={
            "rules": (
                Figure("rule", "string", "The rule."),
                SITE,
                Figure("state", "string", "Of the last window: firing, ok, or unknown."),
                Figure("value", "number", "The metric in that window.", True),
                Figure("bound", "number", "The bound that fires.", True),
                Figure("about", "string", "The rule in words.", True),
            ),
            "alerts": (
                Figure("rule", "string", "The rule."),
                SITE,
                Figure("window_start", "time", "Start of the window that fired."),
                Figure("state", "string", "firing, ended or withdrawn."),
                Figure("value", "number", "The metric in the window.", True),
                Figure("bound", "number", "The bound.", True),
                Figure("ended_at", "time", "When it ended.", True),
                Figure("about", "string", "The rule in words.", True),
            ),
        },
        filtered=False,
    ),
    ReportSpec(
        "reported",
        "Days whose figures changed after they were reported, and the causes, such as late lines or a rebuild.",
        lists={
            "days": (
                SITE,
                DAY,
                Figure("metric", "string", "The metric."),
                Figure("reported", "number", "Its value as reported.", True),
                Figure("reported_at", "time", "When it was reported."),
                Figure("now", "number", "Its value now.", True),
                Figure("causes", "string", "Causes of the reports since then."),
                Figure("changed_at", "time", "When the last of them came.", True),
            )
        },
        parameters=(AS_OF,),
        filtered=False,
    ),
    ReportSpec(
        "explain",
        "Why a metric changed from the equally long period before: the pages, sources, campaigns, countries, networks, "
        "bots, statuses, hosts and devices that account for the change. Largest changes first. The rows of a dimension "
        "add up exactly to the change.",
        (
            Figure("metric", "string", "The metric."),
            Figure("now", "number", "Its value in the range.", True),
            Figure("before", "number", "Its value in the period before.", True),
            Figure("change", "number", "now less before.", True),
            Figure("from", "time", "Begin of the range.", True),
            Figure("to", "time", "End of the range.", True),
            Figure("before_from", "time", "Begin of the period before."),
            Figure("before_to", "time", "End of the period before."),
            Figure("same", "string", "Dimensions in which everything has the same value.", many=True),
        ),
        lists={
            "rows": (
                Figure(
                    "dimension",
                    "string",
                    "page, source, campaign, country, network, bot, status, host, device.",
                ),
                Figure(
                    "kind",
                    "string",
                    "value; other: all values without an own row; overlap: what counts for several values, subtracted.",
                ),
                Figure("value", "string", "The value; empty for what is missing, such as the bot of people."),
                Figure("now", "number", "The value's part of the metric in the range."),
                Figure("before", "number", "Its part in the period before."),
                Figure("change", "number", "now less before."),
                Figure("share", "number", "Its share of the whole change.", True),
                Figure(
                    "share_before",
                    "number",
                    "Its share of the metric before: a value with a much larger share of the change stands out.",
                    True,
                ),
                Figure("filters", "string", "Filters that select the lines behind the row.", many=True),
            ),
            "overlaps": (
                Figure("dimension", "string", "Dimension in which one thing counts for several values."),
                Figure("about", "string", "What counts several times."),
            ),
        },
        parameters=(METRIC,),
    ),
)
BY_NAME = {spec.name: spec for spec in SPECS}
# Own parameters of all reports, each once.
OWN = tuple({p.name: p for spec in SPECS for p in spec.parameters}.values())

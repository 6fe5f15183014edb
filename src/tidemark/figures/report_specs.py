"""The declaration of the reports: names, meanings, parameters and figures. The command, the HTTP API and its OpenAPI
document, the tools of MCP and the Python interface derive from it; report.py computes the figures."""

from __future__ import annotations

from tidemark.figures.numbers import NUMBERS
from tidemark.figures.spec import LIMIT, UNFILTERED, Figure, Parameter, ReportSpec, Type

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

SITE = Figure("site", "string", "The site.")
DAY = Figure("day", "time", "Start of the day (UTC).")


def _number(name: str, type: Type = "integer", optional: bool = False) -> Figure:
    """A figure that has one meaning in all reports."""
    return Figure(name, type, NUMBERS[name], optional)


REQUESTS, PAGEVIEWS, VISITORS = _number("requests"), _number("pageviews"), _number("visitors")

SPECS = (
    ReportSpec(
        "overview",
        "Main figures of the range: requests, pageviews, visitors, sessions, bounce rate. Ask for the period before, "
        "too, to see what changed.",
        (
            REQUESTS,
            PAGEVIEWS,
            VISITORS,
            _number("sessions"),
            _number("bounce_rate", "number", True),
            _number("duration", "number", True),
        ),
    ),
    ReportSpec(
        "latency",
        "How long the server took to answer requests whose log line has a duration: quantiles in seconds.",
        (
            _number("timed"),
            _number("p50", "number", True),
            _number("p95", "number", True),
            _number("p99", "number", True),
        ),
    ),
    ReportSpec(
        "sources",
        "Where sessions come from: channel, source, medium and campaign of the session's first pageview. Most sessions "
        "first.",
        lists={
            "rows": (
                _number("channel", "string"),
                _number("source", "string"),
                Figure("medium", "string", "utm_medium of the entry; empty without."),
                Figure("campaign", "string", "utm_campaign of the entry; empty without."),
                _number("sessions"),
                _number("bounces"),
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
                _number("entries"),
                _number("bounces"),
                _number("exits"),
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
                _number("network", "string"),
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
                _number("disallowed"),
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
                _number("crawled"),
                _number("referred"),
                _number("ratio", "number", True),
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
                _number("conversions"),
                _number("completions"),
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
        common=UNFILTERED,
    ),
    ReportSpec(
        "reported",
        "Days whose figures changed after they were reported, and the causes, such as late lines or a rebuild.",
        lists={
            "days": (
                SITE,
                DAY,
                Figure("metric", "string", "The metric."),
                _number("reported", "number", True),
                Figure("reported_at", "time", "When it was reported."),
                _number("now", "number", True),
                Figure("causes", "string", "Causes of the reports since then."),
                Figure("changed_at", "time", "When the last of them came.", True),
            )
        },
        parameters=(AS_OF,),
        common=UNFILTERED,
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
# What the API, MCP and Python have beside the reports.
SITES = ReportSpec(
    "sites",
    "The sites that there are, and the range of event time that each has lines of.",
    lists={
        "sites": (
            SITE,
            Figure("first_event_time", "time", "Time of the first line."),
            Figure("newest_event_time", "time", "Time of the newest line."),
        )
    },
    common=(),
)
DEFINITIONS = ReportSpec(
    "definitions",
    "The meaning of every number, and the goals, funnels and segments that are declared, by whose names reports ask.",
    lists={
        "numbers": (
            Figure("name", "string", "The number."),
            Figure("about", "string", "Its meaning."),
        ),
        "declared": (
            Figure("kind", "string", "goal, funnel or segment."),
            Figure("name", "string", "Its name."),
            Figure("values", "object", "The declaration, as in tidemark.toml."),
        ),
    },
    common=(),
)
LINES = ReportSpec(
    "lines",
    "Single requests behind a figure, newest first, each with its raw log line: where it came from (referrer), who "
    "asked (client_ip, user_agent, visitor_id), the status. Filter by path and status to see the requests of an error.",
    (Figure("next", "string", "The cursor of the next lines; null at the end.", True),),
    lists={
        "lines": (
            Figure("event_time", "time", "Time of the request."),
            SITE,
            Figure("method", "string", "Method.", True),
            Figure("path", "string", "Path, without query.", True),
            Figure("query", "string", "Query.", True),
            Figure("status", "integer", "HTTP status.", True),
            Figure("referrer", "string", "Address of the page that it came from.", True),
            Figure("user_agent", "string", "User agent.", True),
            Figure("client_ip", "string", "Address of the client.", True),
            Figure("visitor_id", "string", "The visitor.", True),
            Figure("line", "string", "The raw line; null where it has been deleted.", True),
        )
    },
    parameters=(
        LIMIT,
        Parameter("cursor", "`next` of the answer before, for the lines that follow it."),
    ),
    role="analyst",
)
# Reports and the others, by name.
ALL = {spec.name: spec for spec in (*SPECS, SITES, DEFINITIONS, LINES)}
BY_NAME = {spec.name: spec for spec in SPECS}
# Own parameters of all reports, each once.
OWN = tuple({p.name: p for spec in SPECS for p in spec.parameters}.values())

"""The meaning of every number, in one sentence."""

from __future__ import annotations

NUMBERS = {
    "requests": "Accepted log lines, of people and bots.",
    "pageviews": "GETs by people of a path that is no asset, answered with a status below 400.",
    "visitors": "Distinct pairs of client address and user agent of a site that are no declared bots; each counts once"
    " in the whole range.",
    "sessions": "A visitor's pageviews on a site with gaps shorter than the session gap, counted when they start.",
    "bounces": "Sessions of one pageview.",
    "bounce_rate": "Sessions of one pageview, as a share of all sessions.",
    "duration": "Median time from the first to the last pageview of a session; 0 for a bounce.",
    "bytes": "Sizes of all responses, as the log has them.",
    "change": "(now - before) / before, against the period of equal length right before, or 364 days back; a range that"
    " reaches now is compared with the same elapsed part.",
    "timed": "Requests whose line says how long the server took.",
    "p50": "Half of the timed requests took at most this long (nearest rank, within 1 %).",
    "p95": "95 of 100 timed requests took at most this long (nearest rank, within 1 %).",
    "p99": "99 of 100 timed requests took at most this long (nearest rank, within 1 %).",
    "slowest pages": "Quantiles of people's requests without assets and failures, by path (nearest rank, within 5 %).",
    "apdex": "Timed requests of at most T, plus half of those of at most 4T, as a share of all timed requests.",
    "errors": "Requests with a status of 400 and above.",
    "entries": "Sessions that began with this page.",
    "exits": "Sessions that ended with this page.",
    "channel": "How a session came, by the first that holds of Google Analytics 4's and Plausible's rules for its entry"
    " pageview.",
    "source": "The entry's utm_source, else the advertiser that its click id names, else the referrer's name or host.",
    "bots": "Requests whose user agent is on the maintained list of crawlers.",
    "bot pages": "A bot's GETs of what is neither an asset nor /robots.txt, answered with a status below 400.",
    "ai crawls": "Requests of bots that are tagged as crawlers of AI companies.",
    "ai visits": "Sessions of people whose entry was referred by an AI assistant.",
    "goals": "Sessions of people with at least one request that matches the goal (conversions), and all such requests"
    " (completions).",
    "conversions": "Sessions that started in the range and have at least one match of the goal, until the session gap"
    " after their last pageview.",
    "completions": "Requests of people in the range that match the goal, also several of a session, or of none.",
    "conversion_rate": "Sessions that reach the goal, as a share of all sessions of its sites.",
    "searches": "Requests of people with a search term: the first of q, s, query, search, keyword and term in the"
    " address that is not empty.",
    "downloads": "Requests of people for files with the extensions of the goals that are downloads; without such a"
    " goal, of the file types that Google Analytics 4 counts as downloads.",
    "funnel": "Sessions or visitors that viewed pages matching the steps, in this order, with anything between; each"
    " step is another pageview. By visitor, all steps lie within a time of the first, which lies in the range.",
    "lost": "The page that was viewed right after the step by those who did not take the next one.",
    "retention": "Visitors of a cohort who came again in a later period, as a share of the cohort. A cohort is the day,"
    " week or month (UTC) of the first request over all data.",
    "paths": "Pages that sessions viewed one after the other, repetitions collapsed; at every page, what comes in"
    " equals what goes on plus what left.",
    "suspected": "Days (UTC) of visitors who asked for /robots.txt, viewed 30 pages and no asset where others loaded"
    " assets, viewed more than 60 pages within a minute, only met 404 in at least 10 requests, or came from hosting and"
    " viewed 3 pages and no asset where others loaded assets.",
    "without": "The same without the suspected days.",
    "verified": "Bots whose address is in a network that their operator publishes for them; forged ones come from"
    " elsewhere. Other bots have no published networks.",
    "disallowed": "Requests of bots that the site's robots.txt, as it was when the line was read, forbids to them.",
    "network": "Kind of the address's network by published lists: hosting, cdn, crawler, or relay, which people use.",
    "crawled": "Pages (bot pages) that an operator's AI bots fetched; without forged bots.",
    "referred": "Sessions that the operator's AI assistants sent.",
    "ratio": "Pages crawled per session sent.",
    "firing": "Rules whose last evaluated windows breach them, by site.",
    "fired": "Alerts that began, or still fired, in the range; without those that late lines withdrew.",
    "withdrawn": "Alerts that a late line, a rebuild or a changed rule has shown to be none.",
    "undelivered": "Messages that wait for a target to take them.",
    "reported": "The figure in the last report until the chosen time; by default in the first, an hour after the day's"
    " end (UTC).",
    "now": "The same figure by what the tables have now.",
    "cause": "What changed the figure after it was reported, as recorded with each later report.",
}

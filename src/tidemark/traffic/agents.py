"""User agents of people and of bots, with their weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
_WINDOWS = "Windows NT 10.0; Win64; x64"
_MAC = "Macintosh; Intel Mac OS X 10_15_7"
_LINUX = "X11; Linux x86_64"
_IPHONE = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
# A newer version has more users than an older one.
_CHROME = (("143", 6), ("142", 4), ("141", 2), ("139", 1))
_FIREFOX = (("145.0", 4), ("144.0", 2), ("140.0", 1))
_SAFARI = (("26.1", 4), ("18.6", 3), ("17.6", 2), ("16.6", 1))

Weighted = tuple[str, float]


def people() -> list[Weighted]:
    """(user agent, weight) of browsers on desktops, phones and tablets, as written in a log line.

    A few contain characters that servers escape: quotes and bytes above 127.
    """
    return [*_desktop(), *_phones(), *_tablets(), *_odd()]


def _desktop() -> Iterator[Weighted]:
    for version, weight in _CHROME:
        chrome = f"{_WEBKIT} Chrome/{version}.0.0.0 Safari/537.36"
        for platform, share in (
            (_WINDOWS, 6.0),
            (_MAC, 2.0),
            (_LINUX, 0.6),
            ("X11; CrOS x86_64 14541.0.0", 0.3),
        ):
            yield f"Mozilla/5.0 ({platform}) {chrome}", weight * share
        for platform, share in ((_WINDOWS, 2.0), (_MAC, 0.3)):
            yield f"Mozilla/5.0 ({platform}) {chrome} Edg/{version}.0.0.0", weight * share
        yield f"Mozilla/5.0 ({_WINDOWS}) {chrome} OPR/{int(version) - 16}.0.0.0", weight * 0.4
    for version, weight in _FIREFOX:
        for platform, share in ((_WINDOWS, 2.0), ("Macintosh; Intel Mac OS X 10.15", 0.7), (_LINUX, 0.7)):
            yield f"Mozilla/5.0 ({platform}; rv:{version}) Gecko/20100101 Firefox/{version}", weight * share
    for version, weight in _SAFARI:
        yield f"Mozilla/5.0 ({_MAC}) {_IPHONE} Version/{version} Safari/605.1.15", weight * 1.5


def _phones() -> Iterator[Weighted]:
    for version, weight in _CHROME:
        chrome = f"{_WEBKIT} Chrome/{version}.0.0.0 Mobile Safari/537.36"
        for device, share in (
            ("10; K", 6.0),
            ("15; Pixel 9", 0.5),
            ("14; SM-S921B", 0.8),
            ("13; 2201117TG", 0.6),
        ):
            yield f"Mozilla/5.0 (Linux; Android {device}) {chrome}", weight * share
    for version, weight in (("29.0", 3), ("28.0", 1)):
        engine = f"{_WEBKIT} SamsungBrowser/{version} Chrome/136.0.0.0 Mobile Safari/537.36"
        yield f"Mozilla/5.0 (Linux; Android 10; K) {engine}", weight * 1.0
    for version, weight in _SAFARI:
        phone = (
            f"iPhone; CPU iPhone OS {'18_7' if version > '18' else version.replace('.', '_')} like Mac OS X"
        )
        yield f"Mozilla/5.0 ({phone}) {_IPHONE} Version/{version} Mobile/15E148 Safari/604.1", weight * 6.0
        yield f"Mozilla/5.0 ({phone}) {_IPHONE} CriOS/143.0.7499.92 Mobile/15E148 Safari/604.1", weight * 1.0
    for version, weight in _FIREFOX:
        yield (
            f"Mozilla/5.0 (Android 15; Mobile; rv:{version}) Gecko/{version} Firefox/{version}",
            weight * 0.5,
        )


def _tablets() -> Iterator[Weighted]:
    for version, weight in _SAFARI:
        pad = f"iPad; CPU OS {'18_7' if version > '18' else version.replace('.', '_')} like Mac OS X"
        yield f"Mozilla/5.0 ({pad}) {_IPHONE} Version/{version} Mobile/15E148 Safari/604.1", weight * 0.5
    for version, weight in _CHROME:
        for device, share in (("14; SM-X210", 0.5), ("13; Lenovo TB-J606F", 0.3)):
            agent = f"Mozilla/5.0 (Linux; Android {device}) {_WEBKIT} Chrome/{version}.0.0.0 Safari/537.36"
            yield agent, weight * share


def _odd() -> Iterator[Weighted]:
    chrome = f"{_WEBKIT} Chrome/141.0.0.0"
    yield rf"Mozilla/5.0 (Linux; Android 14; \"Redmi\" Note 13) {chrome} Mobile Safari/537.36", 0.6
    yield rf"Mozilla/5.0 (Linux; Android 12; T\xc3\xa9l\xc3\xa9 X1) {chrome} Mobile Safari/537.36", 0.4
    yield rf"Mozilla/5.0 ({_WINDOWS}) {chrome} Safari/537.36 \"Kiosk \\ 7\"", 0.2


class Bot(NamedTuple):
    """A declared bot: user agent, weight among those of its manner, and what the list of crawlers says of it.

    `name` is empty for a program that sends no user agent, which no list can name. `purpose` is that of an AI company's
    bot: training, search or assistant.
    """

    agent: str
    weight: float
    name: str = ""
    kind: str = ""
    purpose: str = ""


_COMPATIBLE = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible;"

# By manner: crawlers read page after page, previews and assistants one or two, clients use pages as an interface.
BOTS: dict[str, list[Bot]] = {
    "crawler": [
        Bot(
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            10, "Googlebot", "search-engine",
        ),
        Bot(
            f"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) {_WEBKIT} Chrome/141.0.7390.122 Mobile "
            "Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            6, "Googlebot", "search-engine",
        ),
        Bot(
            f"{_COMPATIBLE} bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0.1938.76 Safari/537.36",
            7, "bingbot", "search-engine",
        ),
        # The list knows it by its address.
        Bot("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", 3, "yandex.com/bots", "search-engine"),
        Bot(
            "Mozilla/5.0 (compatible; Baiduspider/2.0; +http://www.baidu.com/search/spider.html)",
            2, "Baiduspider", "search-engine",
        ),
        Bot("DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)", 1, "DuckDuckBot", "search-engine"),
        Bot(
            f"Mozilla/5.0 (Linux; Android 7.0;) {_WEBKIT} Mobile Safari/537.36 (compatible; PetalBot;"
            "+https://webmaster.petalsearch.com/site/petalbot)",
            2, "PetalBot", "search-engine",
        ),
        Bot("Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", 4, "AhrefsBot", "seo"),
        Bot("Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)", 4, "SemrushBot", "seo"),
        Bot("Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", 2, "MJ12bot", "seo"),
        Bot(f"{_COMPATIBLE} GPTBot/1.2; +https://openai.com/gptbot)", 5, "GPTBot", "ai-crawler", "training"),
        Bot(f"{_COMPATIBLE} ClaudeBot/1.0; +claudebot@anthropic.com)", 4, "ClaudeBot", "ai-crawler", "training"),
        Bot("CCBot/2.0 (https://commoncrawl.org/faq/)", 2, "CCBot", "ai-crawler", "training"),
        Bot(
            "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
            2, "meta-externalagent", "ai-crawler", "training",
        ),
        Bot(
            f"{_COMPATIBLE} OAI-SearchBot/1.0; +https://openai.com/searchbot)",
            3, "OAI-SearchBot", "ai-crawler", "search",
        ),
        Bot(
            f"{_COMPATIBLE} PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
            1, "PerplexityBot", "ai-crawler", "search",
        ),
        Bot(
            "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
            1, "archive.org_bot", "archiver",
        ),
        Bot("AdsBot-Google (+http://www.google.com/adsbot.html)", 1, "AdsBot-Google", "advertising"),
        Bot(
            "Mozilla/5.0 (compatible) SemanticScholarBot (+https://www.semanticscholar.org/crawler)",
            1, "SemanticScholarBot", "academic",
        ),
    ],
    "preview": [
        Bot(
            "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
            3, "facebookexternalhit", "social-preview",
        ),
        Bot("Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)", 2, "Discordbot", "social-preview"),
        Bot("Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)", 2, "Slackbot", "social-preview"),
        Bot("WhatsApp/2.23.20.0", 2, "WhatsApp", "social-preview"),
        Bot(f"{_COMPATIBLE} ChatGPT-User/1.0; +https://openai.com/bot)", 4, "ChatGPT-User", "ai-crawler", "assistant"),
        Bot(
            f"{_COMPATIBLE} Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)",
            2, "Perplexity-User", "ai-crawler", "assistant",
        ),
        Bot(f"{_COMPATIBLE} Claude-User/1.0; +Claude-User@anthropic.com)", 2, "Claude-User", "ai-crawler", "assistant"),
    ],
    "feed": [
        Bot("Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)", 3, "Feedly", "feed-reader"),
        Bot("Mozilla/5.0 (compatible; inoreader.com; 41 subscribers)", 1, "inoreader", "feed-reader"),
        Bot("Tiny Tiny RSS/22.08 (https://tt-rss.org/)", 1, "Tiny Tiny RSS", "feed-reader"),
    ],
    "monitor": [
        Bot("Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", 3, "UptimeRobot", "monitoring"),
        Bot("Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", 2, "Pingdom", "monitoring"),
        Bot("curl/8.5.0", 1, "curl", "http-library"),
    ],
    "client": [
        Bot("python-requests/2.32.3", 3, "python-requests", "http-library"),
        Bot("okhttp/4.12.0", 2, "okhttp", "http-library"),
        Bot("axios/1.7.9", 1, "axios", "http-library"),
        Bot(
            f"Mozilla/5.0 ({_LINUX}) {_WEBKIT} HeadlessChrome/141.0.0.0 Safari/537.36",
            2, "HeadlessChrome", "browser-automation",
        ),
    ],
    "scanner": [
        Bot("-", 6),
        Bot("", 1),
        Bot("Mozilla/5.0 zgrab/0.x", 4, "zgrab", "scanner"),
        Bot(
            "Mozilla/5.0 (compatible; CensysInspect/1.1; +https://about.censys.io/)", 3, "CensysInspect", "scanner"
        ),
        Bot("masscan/1.3 (https://github.com/robertdavidgraham/masscan)", 1, "masscan", "scanner"),
        Bot("Go-http-client/1.1", 3, "Go-http-client", "http-library"),
    ],
}  # fmt: skip

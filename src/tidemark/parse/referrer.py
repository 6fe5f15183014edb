"""Origin of a request: the referring host and the marketing channel."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

_SEARCH = ("google.", "bing.", "duckduckgo.", "search.yahoo.", "baidu.", "yandex.", "ecosia.", "qwant.",
           "startpage.", "search.brave.", "kagi.", "naver.", "seznam.", "sogou.")  # fmt: skip
_SOCIAL = ("facebook.", "twitter.", "t.co", "x.com", "linkedin.", "lnkd.in", "reddit.", "instagram.",
           "pinterest.", "youtube.", "youtu.be", "mastodon.", "bsky.app", "threads.net", "tiktok.",
           "news.ycombinator.com", "vk.com", "weibo.")  # fmt: skip
_EMAIL_MEDIUMS = ("email", "e-mail", "newsletter")
_PAID_MEDIUMS = ("cpc", "ppc", "paid", "paidsearch", "display", "banner", "cpm", "retargeting")


class Origin(NamedTuple):
    """`channel` is one of direct, internal, search, social, email, paid, campaign, referral."""

    host: str | None
    channel: str


@lru_cache(maxsize=100_000)
def origin(referrer: str | None, campaign_query: str | None, own_host: str | None) -> Origin:
    """The origin of a request.

    `campaign_query` is the query of the requested page if it has `utm_` tags, which take precedence over the
    referrer as in other web analytics; `own_host` is the site's own host if the log names it.
    """
    host = _host(referrer)
    if campaign_query:
        tags = dict(parse_qsl(campaign_query))
        medium = tags.get("utm_medium", "").lower()
        if medium in _EMAIL_MEDIUMS:
            return Origin(host, "email")
        if medium in _PAID_MEDIUMS:
            return Origin(host, "paid")
        return Origin(host, "social" if medium.startswith("social") else "campaign")
    if host is None:
        return Origin(None, "direct")
    if own_host and host == own_host.lower().removeprefix("www."):
        return Origin(host, "internal")
    if _among(host, _SEARCH):
        return Origin(host, "search")
    return Origin(host, "social" if _among(host, _SOCIAL) else "referral")


def _among(host: str, names: tuple[str, ...]) -> bool:
    dotted = f".{host}."
    return any(f".{name}" in dotted if name.endswith(".") else f".{name}." in dotted for name in names)


def _host(referrer: str | None) -> str | None:
    if not referrer:
        return None
    try:
        host = urlsplit(referrer).hostname
    except ValueError:  # for example an unclosed bracket of an IPv6 address
        return None
    return host.removeprefix("www.") if host else None

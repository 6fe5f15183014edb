"""Source and marketing channel of a request.

The rules are those of Google Analytics 4's default channel group and of Plausible, in their order; AI assistants are as
in Plausible. https://support.google.com/analytics/answer/9756891
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from tidemark.contract.channels import CHANNELS
from tidemark.parse import sources
from tidemark.parse.lists import version_of
from tidemark.parse.sources import category_of_name, source_of_host
from tidemark.parse.tags import CLICK_IDS, MOST_CHARACTERS, SEARCH_PARAMETERS, UTM, Tags

# Increment when `_channel`, `origin_of`, `host_of` or `tags_of` gives another result for the same data.
_CODE = 3

# Source of each click id, and the channel that it means by itself.
_CLICKS = {
    "gclid": ("google", "paid search"), "gbraid": ("google", "paid search"), "wbraid": ("google", "paid search"),
    "msclkid": ("bing", "paid search"), "yclid": ("yandex", "paid search"), "ttclid": ("tiktok", "paid social"),
    "twclid": ("twitter", "paid social"), "li_fat_id": ("linkedin", "paid social"), "fbclid": ("facebook", ""),
}  # fmt: skip

_PAID = re.compile("(.*cp.*|ppc|retargeting|paid.*)", re.DOTALL)
_SHOPPING = re.compile("(.*(([^a-df-z]|^)shop|shopping).*)", re.DOTALL)
_DISPLAY = ("display", "banner", "expandable", "interstitial", "cpm")
_SOCIAL = ("social", "social-network", "social-media", "sm", "social network", "social media")
_EMAIL = ("email", "e-mail", "e_mail", "e mail", "newsletter")
_REFERRAL = ("referral", "app", "link")
# The tag by which Google Analytics names a visit without a source.
_DIRECT = "(direct)"


class Campaign(NamedTuple):
    """The tags of a query that decide on source and channel, in lower case, source and medium without blanks around
    them; empty where there is none."""

    source: str = ""
    medium: str = ""
    name: str = ""
    click_id: str = ""

    @staticmethod
    def of(tags: Tags) -> Campaign:
        """The part of a query's tags that counts here."""
        return Campaign(
            (tags.utm_source or "").strip().lower(),
            (tags.utm_medium or "").strip().lower(),
            (tags.utm_campaign or "").lower(),
            tags.click_id or "",
        )


class Origin(NamedTuple):
    """`source` is empty for a direct visit; `channel` is one of CHANNELS."""

    source: str
    channel: str


@cache
def rules_version() -> str:
    """Versions of the rules and of the list of sources."""
    words = (_PAID.pattern, _SHOPPING.pattern, _DISPLAY, _SOCIAL, _EMAIL, _REFERRAL, _DIRECT)
    parameters = (UTM, CLICK_IDS, SEARCH_PARAMETERS, MOST_CHARACTERS)
    return f"channels {version_of(_CODE, CHANNELS, _CLICKS, words, parameters)}-{sources.version()}"


def origin_of(host: str | None, own: bool, campaign: Campaign) -> Origin:
    """The origin of a request with a referring host (None without a referrer), which is one of the site's `own`."""
    click_source, click_channel = _CLICKS.get(campaign.click_id, ("", ""))
    if campaign.source or click_source:
        source = campaign.source or click_source
        category = category_of_name(source)
    elif host is None or own:
        source, category = host or "", ""
    else:
        source, category = source_of_host(host)
    return Origin(source, _channel(source, category, campaign, click_channel, own))


def _channel(source: str, category: str, campaign: Campaign, click: str, own: bool) -> str:
    medium = campaign.medium
    paid = bool(_PAID.fullmatch(medium))
    shopping = category == "shopping" or bool(_SHOPPING.fullmatch(campaign.name))
    rules = (
        "cross-network" in campaign.name,
        paid and shopping,
        (paid and category == "search") or click == "paid search",
        (paid and category == "social") or click == "paid social",
        paid and category == "video",
        medium in _DISPLAY,
        paid,
        shopping,
        category == "social" or medium in _SOCIAL,
        category == "video" or "video" in medium,
        category == "ai",
        category == "search" or medium == "organic",
        category == "mail" or any(word in campaign.source or word in medium for word in _EMAIL),
        medium == "affiliate",
        medium == "audio",
        "sms" in (campaign.source, medium),
        medium.endswith("push") or "mobile" in medium or "notification" in medium or source == "firebase",
        own,
        source not in ("", _DIRECT) or medium in _REFERRAL,
        True,
    )
    return next(channel for channel, holds in zip(CHANNELS, rules, strict=True) if holds)

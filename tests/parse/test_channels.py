from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.contract.channels import CHANNELS
from tidemark.parse.channels import Campaign, Origin, origin_of
from tidemark.parse.tags import tags_of


def origin(host: str | None, query: str = "", *, own: bool = False) -> Origin:
    return origin_of(host, own, Campaign.of(tags_of(query)))


@pytest.mark.parametrize(
    "host, query, expected",
    [
        (None, "", Origin("", "direct")),
        ("blog.example", "", Origin("blog.example", "referral")),
        # By the list.
        ("google.com", "", Origin("google", "organic search")),
        ("facebook.com", "", Origin("facebook", "organic social")),
        ("youtube.com", "", Origin("youtube", "organic video")),
        ("amazon.de", "", Origin("amazon", "organic shopping")),
        ("chatgpt.com", "", Origin("chatgpt", "ai assistants")),
        ("mail.google.com", "", Origin("gmail", "email")),
        # By tags. The tag's source wins over the referrer.
        ("google.com", "utm_source=Facebook", Origin("facebook", "organic social")),
        ("google.com", "utm_source=partner", Origin("partner", "referral")),
        (None, "utm_source=www.bing.com&utm_medium=CPC", Origin("www.bing.com", "paid search")),
        (None, "utm_source=google&utm_medium=cpc&utm_campaign=Cross-Network", Origin("google", "cross-network")),
        (None, "utm_source=ebay&utm_medium=paid", Origin("ebay", "paid shopping")),
        (None, "utm_source=google&utm_medium=cpc&utm_campaign=spring-shop", Origin("google", "paid shopping")),
        (None, "utm_source=google&utm_medium=cpc&utm_campaign=workshop", Origin("google", "paid search")),
        (None, "utm_source=google&utm_medium=cpc&utm_campaign=bishop", Origin("google", "paid search")),
        (None, "utm_source=google&utm_medium=cpc&utm_campaign=eshop", Origin("google", "paid shopping")),
        (None, "utm_source=google&utm_medium=ppc", Origin("google", "paid search")),
        (None, "utm_source=google&utm_medium=retargeting", Origin("google", "paid search")),
        (None, "utm_source=google&utm_medium=cpm", Origin("google", "paid search")),
        (None, "utm_source=ig&utm_medium=paid_social", Origin("ig", "paid social")),
        (None, "utm_source=yt&utm_medium=cpv", Origin("yt", "paid video")),
        (None, "utm_source=youtube&utm_medium=cpc", Origin("youtube", "paid video")),
        # As people write them.
        (None, "utm_source=facebookads&utm_medium=cpc", Origin("facebookads", "paid social")),
        (None, "utm_source=Facebook+Ads&utm_medium=paid", Origin("facebook ads", "paid social")),
        (None, "utm_source=FB", Origin("fb", "organic social")),
        (None, "utm_source=adwords&utm_medium=cpc", Origin("adwords", "paid search")),
        (None, "utm_source=linkedin-ads&amp;utm_medium=ppc", Origin("linkedin-ads", "paid social")),
        (None, "utm_source=tw;utm_medium=social", Origin("tw", "organic social")),
        (None, "utm_source=youtube-ads&utm_medium=cpv", Origin("youtube-ads", "paid video")),
        (None, "utm_source=https%3A%2F%2Fwww.google.com%2F&utm_medium=cpc",
         Origin("https://www.google.com/", "paid search")),
        (None, "utm_source=linkedin.com/&utm_medium=cpc", Origin("linkedin.com/", "paid social")),
        (None, "utm_source=threads", Origin("threads", "organic social")),
        (None, "utm_medium=social%20", Origin("", "organic social")),
        (None, "utm_medium=+display", Origin("", "display")),
        (None, "utm_medium=affiliate%20", Origin("", "affiliates")),
        (None, "utm_medium=organic%20", Origin("", "organic search")),
        (None, "utm_medium=%20referral", Origin("", "referral")),
        (None, "utm_source=facebook%20", Origin("facebook", "organic social")),
        (None, "utm_source=%20", Origin("", "direct")),
        ("google.com", "utm_source=%20", Origin("google", "organic search")),
        (None, "utm_source=(direct)&utm_medium=(none)", Origin("(direct)", "direct")),
        (None, "utm_source=copilot.com", Origin("copilot.com", "ai assistants")),
        (None, "utm_source=caf%E9&utm_medium=email", Origin(r"caf\xe9", "email")),
        (None, "utm_source=openai", Origin("openai", "ai assistants")),
        (None, "utm_source=www.example.org&amp;utm_medium=email", Origin("www.example.org", "email")),
        ("google.com", "utm_source=&utm_medium=&utm_campaign=", Origin("google", "organic search")),
        ("com.openai.chatgpt", "", Origin("chatgpt", "ai assistants")),
        ("com.google.android.gm", "", Origin("gmail", "email")),
        ("com.facebook.orca", "", Origin("facebook", "organic social")),
        (None, "utm_source=partner&utm_medium=cpm", Origin("partner", "display")),
        (None, "utm_medium=banner", Origin("", "display")),
        (None, "utm_medium=expandable", Origin("", "display")),
        (None, "utm_medium=interstitial", Origin("", "display")),
        ("facebook.com", "utm_medium=display", Origin("facebook", "display")),
        (None, "utm_source=partner&utm_medium=paid", Origin("partner", "paid other")),
        (None, "utm_source=perplexity&utm_medium=cpc", Origin("perplexity", "paid other")),
        (None, "utm_campaign=shopping", Origin("", "organic shopping")),
        ("facebook.com", "utm_campaign=shopping", Origin("facebook", "organic shopping")),
        (None, "utm_medium=social-media", Origin("", "organic social")),
        ("google.com", "utm_medium=sm", Origin("google", "organic social")),
        ("google.com", "utm_medium=short-video", Origin("google", "organic video")),
        ("chatgpt.com", "utm_source=chatgpt.com", Origin("chatgpt.com", "ai assistants")),
        (None, "utm_medium=organic", Origin("", "organic search")),
        (None, "utm_medium=E-Mail", Origin("", "email")),
        (None, "utm_source=newsletter", Origin("newsletter", "email")),
        ("google.com", "utm_medium=email", Origin("google", "organic search")),
        (None, "utm_medium=affiliate", Origin("", "affiliates")),
        (None, "utm_medium=audio", Origin("", "audio")),
        (None, "utm_source=sms", Origin("sms", "sms")),
        (None, "utm_medium=sms", Origin("", "sms")),
        (None, "utm_medium=web-push", Origin("", "mobile push")),
        (None, "utm_medium=mobile", Origin("", "mobile push")),
        (None, "utm_source=firebase", Origin("firebase", "mobile push")),
        (None, "utm_medium=referral", Origin("", "referral")),
        (None, "utm_medium=link", Origin("", "referral")),
        (None, "utm_campaign=spring", Origin("", "direct")),
        # By click ids.
        (None, "gclid=x", Origin("google", "paid search")),
        (None, "gbraid=x", Origin("google", "paid search")),
        (None, "wbraid=x", Origin("google", "paid search")),
        (None, "msclkid=x", Origin("bing", "paid search")),
        (None, "yclid=x", Origin("yandex", "paid search")),
        (None, "ttclid=x", Origin("tiktok", "paid social")),
        (None, "twclid=x", Origin("twitter", "paid social")),
        (None, "li_fat_id=x", Origin("linkedin", "paid social")),
        (None, "fbclid=x", Origin("facebook", "organic social")),
        ("l.instagram.com", "fbclid=x", Origin("facebook", "organic social")),
        (None, "fbclid=x&utm_medium=paid", Origin("facebook", "paid social")),
        (None, "fbclid=x&gclid=y", Origin("google", "paid search")),
        ("blog.example", "gclid=x&utm_source=partner", Origin("partner", "paid search")),
        (None, "gclid=x&utm_medium=cpc&utm_campaign=shopping", Origin("google", "paid shopping")),
    ],
)  # fmt: skip
def test_origin(host: str | None, query: str, expected: Origin) -> None:
    assert origin(host, query) == expected


@pytest.mark.parametrize(
    "host, query, expected",
    [
        ("shop.example", "", Origin("shop.example", "internal")),
        # An own host is not looked up in the list.
        ("amazon.com", "", Origin("amazon.com", "internal")),
        ("shop.example", "utm_source=banner-7", Origin("banner-7", "internal")),
        ("shop.example", "utm_medium=affiliate", Origin("shop.example", "affiliates")),
        ("shop.example", "utm_medium=referral", Origin("shop.example", "internal")),
        ("shop.example", "gclid=x", Origin("google", "paid search")),
    ],
)
def test_origin_behind_an_own_host(host: str, query: str, expected: Origin) -> None:
    assert origin(host, query, own=True) == expected


@given(host=st.none() | st.text(), query=st.text(), own=st.booleans())
def test_any_text_has_an_origin(host: str | None, query: str, own: bool) -> None:
    assert origin(host, query, own=own).channel in CHANNELS

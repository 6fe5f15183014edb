"""Lines with every kind of referrer and tag: hosts near listed ones, tags twice, empty, long, percent-encoded."""

from __future__ import annotations

from random import Random

_HOSTS = (
    "www.google.com", "WWW.Google.CO.UK", "google.evil.com", "mail.google.com", "news.google.de", "evilgoogle.com",
    "google.com.evil.net", "shop.example", "www.shop.example", "SHOP.example:8080", "de.shop.example", "chatgpt.com",
    "www.perplexity.ai", "gemini.google.com", "docs.google.com", "m.facebook.com", "t.co", "lnkd.in", "youtu.be",
    "www.youtube.com", "vimeo.com", "www.amazon.de", "amazon.co.uk", "etsy.com", "search.yahoo.co.jp", "mail.yahoo.com",
    "de.search.yahoo.com", "yandex.com.tr", "cn.bing.com", "outlook.live.com", "a.b.c.example.org", "203.0.113.9",
    "[2001:db8::1]", "localhost", "xn--bcher-kva.example", "com.google.android.gm", "google", "co.uk", "facebook.com.",
    "www.www.example", "claude.ai", "mail.google.de", "accounts.google.co.uk", "login.live.com", "www.google.cat",
    "exa,mple.com", "1.2",
)  # fmt: skip
_SCHEMES = (
    "https://", "http://", "HTTP://", "android-app://", "//", "", "http:/", "chrome-extension://", "http://https://",
)  # fmt: skip
_PATHS = ("", "/", "/a/b?c=d", "?q=1", "#x", "/%20x")
_TAGS = {
    "utm_source": ("google", "Google", "chatgpt.com", "facebook", "newsletter", "mailchimp", "e-mail", "sms",
                   "firebase", "youtube", "amazon", "www.google.com", "", "%20", "caf%C3%A9", "a+b", "x" * 300,
                   "google.evil.com", "facebook%20", "bingads", "fb-ads", "threads", "(direct)", "caf%E9"),
    "utm_medium": ("cpc", "CPC", "ppc", "retargeting", "paid_social", "cpm", "display", "banner", "expandable",
                   "interstitial", "newsletter", "E-Mail", "e%20mail", "affiliate", "audio", "sms", "webpush", "mobile",
                   "notification", "social", "social+media", "Social%20Network", "video", "organic", "referral", "app",
                   "", "social%20", "+cpc", "(none)"),
    "utm_campaign": ("brand", "cross-network", "Cross-Network-1", "shopping", "shop", "myshop", "bishop", "e-shop",
                     "Winter+Shop", "photoshop", "", "x" * 250, "%D0%B0"),
}  # fmt: skip
_OTHERS = (
    "utm_term", "utm_content", "gclid", "gbraid", "wbraid", "msclkid", "yclid", "ttclid", "twclid", "li_fat_id",
    "fbclid", "q", "s", "query", "search", "keyword", "term", "UTM_SOURCE", "utm_sourcex", "xq", "page",
)  # fmt: skip
_VALUES = (
    "1", "", "kettle", "Kettle+Lid", "a%26b", "%zz", "%", "%C3", "%CF%F0", "+%20", "x" * 250, "%00", "+", "a=b", "é",
    "a;b", "%F0%9F%98%80" * 30,
)  # fmt: skip


def lines(count: int, seed: int, sites: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """`count` lines of these sites, the same for the same seed."""
    chance = Random(seed)
    return [_line(chance, number, sites) for number in range(count)]


def _line(chance: Random, number: int, sites: tuple[str, ...]) -> tuple[str, bytes]:
    referrer = "-"
    if chance.random() < 0.75:
        referrer = chance.choice(_SCHEMES) + chance.choice(_HOSTS) + chance.choice(_PATHS)
    names = chance.choices(
        [*_TAGS, *_OTHERS], weights=[4] * 3 + [1] * len(_OTHERS), k=chance.choice((0, 1, 2, 3, 5))
    )
    query = "&".join(
        name + ("=" + chance.choice(_TAGS.get(name, _VALUES)) if chance.random() < 0.95 else "")
        for name in names
    )
    target = chance.choice(("/", "/search")) + (f"?{query}" if query or chance.random() < 0.1 else "")
    # Of each visitor all lines are of one second, so that their texts decide which is the first.
    minute, second = divmod(number % 250, 60)
    line = (
        f"192.0.2.{number % 250} - - [21/May/2026:21:{minute:02}:{second:02} +0000]"
        f' "GET {target} HTTP/1.1" 200 5 "{referrer}" "Mozilla/5.0 (X11) Firefox/140.0"'
    )
    return chance.choice(sites), line.encode()

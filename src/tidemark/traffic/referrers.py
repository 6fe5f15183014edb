"""Sources of visits: referrers, and tags of landing addresses."""

from __future__ import annotations

from typing import NamedTuple

from tidemark.traffic.visitors import weighted_table

DIRECT = b"-"
TABLE = 4096


class Arrival(NamedTuple):
    """How a visit begins: the referrer, and the query of the landing address."""

    referrer: bytes
    query: str = ""


_UNTAGGED = {
    DIRECT: 30, b"https://www.google.com/": 26, b"https://www.google.de/": 3, b"https://www.google.co.in/": 3,
    b"https://www.bing.com/": 5, b"https://duckduckgo.com/": 4, b"https://search.yahoo.co.jp/": 1,
    b"https://yandex.ru/": 1, b"https://www.baidu.com/link?url=Zk3vq": 1, b"https://www.facebook.com/": 3,
    b"https://l.instagram.com/": 2, b"https://t.co/9xYh2kQe": 2, b"https://www.reddit.com/r/Coffee/": 2,
    b"https://www.linkedin.com/feed/": 1, b"https://www.youtube.com/": 1,
    b"https://news.ycombinator.com/item?id=44871234": 2, b"https://github.com/": 1,
    b"https://mail.google.com/": 1, b"android-app://com.google.android.gm/": 0.3,
    b"https://blog.coffee-notes.example/best-grinders": 2,
    b"http://forum.brewers.example/viewtopic.php?t=812&start=20": 1,
}  # fmt: skip

# Assistants name themselves as the referrer, and some tag the links of their answers.
ASSISTANTS = (
    Arrival(b"https://chatgpt.com/", "utm_source=chatgpt.com"),
    Arrival(DIRECT, "utm_source=chatgpt.com"),
    Arrival(b"https://www.perplexity.ai/"),
    Arrival(b"https://claude.ai/"),
    Arrival(b"https://gemini.google.com/"),
    Arrival(b"https://copilot.microsoft.com/"),
)

_GOOGLE, _FACEBOOK, _BING = b"https://www.google.com/", b"https://www.facebook.com/", b"https://www.bing.com/"
_TAGGED: tuple[tuple[float, bytes, str], ...] = (
    (4, _GOOGLE, "utm_source=google&utm_medium=cpc&utm_campaign=brand&gclid=EAIaIQobChMI"),
    (
        2,
        _GOOGLE,
        "utm_source=google&utm_medium=cpc&utm_campaign=grinders-q4&utm_term=burr+grinder&utm_content=a%2Fb",
    ),
    (1, _GOOGLE, "gclid=CjwKCAiA"),
    (0.5, _GOOGLE, "utm_campaign=winter-shopping&gbraid=0AAAAA"),
    (0.5, DIRECT, "wbraid=Cj8KCQiA"),
    (1, _BING, "utm_source=Bing&utm_medium=CPC&utm_campaign=Grinders-Q4&msclkid=7d1c"),
    (0.5, b"https://yandex.ru/", "yclid=1284"),
    (2, _FACEBOOK, "utm_source=facebook&utm_medium=paid_social&utm_campaign=launch&fbclid=IwAR2"),
    (2, b"https://l.facebook.com/", "fbclid=IwAR0"),
    (0.5, b"https://www.tiktok.com/", "ttclid=E.C.P."),
    (0.5, b"https://t.co/9xYh2kQe", "twclid=26l6"),
    (0.5, b"https://www.linkedin.com/", "li_fat_id=4d02"),
    (1, b"https://l.instagram.com/", "utm_source=instagram&utm_medium=social&utm_campaign=launch"),
    (3, DIRECT, "utm_source=newsletter&utm_medium=email&utm_campaign=weekly-47"),
    (1, DIRECT, "utm_source=newsletter&utm_medium=email&utm_campaign=black+friday"),
    (1, DIRECT, "utm_source=Newsletter&utm_medium=E-Mail&utm_campaign=Caf%C3%A9%20%26%20Filter"),
    (
        1,
        b"https://blog.coffee-notes.example/",
        "utm_source=coffee-notes&utm_medium=affiliate&utm_campaign=2026",
    ),
    (0.5, b"https://news.example/", "utm_source=news&utm_medium=banner&utm_campaign=launch"),
    (0.5, DIRECT, "utm_source=app&utm_medium=push&utm_campaign=restock"),
    (0.3, DIRECT, "utm_source=sms&utm_medium=sms"),
    (0.5, b"https://www.youtube.com/", "utm_source=youtube&utm_medium=video&utm_campaign=launch"),
)


def arrivals() -> list[Arrival]:
    """A table to draw from uniformly."""
    untagged = [(Arrival(referrer), weight) for referrer, weight in _UNTAGGED.items()]
    assistants = [(arrival, 0.6) for arrival in ASSISTANTS]
    tagged = [(Arrival(referrer, query), weight) for weight, referrer, query in _TAGGED]
    return weighted_table([*untagged, *assistants, *tagged], TABLE)

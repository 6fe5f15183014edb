"""Sources of visits: referrers, and campaign tags of landing addresses."""

from __future__ import annotations

from tidemark.traffic.visitors import weighted_table

DIRECT = b"-"
TABLE = 2048

Arrival = tuple[bytes, str]

_WEIGHTED: list[tuple[Arrival, float]] = [
    ((DIRECT, ""), 30),
    ((b"https://www.google.com/", ""), 26),
    ((b"https://www.google.de/", ""), 3),
    ((b"https://www.google.co.in/", ""), 3),
    ((b"https://www.bing.com/", ""), 5),
    ((b"https://duckduckgo.com/", ""), 4),
    ((b"https://search.yahoo.co.jp/", ""), 1),
    ((b"https://yandex.ru/", ""), 1),
    ((b"https://www.baidu.com/link?url=Zk3vq", ""), 1),
    ((b"https://www.facebook.com/", ""), 3),
    ((b"https://l.instagram.com/", ""), 2),
    ((b"https://t.co/9xYh2kQe", ""), 2),
    ((b"https://www.reddit.com/r/Coffee/", ""), 2),
    ((b"https://www.linkedin.com/feed/", ""), 1),
    ((b"https://www.youtube.com/", ""), 1),
    ((b"https://news.ycombinator.com/item?id=44871234", ""), 2),
    ((b"https://github.com/", ""), 1),
    ((b"https://blog.coffee-notes.example/best-grinders", ""), 2),
    ((b"http://forum.brewers.example/viewtopic.php?t=812&start=20", ""), 1),
    ((b"https://chatgpt.com/", "utm_source=chatgpt.com"), 1),
    (
        (
            b"https://www.google.com/",
            "utm_source=google&utm_medium=cpc&utm_campaign=brand&gclid=EAIaIQobChMI",
        ),
        4,
    ),
    ((b"https://www.google.com/", "utm_source=google&utm_medium=cpc&utm_campaign=grinders-q4"), 2),
    (
        (
            b"https://www.facebook.com/",
            "utm_source=facebook&utm_medium=paid_social&utm_campaign=launch&fbclid=IwAR2",
        ),
        2,
    ),
    ((b"https://l.instagram.com/", "utm_source=instagram&utm_medium=social&utm_campaign=launch"), 1),
    ((DIRECT, "utm_source=newsletter&utm_medium=email&utm_campaign=weekly-47"), 3),
    ((DIRECT, "utm_source=newsletter&utm_medium=email&utm_campaign=black+friday"), 1),
    (
        (
            b"https://blog.coffee-notes.example/",
            "utm_source=coffee-notes&utm_medium=affiliate&utm_campaign=2026",
        ),
        1,
    ),
]


def arrivals() -> list[Arrival]:
    """A table to draw (referrer, query of the landing address) from uniformly."""
    return weighted_table(_WEIGHTED, TABLE)

from __future__ import annotations

import pytest

from tidemark.parse.sources import Source, category_of_name, host_of, source_of_host, version


@pytest.mark.parametrize(
    "host, expected",
    [
        ("google.com", Source("google", "search")),
        ("google.co.uk", Source("google", "search")),
        ("google.com.br", Source("google", "search")),
        ("google.de", Source("google", "search")),
        ("news.google.co.uk", Source("google news", "search")),
        ("images.google.de", Source("google images", "search")),
        ("encrypted.google.com", Source("google", "search")),
        ("mail.google.com", Source("gmail", "mail")),
        ("gemini.google.com", Source("gemini", "ai")),
        ("docs.google.com", Source("google", "")),
        ("google.evil.com", Source("google.evil.com", "")),
        ("google.evil.co.uk", Source("google.evil.co.uk", "")),
        ("mail.google.com.evil.example", Source("mail.google.com.evil.example", "")),
        ("notgoogle.com", Source("notgoogle.com", "")),
        ("blog.google", Source("blog.google", "")),
        ("de.search.yahoo.com", Source("yahoo!", "search")),
        ("mail.yahoo.com", Source("yahoo! mail", "mail")),
        ("cn.bing.com", Source("bing", "search")),
        ("mail.yandex.ru", Source("yandex mail", "mail")),
        ("eur02.safelinks.protection.outlook.com", Source("outlook", "mail")),
        ("l.facebook.com", Source("facebook", "social")),
        ("out.reddit.com", Source("reddit", "social")),
        ("t.co", Source("twitter", "social")),
        ("x.com", Source("twitter", "social")),
        ("netflix.com", Source("netflix", "video")),
        ("not.co", Source("not.co", "")),
        ("youtu.be", Source("youtube", "video")),
        ("m.youtube.com", Source("youtube", "video")),
        ("duck.ai", Source("duck.ai", "ai")),
        ("you.com", Source("you", "ai")),
        ("chat.openai.com", Source("chatgpt", "ai")),
        ("smile.amazon.co.uk", Source("amazon", "shopping")),
        ("com.google.android.gm", Source("gmail", "mail")),
        ("com.google.android.googlequicksearchbox", Source("google", "search")),
        ("localhost", Source("localhost", "")),
        ("google", Source("google", "")),
    ],
)
def test_the_longest_suffix_of_whole_labels_decides(host: str, expected: Source) -> None:
    assert source_of_host(host) == expected


@pytest.mark.parametrize(
    "name, category",
    [
        ("google", "search"), ("fb", "social"), ("facebook.com", "social"), ("m.facebook.com", "social"),
        ("youtube", "video"), ("chatgpt.com", "ai"), ("claude", "ai"), ("gmail", "mail"), ("ebay", "shopping"),
        ("cnn", ""), ("partner", ""), ("partner.example", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_tag_names_a_source_or_its_host(name: str, category: str) -> None:
    assert category_of_name(name) == category


@pytest.mark.parametrize(
    "referrer, host",
    [
        ("https://www.google.com/", "google.com"),
        ("http://WWW.Example.com:8080/a", "example.com"),
        ("http://example.com./", "example.com"),
        ("android-app://com.slack", "com.slack"),
        ("http://[2001:db8::1]/", "2001:db8::1"),
        ("http://[::1/", None),
        ("not a url", None),
        ("", None),
    ],
)
def test_host_of_a_referrer(referrer: str, host: str | None) -> None:
    assert host_of(referrer) == host


def test_the_list_has_a_version() -> None:
    assert len(version()) == 8

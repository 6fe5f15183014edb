from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.parse.referrer import Origin, origin


@pytest.mark.parametrize(
    "referrer, query, own_host, expected",
    [
        (None, None, None, Origin(None, "direct")),
        ("https://www.google.com/", None, None, Origin("google.com", "search")),
        ("https://news.google.co.uk/a", None, None, Origin("news.google.co.uk", "search")),
        ("https://t.co/x", None, None, Origin("t.co", "social")),
        ("https://not.co/x", None, None, Origin("not.co", "referral")),
        ("https://netflix.com/", None, None, Origin("netflix.com", "referral")),
        ("https://m.facebook.com:443/x", None, None, Origin("m.facebook.com", "social")),
        ("http://WWW.Example.com/a", None, "example.com", Origin("example.com", "internal")),
        ("http://example.com/a", None, "www.Example.com", Origin("example.com", "internal")),
        ("http://example.com/a", None, None, Origin("example.com", "referral")),
        ("http://google.com/", "utm_source=x&utm_medium=CPC", None, Origin("google.com", "paid")),
        (None, "utm_medium=email", None, Origin(None, "email")),
        (None, "utm_medium=social-paid", None, Origin(None, "social")),
        (None, "utm_campaign=spring", None, Origin(None, "campaign")),
        ("http://[::1/", None, None, Origin(None, "direct")),
        ("android-app://com.slack", None, None, Origin("com.slack", "referral")),
        ("not a url", None, None, Origin(None, "direct")),
    ],
)
def test_origin(referrer: str | None, query: str | None, own_host: str | None, expected: Origin) -> None:
    assert origin(referrer, query, own_host) == expected


@given(referrer=st.text(), query=st.none() | st.text(), host=st.none() | st.text())
def test_any_text_has_an_origin(referrer: str, query: str | None, host: str | None) -> None:
    channels = ["direct", "internal", "search", "social", "email", "paid", "campaign", "referral"]
    for text in (referrer, "http://" + referrer):
        assert origin(text, query, host).channel in channels

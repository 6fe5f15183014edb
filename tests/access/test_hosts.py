"""Host and Origin: who rebinds a name to this server, or opens it from another page, is refused."""

from __future__ import annotations

import pytest

from tidemark.access.hosts import Allowed, allowed_names
from tidemark.errors import SettingError

ALLOWED = Allowed(frozenset({"stats.example.org"}), "dashboard_hosts")


def refused(host: str, origin: str = "", *, changing: bool = False, **more: str) -> bool:
    named = {
        "host": host,
        "origin": origin,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    headers = [(name.encode(), value.encode()) for name, value in named.items() if value]
    return ALLOWED.refusal(headers, "192.0.2.7", changing=changing) is not None


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8501", "a.localhost:1", "127.0.0.1:8501", "127.9.9.9", "[::1]:8501", "192.0.2.7:80",
     "stats.example.org", "Stats.Example.Org.:443"],
)  # fmt: skip
def test_hosts_of_this_server(host: str) -> None:
    assert not refused(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example:8501", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.8", "evil@localhost",
     "localhost/evil", "localhost:evil", "[::2]"],
)  # fmt: skip
def test_foreign_hosts(host: str) -> None:
    assert refused(host)


@pytest.mark.parametrize(
    "origin, foreign",
    [
        ("http://localhost:8501", False), ("https://stats.example.org", False), ("http://localhost:3000", True),
        ("http://evil.example", True), ("null", True), ("http://localhost:8501.evil.example", True),
        ("file://localhost:8501", True),
    ],
)  # fmt: skip
def test_an_origin_is_that_of_the_host_or_a_public_name(origin: str, foreign: bool) -> None:
    assert refused("localhost:8501", origin) is foreign


def test_what_another_site_sends_without_an_origin_changes_nothing() -> None:
    assert refused("localhost", changing=True, sec_fetch_site="cross-site")
    assert not refused("localhost", changing=True, sec_fetch_site="same-origin")
    assert not refused("localhost", changing=False, sec_fetch_site="cross-site")


def test_a_refusal_names_the_setting() -> None:
    problem, remedy = ALLOWED.refusal([(b"host", b"stats.example")], "") or ("", "")
    assert "'stats.example'" in problem and "dashboard_hosts" in remedy


def test_names_of_the_setting() -> None:
    assert allowed_names("A.example, b.example c.example", "s").names == {
        "a.example",
        "b.example",
        "c.example",
    }
    with pytest.raises(SettingError, match=r"https://a\.example"):
        allowed_names("https://a.example", "s")

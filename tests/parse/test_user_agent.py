from __future__ import annotations

import pytest

from tidemark.parse import user_agent
from tidemark.parse.bots import Bot
from tidemark.parse.user_agent import MOST_CHARACTERS, Agent, describe

IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/18.6 Mobile/15E148 Safari/604.1"
)
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0.0.0 Safari/537.36"
)
GALAXY_TAB = (
    "Mozilla/5.0 (Linux; Android 14; SM-X710) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0.0.0 Safari/537.36"
)
CUBOT = (
    "Mozilla/5.0 (Linux; Android 8.0.0; CUBOT_P20) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/120.0.0.0 Mobile Safari/537.36"
)
TABLET_PC = "Mozilla/5.0 (compatible; MSIE 10.0; Windows NT 6.1; Trident/6.0; Tablet PC 2.0)"
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@pytest.mark.parametrize(
    "user_agent, expected",
    [
        (CHROME, Agent("Chrome", "Windows", "desktop", None)),
        (IPHONE, Agent("Mobile Safari", "iOS", "mobile", None)),
        (GALAXY_TAB, Agent("Chrome", "Android", "tablet", None)),
        (GOOGLEBOT, Agent("Googlebot", "Other", "bot", Bot("Googlebot", "search-engine", None))),
        (CUBOT, Agent("Chrome Mobile", "Android", "mobile", None)),
        (TABLET_PC, Agent("IE", "Windows", "desktop", None)),
        ("curl/8.5.0", Agent("curl", "Other", "bot", Bot("curl", "http-library", None))),
        ("", Agent("Other", "Other", "other", None)),
        ("\u2028 \\x00 <script>", Agent("Other", "Other", "other", None)),
    ],
)
def test_agents(user_agent: str, expected: Agent) -> None:
    assert describe(user_agent) == expected


def test_only_the_beginning_of_a_user_agent_tells() -> None:
    """Each pattern would search thousands of characters, and as many of them be kept."""
    padded = CHROME.ljust(MOST_CHARACTERS - len("Googlebot/"), "x")
    assert describe(f"{padded}Googlebot/").bot == Bot("Googlebot", "search-engine", None)
    assert describe(f"{padded:x<{MOST_CHARACTERS}}Googlebot/") == Agent("Chrome", "Windows", "desktop", None)
    kept = user_agent._described.cache_info().currsize
    assert describe(f"{padded:x<{MOST_CHARACTERS}}bingbot/") == Agent("Chrome", "Windows", "desktop", None)
    assert user_agent._described.cache_info().currsize == kept

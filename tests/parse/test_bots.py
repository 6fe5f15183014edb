from __future__ import annotations

import re

import crawleruseragents
import pytest

from tidemark.parse.bots import KINDS, OTHER_KIND, PURPOSES, Bot, bot_of, kind_of

ON_CHROME = (
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; {}) Chrome/142.0.0.0 Safari/537.36"
)


@pytest.mark.parametrize(
    "user_agent, expected",
    [
        (ON_CHROME.format("GPTBot/1.2; +https://openai.com/gptbot"), Bot("GPTBot", "ai-crawler", "training")),
        (ON_CHROME.format("OAI-SearchBot/1.0"), Bot("OAI-SearchBot", "ai-crawler", "search")),
        (ON_CHROME.format("ChatGPT-User/1.0"), Bot("ChatGPT-User", "ai-crawler", "assistant")),
        (ON_CHROME.format("ClaudeBot/1.0"), Bot("ClaudeBot", "ai-crawler", "training")),
        ("claudebot", Bot("claudebot", "ai-crawler", "training")),
        (ON_CHROME.format("Claude-User/1.0"), Bot("Claude-User", "ai-crawler", "assistant")),
        (ON_CHROME.format("Claude-SearchBot/1.0"), Bot("Claude-SearchBot", "ai-crawler", "search")),
        (ON_CHROME.format("PerplexityBot/1.0"), Bot("PerplexityBot", "ai-crawler", "search")),
        (ON_CHROME.format("Perplexity-User/1.0"), Bot("Perplexity-User", "ai-crawler", "assistant")),
        (ON_CHROME.format("MistralAI-User/1.0"), Bot("MistralAI-User", "ai-crawler", "assistant")),
        ("meta-externalagent/1.1", Bot("meta-externalagent", "ai-crawler", "training")),
        ("DuckAssistBot/1.2", Bot("DuckAssistBot", "ai-crawler", "assistant")),
        ("CCBot/2.0 (https://commoncrawl.org/faq/)", Bot("CCBot", "ai-crawler", "training")),
        ("Mozilla/5.0 (Macintosh) (Amazonbot/0.1)", Bot("Amazonbot", "search-engine", "training")),
        ("Google-Extended", Bot("Google-Extended", "ai-crawler", None)),
        ("Mozilla/5.0 zgrab/0.x", Bot("zgrab", "scanner", None)),
        ("Mozilla/5.0 (compatible; AhrefsBot/7.0)", Bot("AhrefsBot", "seo", None)),
        ("Mozilla/5.0+(compatible; UptimeRobot/2.0)", Bot("UptimeRobot", "monitoring", None)),
        ("facebookexternalhit/1.1", Bot("facebookexternalhit", "social-preview", None)),
        ("Feedly/1.0", Bot("Feedly", "feed-reader", None)),
        ("python-requests/2.32.3", Bot("python-requests", "http-library", None)),
        # The character that a pattern demands behind the name belongs to the match.
        ("AdsBot-Google (+http://www.google.com/adsbot.html)", Bot("AdsBot-Google", "advertising", None)),
        # Of "Googlebot/" and "Googlebot-Image", only the second matches; of two names the longer one wins.
        ("Googlebot-Image/1.0", Bot("Googlebot-Image", "search-engine", None)),
        ("curl/8.5.0 Googlebot/2.1", Bot("Googlebot", "search-engine", None)),
    ],
)  # fmt: skip
def test_a_bot_has_name_kind_and_purpose(user_agent: str, expected: Bot) -> None:
    assert bot_of(user_agent) == expected


def test_people_are_no_bots() -> None:
    assert bot_of("") is None
    assert bot_of(ON_CHROME.format("Trident/7.0")) is None


def test_the_first_of_equally_long_matches_in_the_list_wins() -> None:
    patterns = [crawler["pattern"] for crawler in crawleruseragents.CRAWLER_USER_AGENTS_DATA]
    assert patterns.index("GPTBot") < patterns.index("Amzn-User") and len("AI2Bot") == len("GPTBot")
    assert patterns.index("GPTBot") < patterns.index("AI2Bot")
    for user_agent in ("GPTBot AI2Bot", "AI2Bot GPTBot"):
        assert bot_of(user_agent) == Bot("GPTBot", "ai-crawler", "training")


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_the_kind_is_the_first_tag_of_the_order(number: int) -> None:
    assert kind_of(list(reversed(KINDS[number:]))) == KINDS[number]
    assert kind_of(["new-tag"]) == kind_of([]) == OTHER_KIND


def test_instances_of_the_list_have_the_longest_match() -> None:
    data = crawleruseragents.CRAWLER_USER_AGENTS_DATA
    for user_agent in [instance for crawler in data[::40] for instance in crawler["instances"][:1]]:
        found = [(re.search(crawler["pattern"], user_agent), crawler) for crawler in data]
        longest = max(len(match[0]) for match, _ in found if match)
        match, crawler = next((m, crawler) for m, crawler in found if m and len(m[0]) == longest)
        bot = bot_of(user_agent)
        assert match is not None and bot is not None
        assert (bot.name, bot.kind) == (match[0].strip("/ "), kind_of(crawler["tags"]))


def test_each_name_has_one_purpose() -> None:
    names = [name.lower() for group in PURPOSES.values() for name in group]
    assert len(set(names)) == len(names)

"""Name, kind and purpose of a declared bot, by the patterns and tags of the package crawler-user-agents."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

import crawleruseragents

# The first of a bot's tags in this order is its kind.
KINDS = (
    "ai-crawler", "search-engine", "scanner", "seo", "monitoring", "social-preview", "feed-reader", "archiver",
    "academic", "advertising", "http-library", "browser-automation",
)  # fmt: skip
OTHER_KIND = "other"

# Changes with PURPOSES.
_PURPOSES_VERSION = 1

# What an AI company's bot fetches pages for, as its operator documents it: to train models, to build the index of a
# search, or because a person asks an assistant. A bot whose operator says several is listed under the first.
# Google-Extended is missing because it is a name in robots.txt, not a crawler.
PURPOSES = {
    "training": (
        "AI2Bot", "Amazonbot", "anthropic-ai", "Applebot-Extended", "Bytespider", "CCBot", "ChatGLM-Spider",
        "Claude-Web", "ClaudeBot", "cohere-ai", "cohere-training-data-crawler", "DeepSeekBot", "FacebookBot", "GPTBot",
        "imageSpider", "img2dataset", "Kangaroo Bot", "KunatoCrawler", "laion-huggingface-processor",
        "meta-externalagent", "Novellum", "SBIntuitionsBot", "semantic-visions", "Spawning-AI", "The Knowledge AI",
        "TikTokSpider",
    ),
    "search": (
        "AISearchBot", "Amzn-SearchBot", "Anomura", "Aranet-SearchBot", "atlassian-bot", "AzureAI-SearchBot",
        "Claude-SearchBot", "Cloudflare-AutoRAG", "Google-CloudVertexBot", "iAskBot", "iaskspider", "KendraBot",
        "LinerBot", "LinkupBot", "OAI-SearchBot", "PerplexityBot", "PhindBot", "YouBot", "ZanistaBot",
    ),
    "assistant": (
        "Amzn-User", "ChatGPT-User", "Claude-User", "Devin", "DuckAssistBot", "Gemini-Deep-Research",
        "Google-Agent", "Google-NotebookLM", "GoogleAgent-Mariner", "IsonAI-User", "kagi-fetcher", "linkReader",
        "Manus-User", "meta-externalfetcher", "MistralAI-User", "Perplexity-User", "PerplexityUser", "ShapBot",
        "TavilyBot",
    ),
}  # fmt: skip


class Bot(NamedTuple):
    """`name` is the matched text, `kind` one of KINDS or "other", `ai_purpose` a key of PURPOSES or None."""

    name: str
    kind: str
    ai_purpose: str | None


@cache
def rules_version() -> str:
    """Versions of the list of crawlers and of the table of purposes."""
    return f"crawlers {version('crawler-user-agents')}, purposes {_PURPOSES_VERSION}"


def bot_of(user_agent: str) -> Bot | None:
    """The bot behind a User-Agent header; None for a person. The longest match decides, then the list's order."""
    if not crawleruseragents.is_crawler(user_agent):
        return None
    name, kind = "", OTHER_KIND
    for pattern, kind_of_pattern in _patterns():
        found = pattern.search(user_agent)
        if found and len(found[0]) > len(name):
            name, kind = found[0], kind_of_pattern
    name = name.strip("/ ")
    return Bot(name, kind, purpose_by_name().get(name.lower()))


def kind_of(tags: list[str]) -> str:
    """The kind of a bot with these tags."""
    return next((kind for kind in KINDS if kind in tags), OTHER_KIND)


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile(crawler["pattern"]), kind_of(crawler.get("tags", [])))
        for crawler in crawleruseragents.CRAWLER_USER_AGENTS_DATA
    ]


@cache
def purpose_by_name() -> dict[str, str]:
    """The purpose of each bot in PURPOSES, by its name in lower case."""
    return {name.lower(): purpose for purpose, names in PURPOSES.items() for name in names}

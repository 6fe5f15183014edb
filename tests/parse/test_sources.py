from __future__ import annotations

import pytest

from tidemark.parse.lists import rows
from tidemark.parse.sources import (
    Source,
    category_of_name,
    comparable,
    host_of,
    source_of_host,
    version,
)


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
        ("mail.google.de", Source("gmail", "mail")),
        ("mail.google.com.br", Source("gmail", "mail")),
        ("accounts.google.co.uk", Source("google", "")),
        ("docs.google.fr", Source("google", "")),
        ("groups.google.de", Source("google groups", "social")),
        ("shopping.google.co.uk", Source("google shopping", "shopping")),
        ("myaccount.google.com", Source("google", "")),
        ("tagassistant.google.com", Source("google", "")),
        ("colab.research.google.com", Source("google", "")),
        ("google.cat", Source("google", "search")),
        ("news.google.cat", Source("google news", "search")),
        ("login.live.com", Source("microsoft", "")),
        ("oauth.yandex.ru", Source("yandex", "")),
        ("oauth.yandex.com", Source("yandex", "")),
        ("disk.yandex.ru", Source("yandex", "")),
        ("translate.yandex.com", Source("yandex", "")),
        ("fanyi.baidu.com", Source("baidu", "")),
        ("help.kagi.com", Source("kagi", "")),
        ("kagi.com", Source("kagi", "search")),
        ("copilot.com", Source("copilot", "ai")),
        ("m365copilot.com", Source("copilot", "ai")),
        ("openai.com", Source("chatgpt", "ai")),
        ("anthropic.com", Source("claude", "ai")),
        ("x.ai", Source("grok", "ai")),
        ("webmail.optuszoo.com.au", Source("optus webmail", "mail")),
        ("mail.arcor.de", Source("arcor mail", "mail")),
        ("mail.fastweb.it", Source("fastweb mail", "mail")),
        ("charter.net", Source("charter", "search")),
        ("mailbusiness.ionos.de", Source("ionos mail", "mail")),
        ("3c-bap.web.de", Source("web.de mail", "mail")),
        ("steamcommunity.com", Source("steam", "social")),
        ("hckrnews.com", Source("hacker news", "social")),
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
        ("lm.facebook.com", Source("facebook", "social")),
        ("m.me", Source("facebook", "social")),
        ("copilot.cloud.microsoft", Source("copilot", "ai")),
        ("edgeservices.bing.com", Source("copilot", "ai")),
        ("grok.com", Source("grok", "ai")),
        ("blog.float.tw", Source("blog.float.tw", "")),
        ("tw", Source("tw", "")),
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
        # As people write them.
        ("facebookads", "social"), ("facebook-ads", "social"), ("facebook ads", "social"), ("fb_ads", "social"),
        ("ig", "social"), ("insta", "social"), ("meta", "social"), ("linkedin-ads", "social"), ("li", "social"),
        ("tw", "social"), ("x", "social"), ("tik-tok", "social"), ("snap", "social"), ("wa", "social"),
        ("adwords", "search"), ("googleads", "search"), ("gads", "search"), ("microsoft ads", "search"),
        ("bing_ads", "search"), ("ddg", "search"), ("yt", "video"), ("youtube-ads", "video"), ("amazonads", "shopping"),
        ("openai", "ai"), ("copilot", "ai"), ("perplexity.ai", "ai"), ("protonmail", "mail"),
        ("www.facebook.com", "social"), ("https://www.facebook.com/shop", "social"), ("linkedin.com/", "social"),
        (" facebook ", "social"), ("facebook/", "social"), ("google.evil.example", ""), ("https://[", ""), (".", ""),
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
        ("//www.example.com/a", "example.com"),
        ("HTTPS://example.com?q=x", "example.com"),
        # Without a scheme, or with half of one.
        ("www.google.com", "google.com"),
        ("google.com/search?q=x", "google.com"),
        ("shop.example:8080/x#y", "shop.example"),
        ("example.com.", "example.com"),
        ("http:/www.example.com/a", "example.com"),
        ("пример.рф/a", "пример.рф"),
        ("com.slack", "com.slack"),
        ("1.2.3", None),
        ("192.0.2.1", None),
        ("Mozilla/5.0", None),
        ("info@example.com", None),
        ("localhost", None),
        # No addresses of sites or apps.
        ("chrome-extension://efaidnbmnnnibpcajpcglclefindmkaj/", None),
        ("moz-extension://2f5b1a7c/", None),
        ("file://server/page.html", None),
        ("tg://resolve?domain=x", None),
        ("ios-app://544007664/", None),
        ("https://www.google.com, https://example.org", None),
        ("https://www.google.com%00/", None),
        ("https://exa mple.com/", None),
        ("http://https://www.google.com/", None),
        ("https://./", None),
        # International names, as they are written.
        ("https://m%C3%BCnchen.example/", "m%c3%bcnchen.example"),
        (r"https://m\xC3\xBCnchen.example/", r"m\xc3\xbcnchen.example"),
        ("https://हिन्दी.example/", "हिन्दी.example"),
        ("not a url", None),
        ("", None),
    ],
)
def test_host_of_a_referrer(referrer: str, host: str | None) -> None:
    assert host_of(referrer) == host


@pytest.mark.parametrize(
    "package, category",
    [
        ("com.google.android.googlequicksearchbox", "search"), ("com.duckduckgo.mobile.android", "search"),
        ("com.google.android.gm", "mail"), ("com.microsoft.office.outlook", "mail"), ("ch.protonmail.android", "mail"),
        ("com.samsung.android.email.provider", "mail"), ("com.linkedin.android", "social"), ("com.pinterest", "social"),
        ("com.facebook.katana", "social"), ("com.facebook.orca", "social"), ("com.instagram.android", "social"),
        ("com.twitter.android", "social"), ("com.reddit.frontpage", "social"), ("org.telegram.messenger", "social"),
        ("com.whatsapp", "social"), ("com.Slack", "social"), ("com.zhiliaoapp.musically", "social"),
        ("com.snapchat.android", "social"), ("com.tencent.mm", "social"), ("com.google.android.youtube", "video"),
        ("com.openai.chatgpt", "ai"), ("com.anthropic.claude", "ai"), ("ai.perplexity.app.android", "ai"),
        ("com.google.android.apps.bard", "ai"), ("com.microsoft.copilot", "ai"), ("com.ebay.mobile", "shopping"),
        ("me.proton.android.mail", "mail"), ("com.google.android.apps.inbox", "mail"), ("com.lge.email", "mail"),
        ("com.laurencedawson.reddit_sync.pro", "social"), ("io.github.hidroh.materialistic", "social"),
        ("org.telegram.messenger.beta", "social"), ("com.ss.android.ugc.aweme", "social"),
        ("com.google.android.apps.genie.geniewidget", "search"), ("com.example.reader", ""),
    ],
)  # fmt: skip
def test_apps_are_sources(package: str, category: str) -> None:
    for path in ("", "/", "/https/www.example.com/page"):
        host = host_of(f"android-app://{package}{path}")
        assert host is not None and source_of_host(host).category == category


@pytest.mark.parametrize(
    "host, as_compared",
    [
        ("shop.example", "shop.example"),
        ("WWW.Shop.example.", "shop.example"),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("www.MÜNCHEN.example", "xn--mnchen-3ya.example"),
        ("mu\u0308nchen.example", "xn--mnchen-3ya.example"),
        ("XN--mnchen-3ya.example", "xn--mnchen-3ya.example"),
        ("m%C3%BCnchen.example", "xn--mnchen-3ya.example"),
        (r"m\xC3\xBCnchen.example", "xn--mnchen-3ya.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("пример.example", "xn--e1afmkfd.example"),
        ("例え。example", "xn--r8jz45g.example"),
        ("my_shop.example", "my_shop.example"),
        ("ü_\u2028.example", "ü_\u2028.example"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("%zz", "%zz"),
    ],
)
def test_own_hosts_are_compared_in_one_spelling(host: str, as_compared: str) -> None:
    assert comparable(host) == as_compared


def test_of_a_host_with_very_many_labels_the_last_ones_decide() -> None:
    for name in ("www.google.co.uk", "mail.yahoo.co.jp", "x.example"):
        host = "a." * 1_000 + name
        assert source_of_host(host) == (source_of_host(name) if name != "x.example" else Source(host, ""))


def test_the_list_has_a_version() -> None:
    assert len(version()) == 8


def test_each_key_of_the_own_list_has_one_line() -> None:
    keys = [key for _, _, key in rows("sources_own.tsv")]
    assert len({*keys}) == len(keys)
    assert all(key == key.lower().strip() for key in keys)

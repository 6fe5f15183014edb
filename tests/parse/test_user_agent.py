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


ON_LINUX = "Mozilla/5.0 (Linux; {}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/108.0.0.0 {}Safari/537.36"


@pytest.mark.parametrize(
    "user_agent, device",
    [
        # Apps on Android, which never have the word "Mobile".
        ("Dalvik/2.1.0 (Linux; U; Android 6.0.1; SM-G920I Build/MMB29K)", "mobile"),
        ("Opera/9.80 (Android; Opera Mini/36.2.2254/119.132; U; id) Presto/2.12.423 Version/12.16", "mobile"),
        ("Opera/9.80 (Android 2.3.3; Linux; Opera Mobi/ADR-1111101157; U; es-ES) Presto/2.9 Version/11.5", "mobile"),
        ("Instagram 219.0.0.12.117 Android (31/12; 480dpi; 1080x2251; samsung; SM-G991B; o1s; en_US)", "mobile"),
        ("com.zhiliaoapp.musically/2022600030 (Linux; U; Android 11; en_US; M2101K7AG; Build/RKQ1.200826)", "mobile"),
        ("CastBox/8.2.6-191015245 (Linux;Android 10) ExoPlayerLib/2.10.4", "mobile"),
        ("Spotify/8.6.26 Android/29 (SM-G965F)", "mobile"),
        # A browser's, cut off.
        ("Mozilla/5.0 (Linux; Android 13; SM-S911B) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1", "mobile"),
        ("Dalvik/2.1.0 (Linux; U; Android 7.0; SM-T585 Build/NRD90M)", "tablet"),
        ("Dalvik/1.6.0 (Linux; U; Android 4.4.4; T1-A21L Build/HuaweiMediaPad)", "tablet"),
        ('Dalvik/2.1.0 (Linux; U; Android 9; TAB 10" PRO Build/PPR1.180610.011)', "tablet"),
        ("Opera/9.80 (Android 3.2.1; Linux; Opera Tablet/ADR-1109081720; U; ja) Presto/2.8.149", "tablet"),
        ("Mozilla/5.0 (Android 13; Tablet; rv:109.0) Gecko/115.0 Firefox/115.0", "tablet"),
        (ON_LINUX.format("Android 10; K", ""), "tablet"),
        # An iPad that asks for pages for desktops.
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_4) AppleWebKit/605.1.15 Mobile/15E148", "tablet"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.4 Mobile/15E148 Safari/604.1", "tablet"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:109.0) Gecko/20100101 FxiOS/120.0 Safari/605.1", "tablet"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.4 Safari/605.1.15", "desktop"),
        # Televisions, consoles, headsets and watches.
        ("Mozilla/5.0 (SMART-TV; LINUX; Tizen 5.5) AppleWebKit/537.36 69.0.3497.106/5.5 TV Safari/537.36", "other"),
        ("Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 Chrome/79.0 Safari/537.36 WebAppManager", "other"),
        ("Dalvik/2.1.0 (Linux; U; Android 9; PHILIPS 4K TV Build/PTM5.200218.611) CTV", "other"),
        (ON_LINUX.format("Android 9; BRAVIA 4K UR3 Build/PTT1", ""), "other"),
        ("Mozilla/5.0 (Linux; Android 7.1.2; AFTMM) Silk/108.4.6 like Chrome/108.0 Safari/537.36", "other"),
        (ON_LINUX.format("Android 9; AFTKA Build/PS7601; wv", "Mobile "), "other"),
        ("Mozilla/5.0 (X11; Linux armv7l) Chrome/90.0.4430.225 Safari/537.36 CrKey/1.54.250320", "other"),
        ("HbbTV/1.2.1 (+DRM;Samsung;SmartTV2015;T-HKMFDEUC-1490.3;;) Maple", "other"),
        ("Roku/DVP-9.10 (519.10E04111A)", "other"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) Chrome/48.0 Safari/537.36 Edge/20.02", "other"),
        ("Mozilla/5.0 (PlayStation Vita 3.74) AppleWebKit/537.73 (KHTML, like Gecko) Silk/3.2", "other"),
        ("Mozilla/5.0 (X11; Linux x86_64; Quest 2) OculusBrowser/30.0 Chrome/118.0 VR Safari/537.36", "other"),
        ("atc/1.0 watchOS/10.1 model/Watch6,1 hwp/t8301 build/21S71", "other"),
        # Phones of old.
        ("BlackBerry9700/5.0.0.862 Profile/MIDP-2.1 Configuration/CLDC-1.1 VendorID/331", "mobile"),
        ("Mozilla/5.0 (SymbianOS/9.2; U; Series60/3.1 NokiaE51-1/200.34.36) AppleWebKit/413 Safari/413", "mobile"),
        ("Nokia6230i/2.0 (03.80) Profile/MIDP-2.0 Configuration/CLDC-1.1", "mobile"),
        ("SonyEricssonK800i/R1JG Browser/NetFront/3.3 Profile/MIDP-2.0 Configuration/CLDC-1.1", "mobile"),
        ("dv(iPh14,3);pr(UCBrowser/11.3.5.1203);ov(15_5);ss(375x667);bt(GJ);pm(0);bv(0);nm(0)", "mobile"),
        ("[FBAN/FB4A;FBAV/567.1.0.52.74;FBMF/samsung;FBDV/SM-S921B;FBSV/16;FBOP/1]", "mobile"),
        ("[FBAN/FB4A;FBAV/567.1.0.52.74;FBMF/samsung;FBDV/SM-T585;FBSV/8.1;FBOP/1]", "tablet"),
    ],
)  # fmt: skip
def test_devices(user_agent: str, device: str) -> None:
    assert describe(user_agent).device == device


@pytest.mark.parametrize(
    "user_agent, os, device",
    [
        ("Safari/14610.4.3.1.7 CFNetwork/978.5 Darwin/18.7.0 (x86_64)", "Mac OS X", "desktop"),
        ("Reeder/4020.89.01 CFNetwork/1237 Darwin/20.4.0", "iOS", "mobile"),
        ("Mozilla/5.0 (PC; OpenHarmony 5.0) Chrome/114.0 Safari/537.36 ArkWeb/4.1.6.1", "HarmonyOS", "desktop"),
        ("Mozilla/5.0 (Tablet; OpenHarmony 5.0) Chrome/114.0 Safari/537.36 ArkWeb/4.1.6.1", "HarmonyOS", "tablet"),
        ("Mozilla/5.0 (Phone; OpenHarmony 6.0; Android 10) Chrome/132.0 ArkWeb/6.0 Mobile", "HarmonyOS", "mobile"),
    ],
)  # fmt: skip
def test_systems(user_agent: str, os: str, device: str) -> None:
    agent = describe(user_agent)
    assert (agent.os, agent.device) == (os, device)


def test_only_the_beginning_of_a_user_agent_tells() -> None:
    """Each pattern would search thousands of characters, and as many of them be kept."""
    padded = CHROME.ljust(MOST_CHARACTERS - len("Googlebot/"), "x")
    assert describe(f"{padded}Googlebot/").bot == Bot("Googlebot", "search-engine", None)
    assert describe(f"{padded:x<{MOST_CHARACTERS}}Googlebot/") == Agent("Chrome", "Windows", "desktop", None)
    kept = user_agent._described.cache_info().currsize
    assert describe(f"{padded:x<{MOST_CHARACTERS}}bingbot/") == Agent("Chrome", "Windows", "desktop", None)
    assert user_agent._described.cache_info().currsize == kept

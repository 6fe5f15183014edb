"""The settings of a new demo: what its site calls its own, and the questions that its pages suggest."""

from __future__ import annotations

from tidemark.settings import Settings
from tidemark.traffic.site import CONVERTED, FUNNEL, HOST
from tidemark.traffic.stream import DEFAULT_SITE

FILE = "tidemark.toml"
CONTENT = f"""\
# Settings of the demo. Change them as you like; docs/settings.md has all of them.

# A referrer of one of these hosts is a click on the site itself.
[sites.{DEFAULT_SITE}]
hosts = ["{HOST}", "{HOST.removeprefix("www.")}"]

[goals.purchase]
path = "{CONVERTED}"
[goals.signup]
path = "/signup"
method = "POST"
[goals.download]
download = ["pdf", "zip"]
[goals.search]
search = true

[funnels.checkout]
steps = ["/products*", {", ".join(f'"{path}"' for path in FUNNEL[:-1])}, "goal:purchase"]

[segments.phones]
filter = ["device=mobile"]
[segments.newsletter]
filter = ["source=newsletter"]

# The server answers most requests with an error.
[alerts.server_errors]
metric = "share_5xx"
window = "5m"
above = 0.2
# Nothing is logged for a quarter of an hour.
[alerts.silence]
metric = "requests"
window = "5m"
below = 1
breaches = 3
of = 3
"""


def declare(settings: Settings) -> None:
    """Writes the demo's settings into a home that has neither settings nor tables."""
    file = settings.home / FILE
    if not file.exists() and not settings.tables.exists():
        file.write_text(CONTENT, encoding="utf-8")

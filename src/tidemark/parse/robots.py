"""The paths that a site's robots.txt forbids to a bot, read by the package protego (RFC 9309)."""

from __future__ import annotations

from functools import lru_cache

from protego import Protego


def forbids(robots: str, agent: str, path: str, query: str = "") -> bool:
    """Whether the text of a robots.txt forbids a path and query (empty: none) to a user agent. /robots.txt itself is
    always allowed, and so is what is no path."""
    if not path.startswith("/"):
        return False
    # With a host in front, a path that begins with // is not taken for one.
    url = f"http://site{path}" + (f"?{query}" if query else "")
    try:
        return not _rules(robots).can_fetch(url, agent)
    except ValueError:
        return False


@lru_cache(maxsize=100)
def _rules(robots: str) -> Protego:
    return Protego.parse(robots)

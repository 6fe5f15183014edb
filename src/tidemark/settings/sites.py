"""The tables `[sites.NAME]` of `tidemark.toml`: how the lines of a site are read."""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass, field
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.toml_tables import tables_of

_HOST = r"[\w-]+(?:\.[\w-]+)*|\[[0-9A-Fa-f:.]+\]"


@dataclass(frozen=True)
class SiteSettings:
    """`timezone`: that of times without a zone, such as Europe/Berlin; empty: UTC. `fields`: the names of the columns
    of W3C lines that come without. `trusted_proxies`: whose word about its client counts, in X-Forwarded-For and its
    like: `auto` (private networks, and those of CDNs), networks and names of lists (`tidemark.parse.networks`), `none`,
    or how many proxies in front of the server append the address of their client. `hosts`: the site's own hosts; a
    referrer of one of them, or of the line's own host, is internal. `robots`: the file of the site's robots.txt; a
    relative path is one of the home."""

    timezone: str = ""
    fields: str = ""
    trusted_proxies: str | int | tuple[str, ...] = field(default="auto", metadata={"also": (int, tuple)})
    hosts: tuple[str, ...] = ()
    robots: str = ""


def sites_of(tables: Any, source: str) -> dict[str, SiteSettings]:
    """The tables `[sites.NAME]` of a file. Raises SettingError."""
    sites = {
        name: SiteSettings(**values)
        for name, values in tables_of("sites", tables, SiteSettings, source).items()
    }
    for name, site in sites.items():
        try:
            zoneinfo.ZoneInfo(site.timezone or "UTC")
        except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError) as error:
            raise SettingError(
                f"{source}: there is no time zone {site.timezone!r}, of site {name}",
                "Name one such as Europe/Berlin.",
            ) from error
        if isinstance(site.trusted_proxies, int) and site.trusted_proxies < 0:
            raise SettingError(f"{source}: trusted_proxies of site {name} is negative", "Use 0 or more.")
        for host in site.hosts:
            if not re.fullmatch(_HOST, host):
                raise SettingError(
                    f"{source}: {host!r} of hosts of site {name} is no host",
                    "Name hosts such as shop.example, without https:// and port.",
                )
    return sites

"""The tables `[privacy]` and `[sites.NAME.privacy]` of `tidemark.toml`: what of a line is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.toml_tables import table_of

# From the one that keeps all to the strictest.
MODES = ("exact", "masked", "anonymous")
EXACT, MASKED, ANONYMOUS = range(3)
STRIPPED = ("token", "password", "email", "key", "sig", "auth", "code", "session")


@dataclass(frozen=True)
class SitePrivacy:
    """`mode`: one of MODES. `strip`: names of the parameters whose values are not kept where the mode is not exact.
    `respect_gpc`: requests with `Sec-GPC: 1` or `DNT: 1` are treated as anonymous where the format logs these."""

    mode: str = MODES[EXACT]
    strip: tuple[str, ...] = STRIPPED
    respect_gpc: bool = False

    @property
    def level(self) -> int:
        """The number of the mode; stricter ones are higher."""
        return MODES.index(self.mode)


@dataclass(frozen=True)
class Privacy:
    """The privacy mode of all sites, and of those with settings of their own."""

    default: SitePrivacy = SitePrivacy()
    sites: Mapping[str, SitePrivacy] = field(default_factory=dict)

    def of(self, site: str) -> SitePrivacy:
        """The privacy mode of a site."""
        return self.sites.get(site, self.default)

    @property
    def active(self) -> bool:
        """Whether lines of any site are not kept as they are."""
        return any(each.level or each.respect_gpc for each in (self.default, *self.sites.values()))

    @property
    def salted(self) -> bool:
        """Whether lines of any site may be anonymous."""
        return any(
            each.level == ANONYMOUS or each.respect_gpc for each in (self.default, *self.sites.values())
        )


def privacy_of(default: Any, sites: Any, source: str) -> Privacy:
    """The table `[privacy]` of a file, and by site the tables `[sites.NAME.privacy]`, which take what they do not say
    from it. Raises SettingError."""
    common = table_of("privacy", default, SitePrivacy, source)
    own = {
        name: table_of(f"sites.{name}.privacy", values, SitePrivacy, source) for name, values in sites.items()
    }
    privacy = Privacy(
        SitePrivacy(**common), {name: SitePrivacy(**{**common, **values}) for name, values in own.items()}
    )
    for each in (privacy.default, *privacy.sites.values()):
        if each.mode not in MODES:
            raise SettingError(
                f"{source}: the privacy mode must be {', '.join(MODES)}, not {each.mode!r}", "Correct it."
            )
        for name in each.strip:
            if not re.fullmatch(r"[^\s=&;#?]+", name):
                raise SettingError(
                    f"{source}: {name!r} of strip is no name of a parameter", "Name one such as token."
                )
    return privacy


def modes_as_json(privacy: Privacy) -> str:
    """By site, the modes; "" for all sites that have none of their own."""
    return json.dumps({"": privacy.default.mode, **{name: each.mode for name, each in privacy.sites.items()}})


def without_privacy(sites: Any) -> tuple[Any, dict[str, Any]]:
    """The tables `[sites.NAME]` of a file without `privacy`, and the values of `privacy` by site."""
    if not isinstance(sites, dict):
        return sites, {}
    of_sites = {name: site for name, site in sites.items() if isinstance(site, dict)}
    plain = {name: {k: v for k, v in site.items() if k != "privacy"} for name, site in of_sites.items()}
    return {**sites, **plain}, {n: site["privacy"] for n, site in of_sites.items() if "privacy" in site}


def described(privacy: Privacy) -> dict[str, str]:
    """The settings that differ from the defaults, as text by name."""
    tables = {"privacy": privacy.default, **{f"privacy[{n}]": each for n, each in privacy.sites.items()}}
    usual = asdict(SitePrivacy())
    return {
        f"{table}.{name}": ", ".join(value) if isinstance(value, tuple) else str(value)
        for table, each in tables.items()
        for name, value in asdict(each).items()
        if value != usual[name] or (table != "privacy" and name == "mode")
    }

"""Texts that the HTML and the plain text of a report share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from tidemark.figures.comparison import Change
from tidemark.figures.digest import Digest, Figure, Row
from tidemark.figures.explain import MISSING
from tidemark.figures.text import shown

REPEATED = "This report may have reached you before: Tidemark stopped while it was being sent."
EMPTY = "No request arrived in this period."
_LONGEST = 60
# Parts of official names that are left out, unless two names differ only by them.
_OFFICIAL = re.compile(r"(?<!^Korea)(?<!^Congo)(?:,.*| \(.*| of (?:America|Great Britain).*)$")


@dataclass(frozen=True)
class Links:
    """Addresses within the dashboard at `base`; all empty without one."""

    base: str
    digest: Digest

    def to(self, page: str = "", *filters: str) -> str:
        if not self.base:
            return ""
        period = self.digest.period
        parameters = {
            "site": self.digest.site or "All sites",
            "range": "custom",
            "times": "UTC",
            "from": f"{period.start:%Y-%m-%dT%H:%M}",
            "until": f"{period.end:%Y-%m-%dT%H:%M}",
            "filter": dict.fromkeys((*self.digest.filters, *filters)),
        }
        return f"{self.base.rstrip('/')}/{page}?{urlencode(parameters, doseq=True)}"


def title(digest: Digest) -> str:
    """Such as: shop: 16 to 22 November 2026."""
    return f"{shown(digest.site) or 'All sites'}: {digest.period}"


def compared(digest: Digest) -> str:
    """The period that changes refer to."""
    every = digest.period.every
    if digest.compared is None:
        return f"There is no complete {every} before to compare with."
    return f"Changes are from the {every} before, {digest.compared}."


def about(digest: Digest) -> list[str]:
    """Small print."""
    filters = [f"Only requests with {' and '.join(map(shown, digest.filters))}."] if digest.filters else []
    zone = f"Days begin at midnight, {digest.period.zone}."
    newest = [] if digest.newest is None else [f"Newest line: {stamp(digest.newest, digest.period.zone)}."]
    return [*filters, zone, *newest]


def value(figure: Figure) -> str:
    """A figure as text."""
    now = figure.change.now
    if now is None:
        return "–"
    if figure.kind == "share":
        return f"{now:.1%}"
    if figure.kind == "seconds":
        return f"{now * 1000:,.0f} ms" if now < 10 else f"{now:,.1f} s"
    return f"{now:,.0f}"


def change(change_of: Change, kind: str = "count") -> str:
    """A change as text: of a share in points, of other figures in percent; empty without one."""
    if kind == "share":
        if change_of.now is None or change_of.before is None:
            return ""
        return f"{100 * (change_of.now - change_of.before):+.1f} points"
    return change_of.short


def label(heading: str, row: Row) -> str:
    """The label of a list's row."""
    text = country(row.label) if heading == "Countries" else shown(row.label).strip()
    return clipped_label(f"{text} (no path)" if heading == "Errors" and " " not in text else text)


def moved(row: Any) -> tuple[str, str]:
    """The value of a row of an explanation, and its change."""
    text = country(row.value) if row.dimension == "country" else shown(row.value)
    named = clipped_label(text or MISSING[row.dimension])
    return f"{row.dimension} {named}", f"{row.before:,.0f} → {row.now:,.0f} ({row.change:+,.0f})"


def alert(row: Any, zone: str) -> str:
    """An alert in a sentence."""
    fires = row.ended_at is None or row.ended_at != row.ended_at
    ended = "it still fires" if fires else f"until {stamp(row.ended_at, zone)}"
    when = f"from {stamp(row.window_start, zone)}, {ended}"
    of = f"{shown(row.rule)} on {shown(row.site)}"
    return f"{of}, {when}: {shown(row.about)}. Value {row.value:.4g}, bound {row.bound:.4g}."


def note(row: Any, zone: str) -> str:
    return f"{stamp(row.time, zone)}: {clipped_label(shown(row.text), 300)}"


def stamp(time: datetime, zone: str) -> str:
    local = time.astimezone(ZoneInfo(zone))
    return f"{local:%a} {local.day} {local:%b %H:%M}"


def country(code: str) -> str:
    """The short English name of a country."""
    import iso3166

    entry = iso3166.countries_by_alpha2.get(code)
    return (
        "Unknown" if code in ("", "ZZ") else shown(code) if entry is None else _OFFICIAL.sub("", entry.name)
    )


def clipped_label(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

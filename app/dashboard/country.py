"""Names and numeric codes of countries from their ISO 3166-1 alpha-2 codes."""

from __future__ import annotations

from functools import cache

UNKNOWN = "Unknown"
# The ISO names in everyday form where the official one would not fit a chart.
SHORT = {
    "BO": "Bolivia", "CD": "DR Congo", "FK": "Falkland Islands", "FM": "Micronesia", "GB": "United Kingdom",
    "IR": "Iran", "KP": "North Korea", "KR": "South Korea", "LA": "Laos", "MD": "Moldova",
    "NL": "Netherlands", "PS": "Palestine", "RU": "Russia", "SY": "Syria", "TW": "Taiwan",
    "TZ": "Tanzania", "US": "United States",
    "VE": "Venezuela", "VN": "Vietnam", "TR": "Türkiye", "CZ": "Czechia", "BN": "Brunei", "XK": "Kosovo",
}  # fmt: skip


@cache
def name(code: str | None) -> str:
    """A country's short English name; "Unknown" for ZZ or no code, the code itself where ISO has none."""
    import iso3166

    if not code or code == "ZZ":
        return UNKNOWN
    if code in SHORT:
        return SHORT[code]
    entry = iso3166.countries_by_alpha2.get(code)
    return code if entry is None else str(entry.name)


@cache
def numeric(code: str | None) -> int | None:
    """The ISO 3166-1 numeric code, by which the map knows a country; None where there is none."""
    import iso3166

    entry = iso3166.countries_by_alpha2.get(code or "")
    return None if entry is None else int(entry.numeric)

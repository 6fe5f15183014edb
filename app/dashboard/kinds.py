"""Names of kinds of bots and of networks for people."""

from __future__ import annotations

_ABBREVIATIONS = {"Ai ": "AI ", "Seo": "SEO", "Http": "HTTP", "Cdn": "CDN"}


def kind_name(kind: str) -> str:
    """A kind such as `ai-crawler` as `AI crawler`; empty for none."""
    name = kind.replace("-", " ").capitalize()
    for wrong, right in _ABBREVIATIONS.items():
        name = name.replace(wrong, right)
    return name

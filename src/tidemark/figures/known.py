"""Figures that need to know people again, which a privacy mode with other visitor ids every day makes unknown."""

from __future__ import annotations

import json
from contextlib import suppress

from tidemark.figures.reader import MissingTableError, Reader, ReadError

# The table whose properties name the modes: by site, "" for all others.
_TABLE, _PROPERTY = "gold/visitor_hours", "privacy_modes"
_ANONYMOUS = "anonymous"


class NotKnownError(ReadError):
    """A figure is not known in the site's privacy mode."""


def require_known(reader: Reader, site: str | None, what: str) -> None:
    """Raises NotKnownError if visitors of the site (None: of any site) are known for a day only; `what` begins the
    message."""
    modes: dict[str, str] = {}
    with suppress(MissingTableError):
        modes = json.loads(reader.contract(_TABLE).properties.get(_PROPERTY) or "{}")
    anonymous = (
        modes.get(site, modes.get("")) if site else next((m for m in modes.values() if m == _ANONYMOUS), "")
    )
    if anonymous == _ANONYMOUS:
        raise NotKnownError(
            f"{what} not known in this mode: with privacy mode {_ANONYMOUS}, visitors are known for a day only",
            "Choose a range of one day, or another mode for new lines: docs/privacy.md.",
        )

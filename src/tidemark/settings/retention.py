"""The table `[retention]` of `tidemark.toml`: how long lines, requests and figures are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.toml_tables import MOST_SECONDS, table_of

_FOREVER = "forever"
_AGE = re.compile(r"(\d{1,6}(?:\.\d+)?)([hdwy])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1), "y": timedelta(days=365)}


@dataclass(frozen=True)
class RetentionSettings:
    """Ages such as 30d, or forever, by event time. `lines`: bronze, rejected lines and the topic; `requests`:
    silver.requests and what shows single visitors or sessions; `figures`: gold."""

    lines: str = _FOREVER
    requests: str = _FOREVER
    figures: str = _FOREVER

    def age(self, what: str) -> timedelta | None:
        """The age at which rows are deleted; None for never."""
        text: str = getattr(self, what)
        match = _AGE.fullmatch(text)
        return float(match[1]) * _UNITS[match[2]] if match else None

    @property
    def limited(self) -> bool:
        """Whether anything is deleted."""
        return any(self.age(what) for what in ("lines", "requests", "figures"))


def retention_of(table: Any, source: str) -> RetentionSettings:
    """The table of a file. Raises SettingError."""
    values = table_of("retention", table, RetentionSettings, source)
    for name, text in values.items():
        if text != _FOREVER and not (_AGE.fullmatch(text) and float(text[:-1])):
            raise SettingError(
                f"{source}: {name} of retention must be an age such as 30d, or forever, not {text!r}",
                "Units are h, d, w and y.",
            )
    retention = RetentionSettings(**values)
    for name in values:
        if (age := retention.age(name)) and age.total_seconds() > MOST_SECONDS:
            raise SettingError(
                f"{source}: {name} of retention is more than a hundred years", "Write forever."
            )
    return retention

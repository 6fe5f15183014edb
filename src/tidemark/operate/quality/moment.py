"""The moment between two micro-batches at which a quality run reads all tables, so that their counts agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Moment:
    """A moment: its time, the seconds of a clock that is never set, which all processes share, and the tables'
    versions."""

    time: datetime
    seconds: float
    versions: Mapping[str, int]

"""The moment between two micro-batches at which a quality run reads all tables, so that their counts agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime


@dataclass(frozen=True)
class Moment:
    """A moment: its time, the seconds of a clock that is never set, which all processes share, and the tables'
    versions."""

    time: datetime
    seconds: float
    versions: Mapping[str, int]

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "time": self.time.isoformat()})

    @classmethod
    def from_json(cls, text: str) -> Moment:
        found = json.loads(text)
        return cls(**{**found, "time": datetime.fromisoformat(found["time"])})

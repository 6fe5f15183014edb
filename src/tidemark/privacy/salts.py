"""The salts of anonymous visitors: one for each UTC day of event time, destroyed some time after it was made.

The file in the home has them with the time at which they were made, and the days whose salt was destroyed, so that
lines of such a day are known to count their visitors anew.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark.errors import PlatformError
from tidemark.local.locks import locked
from tidemark.local.records import read_record, replace_text
from tidemark.settings import Settings

LIFETIME = timedelta(hours=48)
_FILE = "salts.json"
_SALTS, _GONE, _ANEW = "salts", "gone", "anew"


@dataclass(frozen=True)
class Salts:
    """The salts in a file that only its owner can read."""

    path: Path

    @classmethod
    def of(cls, settings: Settings) -> Salts:
        """Those of a home."""
        return cls(settings.home / _FILE)

    def for_days(self, days: Iterable[date]) -> dict[date, bytes]:
        """The salts of days, made if they do not exist. Raises PlatformError if they cannot be kept."""
        wanted = set(days)
        known = _fresh(read_record(self.path))[_SALTS]
        if not wanted <= {date.fromisoformat(day) for day in known}:
            known = self._renewed(wanted)[_SALTS]
        return {day: bytes.fromhex(known[day.isoformat()]["salt"]) for day in wanted}

    def expire(self) -> None:
        """Destroys the salts whose time is over. Raises PlatformError."""
        if self.path.exists():
            self._renewed(())

    def counted_anew(self) -> dict[date, datetime]:
        """The days that got a salt after theirs was destroyed, with the time at which they got it."""
        found = read_record(self.path).get(_ANEW, {})
        return {date.fromisoformat(day): datetime.fromisoformat(at) for day, at in found.items()}

    def _renewed(self, wanted: Iterable[date]) -> dict[str, Any]:
        """The record without salts whose time is over, and with those of the wanted days."""
        try:
            with locked(self.path.with_name(f".{_FILE}.lock")):
                before = read_record(self.path)
                record = _fresh(before)
                now = datetime.now(UTC).isoformat()
                for day in sorted(each.isoformat() for each in wanted):
                    if day not in record[_SALTS]:
                        record[_SALTS][day] = {"salt": secrets.token_hex(32), "made": now}
                        if day in record[_GONE]:
                            record[_ANEW][day] = now
                if record != before:
                    replace_text(self.path, json.dumps(record), 0o600)
        except OSError as error:
            raise PlatformError(
                f"cannot keep the salts of visitors at {self.path}: {error.strerror}",
                "Make the home writable for the pipeline and its workers.",
            ) from error
        return record


def _fresh(record: dict[str, Any]) -> dict[str, Any]:
    """A record in which salts whose time is over are gone."""
    ended = (datetime.now(UTC) - LIFETIME).isoformat()
    salts = record.get(_SALTS, {})
    kept = {day: each for day, each in salts.items() if each["made"] > ended}
    gone = sorted({*record.get(_GONE, []), *(salts.keys() - kept.keys())})
    return {_SALTS: kept, _GONE: gone, _ANEW: dict(record.get(_ANEW, {}))}

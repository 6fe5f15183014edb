"""The salts of anonymous visitors: one for each UTC day of event time, destroyed some time after it was made.

The file in the home has them with the time at which they were made, and the days whose salt was destroyed, so that
lines of such a day are known to count their visitors anew. It is the only place of a salt: executors read it where they
need one. Its mark, which is no secret, tells them that they have the driver's file and not another one at its path.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from tidemark.errors import PlatformError, SettingError, unwritable
from tidemark.local.locks import locked
from tidemark.local.records import read_record, replace_text
from tidemark.settings import Settings

LIFETIME = timedelta(hours=48)
_FILE = "salts.json"
_SALTS, _GONE, _RECOUNTED, _MARK = "salts", "gone", "anew", "mark"


@dataclass(frozen=True)
class Salts:
    """The salts in a file that only its owner can read. With a `mark`, no file with another one is used."""

    path: Path
    mark: str = ""

    @classmethod
    def of(cls, settings: Settings) -> Salts:
        """Those of a home."""
        return cls(settings.home / _FILE)

    def marked(self) -> Salts:
        """The same with the mark of the file, which gets one if it has none. Raises PlatformError."""
        return replace(self, mark=self._renewed((), marked=True)[_MARK])

    def for_days(self, days: Iterable[date]) -> dict[date, bytes]:
        """The salts of days, made if they do not exist. Raises PlatformError if they cannot be kept, and for a file
        with another mark."""
        wanted = set(days)
        known = _fresh(self._record())[_SALTS]
        if not wanted <= {date.fromisoformat(day) for day in known}:
            known = self._renewed(wanted)[_SALTS]
        return {day: bytes.fromhex(known[day.isoformat()]["salt"]) for day in wanted}

    def expire(self) -> None:
        """Destroys the salts whose time is over. Raises PlatformError."""
        if self.path.exists():
            self._renewed(())

    def recounted_days(self) -> dict[date, datetime]:
        """The days that got a salt after theirs was destroyed, with the time at which they got it."""
        recounted = read_record(self.path).get(_RECOUNTED, {})
        return {date.fromisoformat(day): datetime.fromisoformat(at) for day, at in recounted.items()}

    def _record(self) -> dict[str, Any]:
        record = read_record(self.path)
        if self.mark and record.get(_MARK) != self.mark:
            raise PlatformError(
                f"{self.path} is not the file with the salts of the pipeline",
                "Put the home on a file system that the driver and all executors share, or use the mode masked.",
            )
        return record

    def _renewed(self, wanted: Iterable[date], *, marked: bool = False) -> dict[str, Any]:
        """The record without salts whose time is over, and with those of the wanted days."""
        try:
            with locked(self.path.with_name(f".{_FILE}.lock")):
                before = self._record()
                record = _fresh(before)
                if marked:
                    record.setdefault(_MARK, secrets.token_hex(8))
                now = datetime.now(UTC).isoformat()
                for day in sorted(each.isoformat() for each in wanted):
                    if day not in record[_SALTS]:
                        record[_SALTS][day] = {"salt": secrets.token_hex(32), "made": now}
                        if day in record[_GONE]:
                            record[_RECOUNTED][day] = now
                if record != before:
                    replace_text(self.path, json.dumps(record), 0o600)
        except OSError as error:
            raise unwritable(
                f"cannot keep the salts of visitors at {self.path}",
                error,
                "Make the home writable for the pipeline and its workers.",
            ) from error
        return record


def _fresh(record: dict[str, Any]) -> dict[str, Any]:
    """A record in which salts whose time is over are gone."""
    ended = (datetime.now(UTC) - LIFETIME).isoformat()
    salts = record.get(_SALTS, {})
    kept = {day: each for day, each in salts.items() if each["made"] > ended}
    gone = sorted({*record.get(_GONE, []), *(salts.keys() - kept.keys())})
    mark = {_MARK: record[_MARK]} if _MARK in record else {}
    return {_SALTS: kept, _GONE: gone, _RECOUNTED: dict(record.get(_RECOUNTED, {})), **mark}


def require_lasting_home(settings: Settings) -> None:
    """Raises SettingError if lines may be anonymous and the home, which has their salts, ends with a job's cluster."""
    if settings.privacy.salted and settings.lakehouse.catalog:
        raise SettingError(
            "anonymous lines need a home that keeps their salts for 48 hours, and that of a catalog's jobs does not",
            "Use the mode masked there, without respect_gpc.",
        )

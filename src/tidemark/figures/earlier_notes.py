"""Notes of versions before quality.notes had columns for what they are about: these columns, read from the sentences.

The table keeps NULL there. Such a home can be read before a pipeline of this version has run, or where it cannot be
written, so readers take the columns from here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tidemark.figures.notes import About, State

_SITES = r"(?i:own hosts|trusted proxies|robots\.txt)(?: and (?:own hosts|trusted proxies|robots\.txt))* of [^:]*: "
_CHANGES = r"; (?P<changes>sites\..*)"
_CHANGE = re.compile(r"(sites\..+?\.(?:hosts|trusted_proxies|robots)) was (.*?), now (.*?)(?=; |$)")
# Sentences whose columns are needed: subject, state, and a pattern whose groups are further columns.
_SENTENCES: tuple[tuple[str, str | None, str], ...] = (
    (About.TABLES, State.APPLIED, r"Rebuilt: (?P<name>[^;]*).*"),
    (About.SITES, State.WAITING, rf"{_SITES}…{_CHANGES}"),
    (About.SITES, State.NOT_APPLIED, rf"{_SITES}not applied to history, because (?P<details>.*?){_CHANGES}"),
    (About.SITES, State.APPLIED, rf"{_SITES}(?!…|not applied to history,).*"),
    (About.GOAL, State.COUNTING, r"Goal (?P<name>.*?)(?: is new)?: (?:(?P<number>[\d,]+) → )?… conversions"),
    (About.RULES, None, r"(?:.*; )?Lines are read with (?P<now>.*), before with (?P<was>.*)"),
    (About.LINES, None, r"Lines of (?P<was>\S+) to (?P<now>\S+) were imported"),
    (About.DAY, None, r"Lines of (?P<name>\S+) came after its salt was destroyed: .*"),
)


def with_columns(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of quality.notes with the columns that its version lacks, as far as its sentence has them."""
    own = row["cause"] != "hand" and not isinstance(row.get("about"), str)
    return {**row, **(_columns_of(row["text"]) if own else {})}


def _columns_of(text: str) -> dict[str, str | None]:
    for subject, state, pattern in _SENTENCES:
        if match := re.fullmatch(pattern, text, re.DOTALL):
            columns = match.groupdict()
            name, number, changes = (columns.pop(each, None) for each in ("name", "number", "changes"))
            if number:
                columns["was"] = number.replace(",", "")
            if changes:
                columns |= _settings(changes)
            return {"about": f"{subject} {name}" if name else subject, "state": state, **columns}
    return {}


def _settings(changes: str) -> dict[str, str]:
    was, now = ({name: _value(both[i]) for name, *both in _CHANGE.findall(changes)} for i in range(2))
    return {"was": json.dumps(was), "now": json.dumps(now)}


def _value(shown: str) -> str:
    return "" if shown == "unset" else shown

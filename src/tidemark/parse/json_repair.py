"""JSON as servers and templates write it, in the form that parsers read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidemark.engine.arrays import Flags, changed, flags_at, matches
from tidemark.parse.text import decoded, escaped_controls, has_pair

# Escapes that JSON does not have: servers write bytes so whose `escape=json` is off.
_HEX = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\x[0-9A-Fa-f]{2})+)")
# Escapes of printable ASCII. JSON does not need them, and the search for names does not decode them. <, > and & do not
# start a repair, because Go escapes them in every line.
_ESCAPED = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u00(2[013-9a-fA-F]|[346][0-9a-fA-F]|5[0-9abABd-fD-F]|7[0-9a-eA-E])"
)
_MAY_BE_ESCAPED = r"\\u00(?:2[013-57-9a-fA-F]|3[0-9abdfABDF]|[4-7])"
# A status that is null means that there was none, like a dash in other formats.
_STATUS = r'[sS]tatus(?:[_-]?[cC]ode)?"\s*:\s*'
_NULL_STATUS = re.compile(rf'("(?:[\w.-]*[rR]esponse[_.-]?|https?[_.-]?|sc-|Downstream)?{_STATUS})null\b')
# A log format that is a template for JSON writes `"a":-` or `"a":,` for a missing value, `"a":1, 2` for several
# values, and sometimes a comma before the closing brace. None of these is JSON.
_MAY_BE_UNFINISHED = r":\s*(?:-?\s*[,}]|[\d.]+\s*[,:]\s*[\d.-])|,\s*}"
# These faults. The pattern also matches strings, to skip them. It does not backtrack: anybody can send a long line.
_FAULT = re.compile(
    r'"(?:[^"\\]|\\.)*+"?|(?P<lacks>:\s*+(?:-\s*+)?(?=[,}]))|(?P<comma>,\s*+(?=}))'
    r"|:\s*+(?P<list>[\d.]++(?:\s*+[,:]\s*+(?:[\d.]++|-))++)(?=\s*+[,}])"
)


def repaired(text: pa.Array) -> pa.Array:
    r"""The lines with `\xHH`, which is no JSON, in a form that is: UTF-8 as text, other bytes as written; without
    needless escapes; and with a dash for a status that is null."""
    text = _changed(text, has_pair(text, b"\\x"), _HEX, _from_hex)
    text = _changed(text, _matching(text, (_MAY_BE_ESCAPED,)), _ESCAPED, _from_escape)
    null = _matching(text, ("null", rf"{_STATUS}null\b", _NULL_STATUS.pattern))
    return _changed(text, null, _NULL_STATUS, r'\1"-"')


def _changed(
    text: pa.Array, flagged: Flags, pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str]
) -> pa.Array:
    """The lines with what the pattern finds in the flagged ones replaced."""

    def repaired(some: pa.Array) -> pa.Array:
        return pa.array([pattern.sub(new, line) for line in some.to_pylist()], pa.string())

    return changed(text, flagged, repaired)


def _matching(text: pa.Array, patterns: Sequence[str]) -> Flags:
    """The lines that match all patterns, the cheapest first."""
    rows = np.arange(len(text))
    for pattern in patterns:
        if len(rows):
            rows = rows[matches(text.take(pa.array(rows)), pattern)]
    return flags_at(rows, len(text))


def finished(text: pa.Array) -> pa.Array:
    """The lines, which are not all JSON, without what a template leaves unfinished; the same array if there is none."""
    return _changed(text, _matching(text, (_MAY_BE_UNFINISHED,)), _FAULT, _without_fault)


def _without_fault(fault: re.Match[str]) -> str:
    if fault["lacks"]:
        return ": null"
    if fault["list"]:
        return f': "{fault["list"]}"'
    return "" if fault["comma"] else fault[0]


def _from_escape(match: re.Match[str]) -> str:
    return match[1] + chr(int(match[2], 16))


def _from_hex(match: re.Match[str]) -> str:
    shown = decoded(bytes.fromhex(match[2].replace("\\x", "")))
    return match[1] + json.dumps(escaped_controls(shown), ensure_ascii=False)[1:-1]

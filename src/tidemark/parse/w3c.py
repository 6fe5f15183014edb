"""Formats of the W3C's extended log file format: the columns are named by a header, which comes with every line.

A header may end with the day of the lines, `date=2026-11-21`, if their columns have only the time of day.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, flags_of, matches, where
from tidemark.parse import templates
from tidemark.parse.format import Format
from tidemark.parse.text import Lines, replaced, squeezed
from tidemark.parse.values import Read, columns_of, each_distinct
from tidemark.parse.writing import Template

# The columns of a log for each text that `tidemark.parse.values.columns_of` takes, the preferred one first, as
# `column_name` writes their names.
_COLUMNS = {
    "client_ip": ("c-ip", "client-ip", "c-address", "cs-ip"),
    "remote_user": ("cs-username", "c-username"),
    "date": ("date", "date-local", "date-utc"),
    "clock": ("time", "time-local", "time-utc"),
    "timestamp": ("x-timestamp", "timestamp", "gmttime", "localtime"),
    "method": ("cs-method", "method"),
    "target": ("cs-uri-stem", "cs-uri", "cs-url", "cs-uri-path"),
    "query": ("cs-uri-query",),
    "protocol": ("cs-version", "cs-protocol-version"),
    "status": ("sc-status", "c-status", "status"),
    "bytes": ("sc-bytes", "bytes", "bytessent"),
    "referrer": ("cs-referer", "cs-referrer"),
    "user_agent": ("cs-user-agent", "c-user-agent", "user-agent"),
    "host": ("x-host-header", "cs-host", "cs-uri-host"),
    "edge_country": ("c-country",),
    "forwarded": ("x-forwarded-for", "cs-x-forwarded-for"),
    "taken": ("time-taken", "x-time-taken", "x-duration"),
    "duration_ms": ("timetakenms", "time-taken-ms"),
    "duration_us": ("time-taken-us",),
}
_REQUIRED = ("time", "target", "status")
DAY = "date="
_LINE = r"^\d{4}-\d\d-\d\d[ \t]\d\d:\d\d:\d\d(?:\.\d+)?[ \t]"
_CLOCK = r"^\d\d:\d\d:\d\d(?:\.\d+)?[ \t]"
# The columns that IIS writes by default, and those of Azure's App Service, for lines without a header. More columns may
# follow.
_DEFAULTS = (
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status"
    " sc-substatus sc-win32-status time-taken",
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-substatus"
    " sc-win32-status time-taken",
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-substatus"
    " sc-win32-status",
    "date time s-sitename cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Cookie)"
    " cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken",
    "date time s-sitename s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status"
    " sc-substatus sc-win32-status",
    "date time s-sitename s-computername s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs-version"
    " cs(User-Agent) cs(Cookie) cs(Referer) cs-host sc-status sc-substatus sc-win32-status sc-bytes cs-bytes"
    " time-taken",
)
_ADDRESS = r"(?:[0-9A-Fa-f:.%]*[.:][0-9A-Fa-f:.%]*|-)"
_VALUES = {
    "s-ip": _ADDRESS,
    "c-ip": _ADDRESS,
    "cs-method": "(?:[A-Z]+|-)",
    "sc-status": r"\d{3}",
} | dict.fromkeys(("s-port", "sc-substatus", "sc-win32-status", "sc-bytes", "cs-bytes", "time-taken"), r"\d+")
# The columns that servers also write with blanks inside, which other columns then only allow in some of them. A dash is
# a value of its own rather than the last word of one.
_WORDS = "(?:-|(?:[^ ]+ )*?(?:[^ -]|[^ ]{2,}))"
_SPACED = {
    "cs-uri-stem": "[^ ]+(?: [^ ]+)*?",
    "cs-uri-query": _WORDS,
    "cs-username": _WORDS,
    "cs-referer": "(?:[^ ]+|[a-z-]+://[^ ]+(?: [^ ]+)*?)",
}
# A query begins rather with the name of a parameter than with a word of the path.
_QUERIES = ("(?:-|[^ ]*=[^ ]*(?: [^ ]+)*?)", _WORDS)
_ENCODED = re.compile("%(?:25)?[0-9A-Fa-f]{2}")
_HIDDEN_SPACE = "\x03"


@dataclass(frozen=True)
class W3c(Format):
    """A format of this family. `header` is a regular expression for the names of its columns; `fields` are those of the
    examples; `taken` is the unit of `time-taken`, as `tidemark.parse.values.columns_of` names durations."""

    header: str
    fields: str
    taken: str

    def may_be(self, text: pa.Array) -> Flags:
        return np.ones(len(text), bool)

    def with_header(self, lines: Lines) -> Flags:
        """Which lines have a header of this format."""
        if lines.header.null_count == len(lines.header):
            return np.zeros(len(lines.header), bool)
        return matches(lines.header, f"(?i){self.header}")

    def read(self, lines: Lines) -> Read:
        result = Read.nothing(len(lines.sound))
        for rows, names, day, some in _by_header(lines, lines.sound):
            parts, sound = _split(some, names)
            texts = dict(_texts(parts, [column_name(name) for name in names], day))
            if "taken" in texts:
                texts.setdefault(self.taken, texts["taken"])
            sound &= all(name in texts for name in _REQUIRED)
            if sound.any():
                sound &= _timed(texts)
            result = result.replaced(rows, columns_of(texts, sound))
        return result

    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        reached, lacking = np.zeros(len(lines.sound), np.int64), np.full(len(lines.sound), "", object)
        for rows, names, day, some in _by_header(lines, self.with_header(lines)):
            parts, whole = _split(some, names)
            texts = _texts(parts, [column_name(each) for each in names], day)
            # A line that has them all lacks a time or a status.
            absent = [name for name in _REQUIRED if name not in texts] or ["status"]
            similar = matches(some.text, _CLOCK if day else _LINE)
            reached[rows] = np.where(similar, np.minimum(parts.count, len(names)), 0)
            after = np.array([*names, ""], object)[reached[rows]]
            lacking[rows] = np.where(whole, absent[0], after)
        return reached, lacking

    def template(self, columns: Collection[str]) -> Template:
        return templates.of_header(
            [column_name(name) for name in self.fields.split()], _COLUMNS, self.examples[0], self.taken
        )

    @property
    def column_names(self) -> str:
        return self.fields


def _by_header(lines: Lines, which: Flags) -> Iterator[tuple[np.ndarray, list[str], str, Lines]]:
    """The flagged lines with each header: their numbers, the names of their columns, their day and themselves."""
    for header in pc.unique(lines.header.filter(pa.array(which)).drop_null()).to_pylist():
        rows = np.flatnonzero(which & flags_of(pc.equal(lines.header, header)))
        yield rows, *columns_of_header(header), lines.take(rows)


def column_name(name: str) -> str:
    """The name of a column in one spelling of several: `cs(User-Agent)` and `cs_user_agent` are `cs-user-agent`."""
    return name.lower().replace("(", "-").replace(")", "").replace("_", "-")


def columns_of_header(header: str) -> tuple[list[str], str]:
    """The names of the columns, and the day of the lines, empty if the header has none."""
    words = header.split()
    if words and words[-1].startswith(DAY):
        return words[:-1], words[-1].removeprefix(DAY)
    return words, ""


def header_of(header: str) -> str:
    """The header, without the day unless its columns have only the time of day."""
    names, day = columns_of_header(header)
    columns = set(map(column_name, names))
    needed = day and not columns.isdisjoint(_COLUMNS["clock"]) and columns.isdisjoint(_COLUMNS["date"])
    return " ".join([*names, DAY + day] if needed else names)


def _timed(texts: Mapping[str, pa.Array]) -> Flags:
    """Whether lines have a time and a status: other lines can have as many words as there are columns."""
    time = matches(texts["time"], r"\d\d:\d\d|^\d{9}")
    return time & matches(texts["status"], r"^(?:\d{3}|-)$")


def with_default_header(lines: Lines, unread: Flags) -> Lines:
    """The lines with the columns that IIS writes by default, for those without a header that are not read yet and have
    these columns."""
    header = lines.header
    unread = unread & ~lines.tabbed & flags_of(pc.is_null(header))
    if not unread.any():
        return lines
    dated = matches(where(unread, lines.text, None), _LINE)
    if not dated.any():
        return lines
    text = where(dated, lines.text, None)
    for names in _DEFAULTS:
        begun = matches(text, _beginning(names.split()))
        rows = flags_of(pc.is_null(header)) & begun
        if rows.any():
            header = pc.replace_with_mask(header, pa.array(rows), names)
    return replace(lines, header=header)


def lacks_header(lines: Lines) -> Flags:
    """Whether lines look like ones of such a log, but have no header."""
    return flags_of(pc.and_(pc.is_null(lines.header), pc.match_substring_regex(lines.text, _LINE)))


def _split(lines: Lines, names: Sequence[str]) -> tuple[Parts, Flags]:
    """The columns of lines, and whether there are as many as names, or more behind IIS's defaults."""
    # A line has tabs between all of its columns, or some in place of spaces.
    tabs = pc.count_substring(lines.text, "\t").to_numpy(zero_copy_only=False)
    tabbed = lines.tabbed & (tabs == len(names) - 1)
    spaced = replaced(lines.text, lines.tabbed & ~tabbed, ("\t", " "))
    text = where(tabbed, lines.text, squeezed(spaced))
    quotes = lines.parts.count > 1
    quoted = quotes & ~tabbed
    if quoted.any():  # spaces within quotes belong to the value
        odd = lines.parts.take(np.flatnonzero(quoted))
        place = np.arange(len(odd.flat)) - np.repeat(odd.start, odd.count)
        inner = where(place % 2 == 1, pc.replace_substring(odd.flat, " ", _HIDDEN_SPACE), squeezed(odd.flat))
        text = pc.replace_with_mask(text, pa.array(quoted), Parts(inner, odd.start, odd.count).joined(""))
    # Between tabs, spaces belong to the value.
    text = replaced(text, tabbed, (" ", _HIDDEN_SPACE), ("\t", " "))
    parts = Parts.of(text, " ")
    longer = (parts.count > len(names)) & ~tabbed
    more = np.zeros(len(longer), bool)
    if longer.any():
        if " ".join(names) in _DEFAULTS:  # a line without a header may have others behind these
            more = longer & matches(text, _beginning(names))
        text = _aligned(text, longer & ~more, names)
        parts = Parts.of(text, " ")
    values = pc.replace_substring(parts.flat, _HIDDEN_SPACE, " ")
    if (quotes & tabbed).any():
        values = pc.replace_substring_regex(values, r'^"(.*)"$', r"\1")
    return Parts(values, parts.start, parts.count), (parts.count == len(names)) | more


def _beginning(names: Sequence[str]) -> str:
    """A regular expression for lines that begin with these columns."""
    return _LINE + " ".join(_VALUES.get(name, r"[^ ]+") for name in names[2:]) + "(?: |$)"


def _aligned(text: pa.Array, which: Flags, names: Sequence[str]) -> pa.Array:
    """The lines with hidden spaces within their columns, where the flagged ones have as many columns then."""
    columns = [column_name(name) for name in names]
    for query in _QUERIES:
        values = _VALUES | _SPACED | {"cs-uri-query": query}
        groups = (f"(?P<c{number}>{values.get(name, '[^ ]+')})" for number, name in enumerate(columns))
        parts = pc.extract_regex(where(which, text, None), f"^{' '.join(groups)}$")
        fits = flags_of(pc.is_valid(parts))
        if fits.any():
            hidden = (pc.replace_substring(part, " ", _HIDDEN_SPACE) for part in parts.flatten())
            text = where(~fits, text, pc.binary_join_element_wise(*hidden, " "))
            which &= ~fits
    return text


def _texts(parts: Parts, names: Sequence[str], day: str) -> Mapping[str, pa.Array]:
    texts = {"date": pa.repeat(day, len(parts.count))} if day else {}
    for text, columns in _COLUMNS.items():
        there = [parts.at(names.index(column)) for column in columns if column in names]
        if there:
            texts[text] = pc.coalesce(
                *(where(~flags_of(pc.equal(each, "-")), each, None) for each in there), there[0]
            )
    if "date" in texts and "clock" in texts:
        texts["time"] = utc(texts["date"], texts["clock"])
    elif "timestamp" in texts:
        texts["time"] = texts["timestamp"]
    if "cs-uri-stem" not in names and "target" in texts:  # an address may lack its scheme
        bare = matches(texts["target"], r"^(?:[\w-]+\.)+[A-Za-z]+(?::\d+)?/")
        whole = pc.binary_join_element_wise("http:", texts["target"], "//")
        texts["target"] = where(~bare, texts["target"], whole)
    if "user_agent" in texts:
        texts["user_agent"] = each_distinct(texts["user_agent"], decoded)
    return texts


def utc(date: pa.Array, clock: pa.Array) -> pa.Array:
    """Times from their date and time of day, which are in UTC in this format."""
    return pc.binary_join_element_wise(date, clock, "Z", " ")


def decoded(agent: str) -> str:
    """A user agent as it was sent: CloudFront encodes it, in older logs twice; IIS writes + for a space."""
    if _ENCODED.search(agent):
        return unquote(agent.replace("%25", "%"))
    return agent if " " in agent else agent.replace("+", " ")

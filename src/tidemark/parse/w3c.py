"""Formats of the W3C's extended log file format: the columns are named by a header, which comes with every line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Pieces, flags_of, where
from tidemark.parse.format import Format
from tidemark.parse.text import Lines, changed, squeezed
from tidemark.parse.values import Read, columns_of, each_distinct

# The columns of a log for each text that `tidemark.parse.values.columns_of` takes, the preferred one first.
_COLUMNS = {
    "client_ip": ("c-ip",),
    "remote_user": ("cs-username",),
    "date": ("date", "date-local"),
    "clock": ("time", "time-local"),
    "timestamp": ("x-timestamp", "timestamp"),
    "method": ("cs-method",),
    "target": ("cs-uri-stem", "cs-uri"),
    "query": ("cs-uri-query",),
    "protocol": ("cs-version", "cs-protocol-version"),
    "status": ("sc-status",),
    "bytes": ("sc-bytes", "bytes"),
    "referrer": ("cs(referer)", "cs(referrer)"),
    "user_agent": ("cs(user-agent)",),
    "host": ("x-host-header", "cs-host", "cs(host)"),
    "taken": ("time-taken",),
    "edge_country": ("c-country",),
    "forwarded": ("x-forwarded-for", "cs(x-forwarded-for)"),
}
_REQUIRED = ("client_ip", "time", "method", "target", "status")
_LINE = r"^\d{4}-\d\d-\d\d[ \t]\d\d:\d\d:\d\d[ \t]"
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
        return flags_of(pc.match_substring_regex(lines.header, f"(?i){self.header}"))

    def read(self, lines: Lines) -> Read:
        found = Read.nothing(len(lines.sound))
        for header in pc.unique(lines.header.drop_null()).to_pylist():
            rows = np.flatnonzero(lines.sound & flags_of(pc.equal(lines.header, header)))
            parts, sound = _split(lines.take(rows), header.split())
            texts = dict(_texts(parts, [name.lower() for name in header.split()]))
            if "taken" in texts:
                texts[self.taken] = texts["taken"]
            sound &= all(name in texts for name in _REQUIRED)
            if sound.any():
                sound &= _addressed(texts)
            found = found.replaced(rows, columns_of(texts, sound))
        return found

    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        reached, lacking = np.zeros(len(lines.sound), np.int64), np.full(len(lines.sound), "", object)
        mine = flags_of(pc.is_valid(lines.header)) & self.with_header(lines)
        for header in pc.unique(lines.header.filter(pa.array(mine))).to_pylist():
            names = header.split()
            rows = np.flatnonzero(mine & flags_of(pc.equal(lines.header, header)))
            some = lines.take(rows)
            parts, whole = _split(some, names)
            texts = _texts(parts, [each.lower() for each in names])
            # A line that has them all lacks an address.
            absent = [name for name in _REQUIRED if name not in texts] or ["client_ip"]
            similar = flags_of(pc.match_substring_regex(some.text, _LINE))
            if "client_ip" in texts:
                similar |= _addressed(texts)
            reached[rows] = np.where(similar, np.minimum(parts.count, len(names)), 0)
            after = np.array([*names, ""], object)[reached[rows]]
            lacking[rows] = np.where(whole, absent[0], after)
        return reached, lacking


def _addressed(texts: Mapping[str, pa.Array]) -> Flags:
    """Whether lines have an address: other lines can have as many words as there are columns."""
    return flags_of(pc.match_substring_regex(texts["client_ip"], "[.:]"))


def lacks_header(lines: Lines) -> Flags:
    """Whether lines look like ones of such a log, but have no header."""
    return flags_of(pc.and_(pc.is_null(lines.header), pc.match_substring_regex(lines.text, _LINE)))


def _split(lines: Lines, names: Sequence[str]) -> tuple[Pieces, Flags]:
    """The columns of lines, and whether there are as many as names."""
    # A line has tabs between all of its columns, or some in place of spaces.
    tabs = pc.count_substring(lines.text, "\t").to_numpy(zero_copy_only=False)
    tabbed = lines.tabbed & (tabs == len(names) - 1)
    spaced = changed(lines.text, lines.tabbed & ~tabbed, ("\t", " "))
    text = where(tabbed, lines.text, squeezed(spaced))
    quotes = lines.parts.count > 1
    quoted = quotes & ~tabbed
    if quoted.any():  # spaces within quotes belong to the value
        odd = lines.parts.take(np.flatnonzero(quoted))
        place = np.arange(len(odd.flat)) - np.repeat(odd.start, odd.count)
        inner = where(place % 2 == 1, pc.replace_substring(odd.flat, " ", _HIDDEN_SPACE), squeezed(odd.flat))
        text = pc.replace_with_mask(text, pa.array(quoted), Pieces(inner, odd.start, odd.count).joined(""))
    # Between tabs, spaces belong to the value.
    parts = Pieces.of(changed(text, tabbed, (" ", _HIDDEN_SPACE), ("\t", " ")), " ")
    values = pc.replace_substring(parts.flat, _HIDDEN_SPACE, " ")
    if (quotes & tabbed).any():
        values = pc.replace_substring_regex(values, r'^"(.*)"$', r"\1")
    return Pieces(values, parts.start, parts.count), parts.count == len(names)


def _texts(parts: Pieces, names: Sequence[str]) -> Mapping[str, pa.Array]:
    found = {}
    for text, columns in _COLUMNS.items():
        there = [parts.at(names.index(column)) for column in columns if column in names]
        if there:
            found[text] = pc.coalesce(
                *(where(~flags_of(pc.equal(each, "-")), each, None) for each in there), there[0]
            )
    if "date" in found and "clock" in found:
        found["time"] = pc.binary_join_element_wise(found["date"], found["clock"], "Z", " ")
    elif "timestamp" in found:
        found["time"] = found["timestamp"]
    if "cs-uri-stem" not in names and "target" in found:  # an address may lack its scheme
        bare = flags_of(pc.match_substring_regex(found["target"], r"^(?:[\w-]+\.)+[A-Za-z]+(?::\d+)?/"))
        whole = pc.binary_join_element_wise("http:", found["target"], "//")
        found["target"] = where(~bare, found["target"], whole)
    if "user_agent" in found:
        found["user_agent"] = each_distinct(found["user_agent"], decoded)
    return found


def decoded(agent: str) -> str:
    """A user agent as it was sent: CloudFront encodes it, in older logs twice; IIS writes + for a space."""
    if "%20" in agent or "%2520" in agent:
        return unquote(agent.replace("%25", "%"))
    return agent if " " in agent else agent.replace("+", " ")

"""From raw log lines of any format to fields, in a few vectorized passes over Arrow arrays.

The format is detected line by line, unless the sender names it. Lines are first read as `combined` and its family;
only those that are not of it pay for the tests of the other formats, and only those that are of none for the search for
an envelope around another line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, Vectorized, flags_at, flags_of, matches, where
from tidemark.parse import clf, clf_loose, proxies, w3c, wrappers
from tidemark.parse.declared import declared_formats
from tidemark.parse.format import Format
from tidemark.parse.formats import FORMATS
from tidemark.parse.layout import Layout
from tidemark.parse.objects import JsonFormat, is_object, objects_of
from tidemark.parse.reading import PLAIN, Reading
from tidemark.parse.text import Lines, text_of
from tidemark.parse.values import COLUMNS, Read, address
from tidemark.parse.w3c import W3c

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Apache refuses request lines and headers over 8 KiB each, so a real line is far shorter than this.
MOST_BYTES = 65_536
# Envelopes within each other.
MOST_WRAPPERS = 2

# Input and output columns of `fields`, as Spark types.
LINE = ("value", "format", "fields", "site")
FIELDS = (
    "fits boolean, well_formed boolean, format_known boolean, fields_known boolean, whole boolean, status_ok boolean, "
    "host string, client_ip string, remote_user string, event_time timestamp, method string, path string, "
    "query string, protocol string, status int, bytes bigint, referrer string, user_agent string, duration_us bigint, "
    "edge_country string, read_as string"
)

DECLARED = declared_formats()


def _cost_of_test(format: Format) -> int:
    """Which formats are tried first: those that only lines with a header may be of, then those of which the start of
    a line tells."""
    if isinstance(format, W3c):
        return 0
    return 1 if not isinstance(format, Layout) or format.pattern.startswith("^") else 2


_KINDS = np.array([FORMATS.index(name) for name in clf.KINDS])
_FAMILY = [each.name for each in DECLARED if isinstance(each, clf.Clf)]
_OTHERS = [each for each in DECLARED if each.name not in _FAMILY]
_JSON = [each for each in _OTHERS if isinstance(each, JsonFormat)]
_PLAIN = sorted((each for each in _OTHERS if not isinstance(each, JsonFormat)), key=_cost_of_test)
_FIRST_W3C = next(each for each in _PLAIN if isinstance(each, W3c))
# The layouts that the start of a line identifies, and the starts of all of them: one test for all.
_STARTS = {
    each.name: each.pattern
    for each in _PLAIN
    if isinstance(each, Layout) and each.pattern.startswith("^") and not each.verbatim
}
_ANY_START = "|".join(f"(?:{pattern})" for pattern in _STARTS.values())
JSON_PATHS = (*wrappers.PATHS, *(path for each in _JSON for path in each.paths))


def parse(lines: DataFrame) -> DataFrame:
    """Adds the fields of each raw log line. Nothing raises; a field that cannot be parsed is NULL.

    Takes `value` (binary, one line), `format` (string, NULL to detect per line), `fields` (string, the names of the
    columns of a W3C log) and `site` (string); keeps all columns.
    Adds FIELDS: `fits` (at most MOST_BYTES long), `well_formed` (the line has the fields of a format), `format_known`
    (the sender named a known format, or none), `fields_known` (false if it seems to be of a W3C log, but has no
    `fields`), `whole` (false for a part of a line that a container runtime split), and for well-formed lines
    `status_ok` (the line says its status, or that there was none), `host` (lower case), `client_ip` (canonical, or a
    host name), `remote_user`, `event_time` (UTC), `method`, `path`, `query`, `protocol`, `status`, `bytes` (0 where the
    line has none), `referrer`, `user_agent`, `duration_us`, `edge_country` (as a proxy located the client) and
    `read_as` (the format). `method`, `path`, `query` and `protocol` are NULL for a request that is not HTTP.
    """
    return Vectorized(LINE, FIELDS, fields).to_frame(lines)


def fields(lines: Arrays, reading: Reading = PLAIN) -> dict[str, pa.Array]:
    """The columns FIELDS of lines, see `parse`, with these settings."""
    return read(lines, reading)[1]


def read(lines: Arrays, reading: Reading) -> tuple[Detected, dict[str, pa.Array]]:
    """The same columns, and the lines and formats that they were read of."""
    value = pc.fill_null(lines["value"], b"")
    fits = flags_of(pc.less_equal(pc.binary_length(value), MOST_BYTES))
    header = reading.headers(lines["fields"], lines["site"])
    detection = detected(Lines.of(text_of(value), fits, header), lines["format"], reading.formats)
    read = detection.read.columns
    columns = reading.settled({**read, "client_ip": address(read["client_ip"])}, lines["site"])
    return detection, {
        "fits": pa.array(fits),
        "format_known": pa.array(detection.known),
        "well_formed": pa.array(detection.read.sound),
        "fields_known": pa.array(_sound_or_not(detection, w3c.lacks_header)),
        "whole": pa.array(_sound_or_not(detection, wrappers.partial)),
        "status_ok": pa.array(flags_of(read["status_ok"])),
        **{name: columns[name] for name in COLUMNS},
        "read_as": detection.names,
    }


def _sound_or_not(detection: Detected, fault: Callable[[Lines], Flags]) -> Flags:
    """Lines that were read, and those of the others that do not have a fault."""
    flags = detection.read.sound.copy()
    unread = np.flatnonzero(~flags)
    if len(unread):
        flags[unread] = ~fault(detection.lines.take(unread))
    return flags


@dataclass(frozen=True)
class Detected:
    """Lines, what was read of them, and for lines of formats outside the combined family, or in envelopes, the
    numbers of their formats among `formats`; -1 for other lines. `known`: the sender named one of these, or none."""

    lines: Lines
    read: Read
    which: np.ndarray
    formats: tuple[str, ...]
    known: Flags

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of all lines' formats; -1 for lines of no format."""
        kinds = _KINDS[clf.kind(self.lines, self.read)]
        return np.where(self.which >= 0, self.which, np.where(self.read.sound, kinds, -1))

    @property
    def names(self) -> pa.Array:
        """The names of all lines' formats; NULL for lines of no format."""
        numbers = self.numbers
        if len(numbers) and (numbers == numbers[0]).all() and numbers[0] >= 0:
            return pa.repeat(self.formats[numbers[0]], len(numbers))
        return pa.array(self.formats).take(pa.array(numbers, mask=numbers < 0))


def detected(
    lines: Lines, named: pa.Array, own: Sequence[Format] = (), most_wrappers: int = MOST_WRAPPERS
) -> Detected:
    """Reads lines in the formats that the sender named, or else detects these. `own` are the user's formats, which are
    only read by name."""
    formats = (*FORMATS, *(each.name for each in own))
    # Objects are never of the combined family.
    objects = is_object(lines.text)
    read = Read.nothing(len(named)) if objects.all() else clf.read(lines, named).kept(~objects)
    which = np.full(len(named), -1)
    names = set(pc.unique(named).to_pylist())
    if others := names & {each.name for each in (*_OTHERS, *own)}:
        read = read.kept(~_is_one_of(named, others))
    open_ = lines.sound & (~read.sound | clf.doubtful(read))
    open_ |= wrappers.may_be_escaped(lines.text, read.sound & flags_of(pc.is_null(read.columns["method"])))
    known = np.ones(len(named), bool)
    if unknown := names - {None, *formats}:
        known = ~_is_one_of(named, unknown)
    rows = np.flatnonzero(open_ & known)
    if not len(rows):
        return Detected(lines, read, which, formats, known)
    search = _Search(lines.take(rows), named if len(rows) == len(named) else named.take(pa.array(rows)), own)
    search.run(most_wrappers)
    which[rows] = search.which
    return Detected(lines, read.replaced(rows, search.read), which, formats, known)


class _Search:
    """Reads lines in one format after the other, until each is read or no format is left."""

    def __init__(self, lines: Lines, named: pa.Array, own: Sequence[Format]) -> None:
        self._own = own
        self._all = (*DECLARED, *own)
        self.read = Read.nothing(len(named))
        self.which = np.full(len(named), -1)
        self._lines = lines
        self._hidden = lines.hidden
        self._named = named
        self._names = set(pc.unique(named).to_pylist())
        self._unnamed = flags_of(pc.is_null(named))
        self._doubtful: list[tuple[np.ndarray, Read, np.ndarray | int]] = []
        self._filled = flags_of(pc.greater(pc.binary_length(lines.text), 0))

    def run(self, most_wrappers: int) -> None:
        inner = self._read_objects()
        for format in (*_PLAIN, *self._own):
            if format is _FIRST_W3C:
                self._lines = w3c.with_default_header(self._lines, self._open)
            self._attempt(format)
        self._read_with_tail()
        self._read_behind_proxies()
        if most_wrappers and self._open.any():
            inner = pc.coalesce(inner, wrappers.unwrapped(where(self._open, self._lines.text, None)))
            rows = np.flatnonzero(flags_of(pc.is_valid(inner)) & self._open)
            if len(rows):
                index = pa.array(rows)
                lines = Lines.of(inner.take(index), np.ones(len(rows), bool), self._lines.header.take(index))
                within = detected(lines, self._named.take(index), self._own, most_wrappers - 1)
                self._put(rows, within.read, within.numbers)
        # A line that was read without its time may have it elsewhere.
        for rows, read, which in self._doubtful:
            self._put(rows, read.kept(flags_of(pc.is_valid(read.columns["event_time"]))), which)
        self._read_loosely()
        for doubtful in self._doubtful:
            self._put(*doubtful)

    @property
    def _of_family(self) -> Flags:
        family: Flags = self._unnamed | _is_one_of(self._named, _FAMILY)
        return family

    @property
    def _open(self) -> Flags:
        return self._filled & ~self.read.sound

    def _candidates(self, format: Format) -> Flags:
        if format.name in self._names:
            named: Flags = flags_of(pc.equal(self._named, format.name))
        else:
            named = np.zeros(len(self._unnamed), bool)
        if isinstance(format, W3c):
            return self._open & (named | (self._unnamed & format.with_header(self._lines)))
        candidates = self._open & (named | self._unnamed if format.detected else named)
        return candidates & self._started if format.name in _STARTS and candidates.any() else candidates

    @cached_property
    def _started(self) -> Flags:
        """The unread lines before the first layout whose start identifies a layout."""
        return matches(where(self._open, self._hidden, None), _ANY_START)

    def _attempt(self, format: Format) -> None:
        if not (format.detected or format.name in self._names):
            return
        rows = np.flatnonzero(self._candidates(format))
        if len(rows):
            text = self._lines.text if format.verbatim else self._hidden
            rows = rows[format.may_be(text if len(rows) == len(text) else text.take(pa.array(rows)))]
        if len(rows):
            self._put_sure(rows, format.read(self._lines.take(rows)), self._all.index(format))

    def _read_objects(self) -> pa.Array:
        """Reads JSON objects; returns the lines inside those of no format, NULL for other lines."""
        inner = pa.nulls(len(self._named), pa.string())
        rows = np.flatnonzero(self._filled & is_object(self._lines.text))
        if not len(rows):
            return inner
        objects = objects_of(self._lines.text.take(pa.array(rows)), JSON_PATHS, self._lines.parts.flat)
        for format in _JSON:
            some = np.flatnonzero(self._candidates(format)[rows] & format.fits(objects))
            if len(some):
                self._put(rows[some], format.of(objects.take(some, format.paths)), DECLARED.index(format))
        return pc.replace_with_mask(inner, pa.array(flags_at(rows, len(inner))), wrappers.inside(objects))

    def _read_with_tail(self) -> None:
        """Reads lines of the combined family with trailing fields."""
        possible = self._open & self._of_family & clf.may_have_tail(self._lines.parts)
        rows = np.flatnonzero(possible & ~is_object(self._lines.text))
        if len(rows):
            read = clf.read(self._lines.take(rows), self._named.take(pa.array(rows)), tail=True)
            self._put_sure(rows, read, -1)

    def _read_behind_proxies(self) -> None:
        """Reads lines of the combined family that begin with a list of addresses."""
        open_ = self._open & self._of_family
        if not open_.any():
            return
        listed = where(open_, self._lines.text, None)
        has_list, text, before = proxies.without_list(listed)
        rows = np.flatnonzero(has_list)
        if len(rows):
            lines = Lines.of(text, np.ones(len(rows), bool))
            within = detected(lines, self._named.take(pa.array(rows)), most_wrappers=0)
            self._put_sure(rows, proxies.forwarded(within.read, before), within.numbers)

    def _read_loosely(self) -> None:
        """Reads lines that are nearly of the combined family: with quotes that the server did not escape, fields in
        between, or fewer words in front."""
        rows = np.flatnonzero(self._open & self._of_family)
        if len(rows):
            rows = rows[matches(self._hidden.take(pa.array(rows)), clf_loose.MARK)]
        if len(rows):
            read, kinds = clf_loose.read(self._lines.take(rows), self._hidden.take(pa.array(rows)))
            self._put(rows, read, _KINDS[kinds])

    def _put_sure(self, rows: np.ndarray, read: Read, which: np.ndarray | int) -> None:
        """Keeps the results with a sound address. Other lines may be in an envelope; if they are not, the address is
        their fault."""
        addressed = matches(read.columns["client_ip"], "[.:]")
        sure = read.kept(addressed & ~clf.doubtful(read))
        self._put(rows, sure, which)
        if sure is not read:
            self._doubtful.append((rows, read, which))

    def _put(self, rows: np.ndarray, read: Read, which: np.ndarray | int) -> None:
        fresh = read.kept(~self.read.sound[rows])
        if len(rows) == len(self.which) and not self.read.sound.any():
            self.read = fresh
        else:
            self.read = self.read.replaced(rows, fresh)
        self.which[rows] = np.where(fresh.sound, which, self.which[rows])


def _is_one_of(named: pa.Array, names: Collection[str]) -> Flags:
    return flags_of(pc.is_in(named, pa.array(sorted(names), pa.string())))

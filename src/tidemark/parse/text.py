r"""Raw bytes to text, and what text readers share: surrounding blanks, escapes, tabs between fields.

Bytes that are no UTF-8, and control characters, become `\xHH`, as servers write them; terminal colours are removed.
`\xHH` stays as logged, because the original bytes need not be text.

Servers escape a quote inside a quoted field as `\"` and a backslash as `\\`. Both are replaced by control characters
before a line is split at quotes, and restored in the fields. This is safe because a line has no control characters
by then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, changed, flags_at, flags_of, offsets_of, where

HIDDEN_BACKSLASH, HIDDEN_QUOTE = "\x02", "\x01"
# Also what pages of the web and JSON text sequences (RFC 7464) have around lines.
_AROUND = " \t\r\n\f\v\0\x1e\ufeff\u00a0\u200b"
_LINE_ENDS = list(b"\r\n")
_TAB = ord("\t")
# A colour or style of a terminal, raw or as it stands once control characters are escaped.
_COLOUR = re.compile(r"(?:\x1b|\\x1[bB]|\\033|\\e)\[[0-9;:]*m")
_DELETE = re.compile(rb"\x7f")
_BACKSLASH = re.compile(rb"\\")
_CONTROLS = {number: f"\\x{number:02X}" for number in (*range(0x09), *range(0x0A, 0x20), 0x7F)}
_NO_UTF8 = re.compile("[\udc80-\udcff]")
# For each byte, whether text that starts or ends with it may need trimming.
_MAY_BE_AROUND = np.isin(np.arange(256), list(_AROUND.encode()))


@dataclass(frozen=True)
class Lines:
    """Lines as text without surrounding blanks, control characters and colours. Lines that are not to be read (not
    `sound`) are empty.

    `escaped`: lines with a backslash. `tabbed`: lines with a tab inside. `parts`: the lines split at quotes, with
    escapes hidden, and with spaces instead of tabs outside quoted fields. `header`: the names of the columns of lines
    of W3C logs, as the sender gave them.
    """

    text: pa.Array
    header: pa.Array
    sound: Flags
    escaped: Flags
    tabbed: Flags
    parts: Parts

    @staticmethod
    def of(line: pa.Array, sound: Flags, header: pa.Array | None = None) -> Lines:
        """Lines of strings; `sound` are those to read."""
        line = trimmed(line)
        controls, control = _bytes_of(line, is_control)
        # Several lines in one are none.
        sound = sound & ~flags_at(controls[np.isin(control, _LINE_ENDS)], len(line))
        if len(odd := np.unique(controls[control != _TAB])):
            line = trimmed(changed(line, flags_at(odd, len(line)), _printable))
            controls, control = _bytes_of(line, lambda byte: byte == _TAB)
        if not sound.all():
            line = where(sound, line, "")
        escaped = has_byte_of(line, _is_backslash)
        tabbed = flags_at(controls[control == _TAB], len(line))
        hidden = replaced(line, escaped, ("\\\\", HIDDEN_BACKSLASH), ('\\"', HIDDEN_QUOTE))
        parts = Parts.of(hidden, '"')
        header = pa.nulls(len(line), pa.string()) if header is None else header
        return Lines(line, header, sound, escaped, tabbed, _spaces_for_tabs(parts, tabbed))

    def take(self, rows: np.ndarray) -> Lines:
        """The lines of these rising numbers."""
        if len(rows) == len(self.sound):
            return self
        index = pa.array(rows)
        text, parts = self.text.take(index), self.parts.take(rows)
        header = self.header.take(index)
        return Lines(text, header, self.sound[rows], self.escaped[rows], self.tabbed[rows], parts)

    @property
    def hidden(self) -> pa.Array:
        """The lines with escapes hidden, and with spaces instead of tabs outside quoted fields."""
        odd = self.escaped | self.tabbed
        if not odd.any():
            return self.text
        return pc.replace_with_mask(
            self.text, pa.array(odd), self.parts.take(np.flatnonzero(odd)).joined('"')
        )

    def restored(self, field: pa.Array) -> pa.Array:
        """A field with the escaped characters in place of those that hide them."""
        return replaced(field, self.escaped, (HIDDEN_QUOTE, '"'), (HIDDEN_BACKSLASH, "\\"))


def text_of(value: pa.Array) -> pa.Array:
    r"""Lines as strings, with `\xHH` in place of bytes that are no UTF-8."""
    try:
        return value.cast(pa.string())
    except pa.ArrowInvalid:  # the error does not name the line
        return pa.array([decoded(line) for line in value.to_pylist()], pa.string())


def decoded(line: bytes) -> str:
    r"""A line as text, with `\xHH` in place of bytes that are no UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        # Half of a surrogate pair, which some programs encode like a character, is no UTF-8 either.
        text = line.decode("utf-8", "surrogateescape")
        return _NO_UTF8.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02X}", text)


def escaped_controls(text: str) -> str:
    r"""A text without colours of a terminal, and with `\xHH` in place of control characters other than tabs."""
    return _COLOUR.sub("", text).translate(_CONTROLS)


def _printable(line: pa.Array) -> pa.Array:
    return pa.array(map(escaped_controls, line.to_pylist()), pa.string())


def trimmed(line: pa.Array) -> pa.Array:
    """Lines without surrounding blanks, line ends and byte-order marks."""
    data = line.buffers()[2]
    if data is None or not len(line):
        return line
    ends = offsets_of(line)
    byte = np.frombuffer(data, np.uint8)
    filled = np.flatnonzero(ends[1:] > ends[:-1])
    around = np.zeros(len(line), bool)
    around[filled] = _MAY_BE_AROUND[byte[ends[filled]]] | _MAY_BE_AROUND[byte[ends[filled + 1] - 1]]
    return changed(line, around, lambda some: pc.utf8_trim(some, _AROUND))


def replaced(text: pa.Array, which: Flags, *replacements: tuple[str, str]) -> pa.Array:
    """The strings with replacements in the flagged ones, one after another."""

    def new(some: pa.Array) -> pa.Array:
        for old, by in replacements:
            some = pc.replace_substring(some, old, by)
        return some

    return changed(text, which, new)


def squeezed(text: pa.Array) -> pa.Array:
    """The strings with one space in place of several."""
    several = flags_of(pc.match_substring(text, "  "))
    return changed(text, several, lambda some: pc.replace_substring_regex(some, " {2,}", " "))


def has_byte_of(text: pa.Array, wanted: Callable[[np.ndarray], np.ndarray]) -> Flags:
    """Whether a string has a byte that is wanted: `wanted` gives a flag for each byte of an array."""
    return flags_at(_bytes_of(text, wanted)[0], len(text))


def _is_backslash(byte: np.ndarray) -> np.ndarray:
    # Most texts have none, which a search tells several times as fast as a comparison.
    return byte == ord("\\") if _BACKSLASH.search(byte.data) else np.zeros(0, bool)


def is_control(byte: np.ndarray) -> np.ndarray:
    """Which bytes are control characters."""
    controls: np.ndarray = byte < 32
    return controls | (byte == 127) if _DELETE.search(byte.data) else controls


def has_pair(text: pa.Array, pair: bytes) -> Flags:
    """Whether a string has these two bytes behind each other."""
    return flags_at(_pairs_of(text, pair)[0], len(text))


def last_pair(text: pa.Array, pair: bytes) -> np.ndarray:
    """The byte of each string at which the last of these pairs of bytes begins; -1 without any."""
    rows, places = _pairs_of(text, pair)
    last = np.full(len(text), -1)
    last[rows] = places  # of several in a row, the last one stays
    return last


def _pairs_of(text: pa.Array, pair: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of bytes in strings: their rows, and the bytes of these at which they begin."""
    first, second = pair
    data = text.buffers()[2]
    if data is None or not len(text):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = offsets_of(text)
    byte = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    places = np.flatnonzero((byte[:-1] == first) & (byte[1:] == second)) + ends[0]
    rows = np.searchsorted(ends, places, side="right") - 1
    inside = places + 1 < ends[rows + 1]
    return rows[inside], (places - ends[rows])[inside]


def _bytes_of(text: pa.Array, wanted: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The wanted bytes: their rows and values. One pass over all bytes, several times as fast as
    Arrow's search per string."""
    data = text.buffers()[2]
    if data is None or not len(text):
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = offsets_of(text)
    byte = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    places = np.flatnonzero(wanted(byte))
    return np.searchsorted(ends, places + ends[0], side="right") - 1, byte[places]


def _spaces_for_tabs(parts: Parts, tabbed: Flags) -> Parts:
    if not tabbed.any():
        return parts
    place = np.arange(len(parts.flat)) - np.repeat(parts.start, parts.count)
    unquoted = (place % 2 == 0) & np.repeat(tabbed, parts.count)
    return Parts(replaced(parts.flat, unquoted, ("\t", " ")), parts.start, parts.count)

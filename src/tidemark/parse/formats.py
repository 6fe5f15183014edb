r"""Web-server log formats: from raw lines to fields, in a few vectorized passes over Arrow arrays.

Formats (Apache's `mod_log_config` names; nginx writes the same):

- `common`          `address ident user [time] "request" status bytes`
- `combined`        common, then ` "referrer" "user agent"`
- `vhost_combined`  `host[:port] `, then combined

One more quoted field may follow a combined line: nginx's example format `main` ends with the header
X-Forwarded-For. It is ignored, because any client can send it.

Blanks and line ends around a line, a byte-order mark in front of it, and a tab in place of a space between its fields
make no difference.

Fields are found by splitting at quotes, which is several times as fast as a regular expression.
Servers escape a quote inside a quoted field as `\"` and a backslash as `\\`. Both are replaced by
control characters before the split and restored after it. This is safe because a line with
raw control characters is rejected (servers write those as `\xHH`). `\xHH` stays as logged,
because the original bytes need not be text.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tidemark.engine.arrays import Arrays, Flags, Pieces, Vectorized, flags_of, where
from tidemark.parse.logtime import event_time

FORMATS = ("common", "combined", "vhost_combined")

# Apache refuses request lines and headers over 8 KiB each, so a real line is far shorter than this.
MOST_BYTES = 65_536

# Input and output columns of `fields`, as Spark types.
LINE = ("value", "format")
FIELDS = (
    "fits boolean, utf8_ok boolean, text_ok boolean, well_formed boolean, host string, client_ip string, "
    "remote_user string, event_time timestamp, method string, path string, query string, protocol string, "
    "status int, bytes bigint, referrer string, user_agent string"
)

_HIDDEN_BACKSLASH, _HIDDEN_QUOTE = "\x02", "\x01"
_AROUND = " \t\r\n\ufeff"
_TAB = ord("\t")
# For each byte, whether text that starts or ends with it may need trimming.
_MAY_BE_AROUND = np.isin(np.arange(256), list(_AROUND.encode()))
_ADDRESS = r"^[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+$"
_METHODS = pa.array(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
_METHOD = "^[A-Z][A-Z_-]{1,31}$"
_PROTOCOLS = pa.array(["HTTP/1.1", "HTTP/2.0", "HTTP/1.0", "HTTP/3.0", "HTTP/2", "HTTP/3"])
_PROTOCOL = r"^HTTP/\d(\.\d)?$"
# A number with more digits exceeds every allowed size.
_MOST_DIGITS = 18


def parse(lines: DataFrame) -> DataFrame:
    """Adds the fields of each raw log line. Nothing raises; a field that cannot be parsed is NULL.

    Takes `value` (binary, one line) and `format` (string, NULL to detect per line); keeps all columns.
    Adds FIELDS: `fits` (at most MOST_BYTES long), `utf8_ok`, `text_ok` (both, and no control characters inside),
    `well_formed` (the line has the fields of a format), and for such lines `host`, `client_ip`, `remote_user`,
    `event_time` (UTC), `method`, `path`, `query`, `protocol`, `status`, `bytes` (0 for "-"), `referrer` and
    `user_agent`. `method`, `path`, `query` and `protocol` are NULL for a request that is not HTTP.
    """
    return Vectorized(LINE, FIELDS, fields).to_frame(lines)


def fields(lines: Arrays) -> dict[str, pa.Array]:
    """The columns FIELDS of lines, see `parse`."""
    value, named = pc.fill_null(lines["value"], b""), lines["format"]
    fits = flags_of(pc.less_equal(pc.binary_length(value), MOST_BYTES))
    line, utf8_ok = _text(value)
    line = _trimmed(line)
    controls, control = _bytes_of(line, lambda byte: (byte < 32) | (byte == 127))
    text_ok = fits & utf8_ok & ~_any(line, controls[control != _TAB])
    if not text_ok.all():
        line = where(text_ok, line, "")
    escaped = _any(line, _bytes_of(line, lambda byte: byte == ord("\\"))[0])

    parts = Pieces.of(_hide_escapes(line, escaped), '"')
    parts = _spaces_for_tabs(parts, _any(line, controls[control == _TAB]))
    before = Pieces.of(
        parts.at(0), " [", 1, last=True
    )  # the last one, because a user name may contain brackets
    words = Pieces.of(where(before.count == 2, before.at(0), ""), " ", 2)
    vhost = _has_host(words, named)
    # After a leading host, the third word is followed by another.
    rest = Pieces.of(where(vhost, words.at(2), None), " ", 1)
    result = Pieces.of(pc.ascii_trim(parts.at(2), " "), " ")
    sound = np.where(vhost, rest.count == 2, words.count == 3) & (result.count == 2) & _quoted(parts, named)

    http, method, target, protocol = _request(where(sound, parts.at(1), None))
    target = Pieces.of(_restored(where(http, target, None), escaped), "?", 1)
    user = where(vhost, rest.at(1), words.at(2))
    host = pc.replace_substring_regex(where(sound & vhost, words.at(0), None), r":\d*$", "")
    told = sound & (parts.count > 3)
    return {
        "fits": pa.array(fits),
        "utf8_ok": pa.array(utf8_ok),
        "text_ok": pa.array(text_ok),
        "well_formed": pa.array(sound),
        "host": _restored(host, escaped),
        "client_ip": where(sound, where(vhost, words.at(1), words.at(0)), None),
        "remote_user": _present(_restored(where(sound, user, None), escaped)),
        "event_time": event_time(_without_end(where(sound, before.at(1), None), "] ")),
        "method": where(http, method, None),
        "path": target.at(0),
        "query": target.at(1),
        "protocol": where(http, protocol, None),
        "status": _status(where(sound, result.at(0), None)),
        "bytes": _size(where(sound, result.at(1), None)),
        "referrer": _present(_restored(where(told, parts.at(3), None), escaped)),
        "user_agent": _present(_restored(where(told, parts.at(5), None), escaped)),
    }


def _text(value: pa.Array) -> tuple[pa.Array, Flags]:
    """Lines as strings, and whether each is UTF-8; others are empty strings."""
    try:
        return value.cast(pa.string()), np.ones(len(value), bool)
    except pa.ArrowInvalid:  # the error does not name the line
        valid = np.fromiter((_is_utf8(line) for line in value.to_pylist()), bool, len(value))
        return where(valid, value, b"").cast(pa.string()), valid


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _trimmed(line: pa.Array) -> pa.Array:
    """Lines without surrounding blanks, line ends and byte-order marks."""
    _, offsets, data = line.buffers()
    if data is None or not len(line):
        return line
    ends = np.frombuffer(offsets, np.int32)[line.offset : line.offset + len(line) + 1]
    byte = np.frombuffer(data, np.uint8)
    filled = np.flatnonzero(ends[1:] > ends[:-1])
    around = np.zeros(len(line), bool)
    around[filled] = _MAY_BE_AROUND[byte[ends[filled]]] | _MAY_BE_AROUND[byte[ends[filled + 1] - 1]]
    if not around.any():
        return line
    mask = pa.array(around)
    return pc.replace_with_mask(line, mask, pc.utf8_trim(line.filter(mask), _AROUND))


def _bytes_of(text: pa.Array, wanted: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The wanted bytes: their rows and values. One pass over all bytes, several times as fast as
    Arrow's search per string."""
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    byte = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    places = np.flatnonzero(wanted(byte))
    return np.searchsorted(ends, places + ends[0], side="right") - 1, byte[places]


def _any(text: pa.Array, rows: np.ndarray) -> Flags:
    found = np.zeros(len(text), bool)
    found[rows] = True
    return found


def _spaces_for_tabs(parts: Pieces, tabbed: Flags) -> Pieces:
    """The parts between the quotes of lines, with spaces instead of tabs outside quoted fields."""
    if not tabbed.any():
        return parts
    place = np.arange(len(parts.flat)) - np.repeat(parts.start, parts.count)
    unquoted = (place % 2 == 0) & np.repeat(tabbed, parts.count)
    return Pieces(_changed(parts.flat, unquoted, ("\t", " ")), parts.start, parts.count)


def _hide_escapes(line: pa.Array, escaped: Flags) -> pa.Array:
    return _changed(line, escaped, ("\\\\", _HIDDEN_BACKSLASH), ('\\"', _HIDDEN_QUOTE))


def _restored(field: pa.Array, escaped: Flags) -> pa.Array:
    return _changed(field, escaped, (_HIDDEN_QUOTE, '"'), (_HIDDEN_BACKSLASH, "\\"))


def _changed(text: pa.Array, which: Flags, *replacements: tuple[str, str]) -> pa.Array:
    """The strings with replacements in the flagged ones, one after another."""
    if not which.any():
        return text
    some = text.filter(pa.array(which))
    for old, new in replacements:
        some = pc.replace_substring(some, old, new)
    return pc.replace_with_mask(text, pa.array(which), some)


def _has_host(words: Pieces, named: pa.Array) -> Flags:
    """Whether a line starts with a virtual host: by its named format, else if the second word is an address."""
    second = words.at(1)
    looks_so = flags_of(pc.not_equal(second, "-")) & flags_of(pc.match_substring_regex(second, _ADDRESS))
    return np.where(flags_of(pc.is_null(named)), looks_so, flags_of(pc.equal(named, "vhost_combined")))


def _quoted(parts: Pieces, named: pa.Array) -> Flags:
    """Whether the parts between the quotes have the shape of a format."""
    extra = parts.count == 9
    quoted = (parts.count == 7) | extra
    common = parts.count == 3
    unnamed, is_common = flags_of(pc.is_null(named)), flags_of(pc.equal(named, "common"))
    shape = np.where(unnamed, quoted | common, np.where(is_common, common, quoted))
    head, middle = parts.at(0), parts.at(2)
    spaced = flags_of(pc.equal(parts.at(4), " ")) & flags_of(pc.equal(parts.at(parts.count - 1), ""))
    fits: Flags = (
        shape
        & flags_of(pc.ends_with(head, "] "))
        & flags_of(pc.starts_with(middle, " "))
        & (~quoted | (flags_of(pc.ends_with(middle, " ")) & spaced))
        & (~extra | flags_of(pc.equal(parts.at(6), " ")))
    )
    return fits


def _request(request: pa.Array) -> tuple[Flags, pa.Array, pa.Array, pa.Array]:
    """Whether a request is `METHOD target HTTP/n`, and its three parts."""
    first = Pieces.of(request, " ", 1)
    second = Pieces.of(first.at(1), " ", 1, last=True)
    method, target, protocol = first.at(0), second.at(0), second.at(1)
    http = (
        (second.count == 2)
        & _one_of(method, _METHODS, _METHOD)
        & _one_of(protocol, _PROTOCOLS, _PROTOCOL)
        & flags_of(pc.match_substring_regex(target, "^[^ \t]"))
    )
    return http, method, target, protocol


def _one_of(text: pa.Array, usual: pa.Array, pattern: str) -> Flags:
    """Looks up the usual values, which is faster than a regular expression."""
    found = flags_of(pc.is_in(text, usual))
    others = ~found & flags_of(pc.is_valid(text))
    if others.any():
        found[others] = flags_of(pc.match_substring_regex(text.filter(pa.array(others)), pattern))
    return found


def _without_end(text: pa.Array, end: str) -> pa.Array:
    return pc.binary_slice(text.cast(pa.binary()), 0, -len(end)).cast(pa.string())


def _status(text: pa.Array) -> pa.Array:
    number = flags_of(pc.equal(pc.binary_length(text), 3)) & flags_of(pc.ascii_is_decimal(text))
    return where(number, text, None).cast(pa.int32())


def _size(text: pa.Array) -> pa.Array:
    """A number of digits; a dash means 0."""
    digits = pc.ascii_ltrim(text, "0")
    number = flags_of(pc.ascii_is_decimal(text)) & flags_of(
        pc.less_equal(pc.binary_length(digits), _MOST_DIGITS)
    )
    zero = number & flags_of(pc.equal(digits, "")) | flags_of(pc.equal(text, "-"))
    return where(zero, "0", where(number, digits, None)).cast(pa.int64())


def _present(field: pa.Array) -> pa.Array:
    """Servers write "-" (Apache, nginx) or nothing for a header that was not sent."""
    absent = flags_of(pc.equal(field, "-")) | flags_of(pc.equal(field, ""))
    return where(~absent, field, None)

"""The lines that a privacy mode leaves.

A line of the combined family gets a new beginning if nothing else in it changes; an anonymous line also gets a new end.
Any other line becomes a JSON object with the columns, which names the original format. So a masked line has nothing
that is in no column. A line that cannot be read is masked as a text; if that could miss something, only the shape of
the text is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import (
    Arrays,
    Flags,
    Offsets,
    flags_of,
    plain,
    sliced,
    where,
    with_beginnings,
)
from tidemark.engine.groups import encoded
from tidemark.parse.detect import Detected
from tidemark.parse.text import has_byte_of, last_pair, text_of
from tidemark.privacy.texts import NONE, TextMask
from tidemark.settings.privacy import ANONYMOUS

# The masks of a level, each with its lines.
Masks = list[tuple[TextMask, Flags]]
# The format of a line that is written anew, and the key by which it names the format that it was of.
WRITTEN_AS, READ_AS = "nginx_json", "read_as"
# The columns that such a line has.
_COLUMNS = (
    "read_as", "event_time", "zoneless", "client_ip", "method", "path", "query", "protocol", "status", "status_ok",
    "bytes", "duration_us", "referrer", "user_agent", "host", "edge_country",
)  # fmt: skip
# In a line of the combined family, ident and user that are not kept, and what begins the time.
_NO_USER, _TIME = " - -", b" ["
# Only status and size stand there between request and referrer.
_RESULT = r"^ \d{3} (?:\d+|-) ?$"
_BESIDE_SIZE = len(" 200  ")
_POWERS = 10 ** np.arange(19)
# Bytes that strings of JSON have escaped, of those that lines may have.
_ESCAPED = np.isin(np.arange(256), list(b'\\"\t'))


def rewritten(
    level: int, masks: Masks, detected: Detected, changed: Flags, columns: Arrays, chunk: pa.Array
) -> tuple[pa.Array, Flags]:
    """The values of lines, masked where the `masks` have them, and which of them are written as objects.

    `columns` are the masked ones, and the `value` that is not masked yet; `changed` says whether path, query, referrer
    or host are others than in the line. `chunk`: the numbers of parts of overlong lines."""
    rows = np.logical_or.reduce([each for _, each in masks])
    readable = rows & detected.read.sound
    kept = readable & _same_beside_ends(detected, changed, columns)
    as_objects = readable & ~kept
    text = detected.lines.text.cast(pa.binary())
    if not rows.all():
        text = where(rows, text, columns["value"])
    # Lines that are not kept are replaced as a whole, those of other levels not at all.
    first = np.where(rows, _sizes(text), 0)
    new = pa.repeat("", len(rows))
    if kept.any():
        first = np.where(kept, last_pair(detected.lines.parts.at(0), _TIME), first)
        client = encoded(columns["client_ip"])
        starts = pc.binary_join_element_wise(pc.fill_null(client.dictionary, NONE), _NO_USER, "")
        new = where(rows, starts.take(client.indices), "")
        if level == ANONYMOUS:
            text = _without_agents(text, kept, detected)
    if as_objects.any():
        new = pc.replace_with_mask(new, pa.array(as_objects), _objects(detected, columns, as_objects))
    for some, texts in _unread(masks, rows & ~readable, columns, chunk):
        new = pc.replace_with_mask(new, pa.array(some), texts)
    return with_beginnings(text, first, new.cast(pa.binary())), as_objects


def _without_agents(text: pa.Array, kept: Flags, detected: Detected) -> pa.Array:
    """Lines without the user agents of those that are kept, which stand in quotes at their ends."""
    parts = detected.lines.parts
    quoted = kept & (parts.count == 7)
    size = _sizes(text)
    last = np.where(quoted, size - _sizes(parts.at(5)) - 1, size)
    ends = where(quoted, pa.repeat(f'{NONE}"', len(quoted)), "").cast(pa.binary())
    return pc.binary_join_element_wise(sliced(text, np.zeros_like(size), last), ends, b"")


def _same_beside_ends(detected: Detected, changed: Flags, columns: Arrays) -> Flags:
    """Lines of the combined family, without trailing fields, whose masked columns differ from those of the line in
    client, user and user agent only."""
    parts, lines = detected.lines.parts, detected.lines
    quoted = parts.count == 7
    same: Flags = (
        (detected.which < 0) & ~lines.escaped & ~lines.tabbed & (quoted | (parts.count == 3)) & ~changed
    )
    # A request that is not HTTP may hold anything, unless it is empty.
    same &= flags_of(pc.is_valid(columns["method"])) | flags_of(pc.equal(parts.at(1), NONE))
    same &= flags_of(pc.is_null(columns["host"]))
    same &= flags_of(pc.is_valid(columns["event_time"]))  # otherwise anything may stand there
    if same.any():
        same &= ~quoted | flags_of(pc.ends_with(lines.text, '"'))
        result = parts.at(2)
        size = pc.fill_null(columns["bytes"], 0).to_numpy()
        # A result of no more characters than a status and this size have has nothing else.
        digits = np.searchsorted(_POWERS, size, side="right")
        short = (size > 0) & (_sizes(result) <= digits + _BESIDE_SIZE)
        odd = np.flatnonzero(same & ~(short & flags_of(pc.is_valid(columns["status"]))))
        same[odd] = flags_of(pc.match_substring_regex(result.take(pa.array(odd)), _RESULT))
    return same


def _sizes(text: pa.Array) -> Offsets:
    """The number of bytes of strings; 0 for NULL."""
    sizes: Offsets = pc.fill_null(pc.binary_length(text), 0).to_numpy()
    return sizes


def _objects(detected: Detected, columns: Arrays, rows: Flags) -> pa.Array:
    """Lines with the columns of these rows, in the format WRITTEN_AS."""
    # The time as the line has it: settings of the site are for reading it.
    raw = {name: detected.read.columns[name] for name in ("event_time", "zoneless")}
    index = pa.array(np.flatnonzero(rows))
    values = {name: plain({**columns, **raw}[name].take(index)) for name in _COLUMNS}
    time = pc.replace_substring(values["event_time"].cast(pa.string()), " ", "T", max_replacements=1)
    time = where(~flags_of(values["zoneless"]), time, pc.utf8_slice_codeunits(time, 0, -1))
    query = pc.fill_null(pc.binary_join_element_wise("?", values["query"], ""), "")
    fault = where(flags_of(values["status_ok"]), pa.repeat(NONE, len(time)), "?")
    texts = {
        READ_AS: values["read_as"],
        "time": pc.fill_null(time, "?"),
        "client_ip": pc.fill_null(values["client_ip"], NONE),
        "request_method": values["method"],
        "request": where(flags_of(pc.is_null(values["method"])), pa.repeat(NONE, len(time)), None),
        "request_uri": pc.binary_join_element_wise(values["path"], query, ""),
        "server_protocol": values["protocol"],
        "status": pc.coalesce(values["status"].cast(pa.string()), fault),
        "bytes": values["bytes"].cast(pa.string()),
        "duration_us": values["duration_us"].cast(pa.string()),
        "http_referer": values["referrer"],
        "http_user_agent": values["user_agent"],
        "http_host": values["host"],
        "country_code": values["edge_country"],
    }
    members = []
    for name, text in texts.items():
        if text.null_count < len(text):
            member = pc.binary_join_element_wise(f',"{name}":"', _escaped(text), '"', "")
            members.append(pc.fill_null(member, ""))
    return pc.binary_join_element_wise(
        "{", pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1), "}", ""
    )


def _escaped(text: pa.Array) -> pa.Array:
    odd = has_byte_of(text, lambda byte: _ESCAPED[byte])
    if not odd.any():
        return text
    some = text.filter(pa.array(odd))
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t")):
        some = pc.replace_substring(some, old, new)
    return pc.replace_with_mask(text, pa.array(odd), some)


def _unread(masks: Masks, rows: Flags, columns: Arrays, chunk: pa.Array) -> Iterator[tuple[Flags, pa.Array]]:
    """The texts that replace these lines, which no format reads, each with its rows."""
    for mask, of_mask in masks:
        some = rows & of_mask
        if not some.any():
            continue
        shape = some & (~flags_of(columns["fits"]) | flags_of(pc.is_valid(chunk)))
        if mask.level == ANONYMOUS:
            shape = some
        if shape.any():
            yield shape, _shape(text_of(columns["value"].filter(pa.array(shape))))
        rest = some & ~shape
        if rest.any():
            texts = text_of(columns["value"].filter(pa.array(rest))).to_pylist()
            yield rest, pa.array([mask.unread(text) for text in texts], pa.string())


def _shape(text: pa.Array) -> pa.Array:
    """Texts with x and 0 in place of letters and digits."""
    for pattern, character in ((r"[\pL\pM]", "x"), (r"\pN", "0")):
        text = pc.replace_substring_regex(text, pattern, character)
    return text

"""From lines to columns, and to the lines and columns that the privacy mode of a site leaves.

Columns are masked by the type of field, in the same way for every format. The line is then written from them: a line of
the combined family with a new beginning, if nothing else in it changes, else as a JSON object with the columns, which
names the format that it was of. So what no column has is in no masked line. A line that cannot be read is masked as a
text; of what that could miss something in, only the shape is kept.

Facts that the masked line no longer has, such as the visitor and the country, travel with it
(`tidemark.privacy.facts`), so that a masked line is read to the same row again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, Pieces, flags_of, plain, where
from tidemark.parse.columns import Knowledge, describe
from tidemark.parse.detect import Detected, read
from tidemark.parse.format import Format
from tidemark.parse.text import text_of
from tidemark.privacy.facts import Opened, columns_of, written
from tidemark.privacy.optout import opted_out
from tidemark.privacy.salts import Salts
from tidemark.privacy.texts import NONE, TextMask
from tidemark.settings import Settings
from tidemark.settings.privacy import ANONYMOUS, EXACT, MASKED, Privacy, SitePrivacy

# The format of a line that is written anew, and the key by which it names the format that it was of.
WRITTEN_AS, _READ_AS = "nginx_json", "read_as"
# The columns of bronze.access_log that masking changes.
MASKABLE = "value binary, format string, fields string"
TEXTS = ("path", "query", "referrer", "host")
DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)
# What a masked line of the combined family has between address and time.
_NO_USER = " - -"
_TIME = " ["
_PLAIN_RESULT = r"^ \d{3} (?:\d+|-) ?$"


@dataclass(frozen=True)
class Masking:
    """What is kept of lines; `key` is the visitor key, which never appears in a plan or a log. `seals`: the facts of
    masked lines go through Kafka."""

    privacy: Privacy
    key: bytes
    salts: Salts
    seals: bool = False

    @classmethod
    def of(cls, settings: Settings, key: bytes, *, seals: bool = False) -> Masking:
        """That of a home."""
        return cls(settings.privacy, key, Salts.of(settings), seals)

    def __repr__(self) -> str:
        return f"Masking({self.privacy})"


def columns(
    knowledge: Knowledge, masking: Masking, lines: Arrays, *, trusted: bool = False, origins: bool = True
) -> dict[str, pa.Array]:
    """The columns of `tidemark.parse.detect.fields` and `tidemark.parse.columns.describe` of lines with the columns
    `value`, `format`, `fields`, `site`, `chunk` and `privacy`; and these four of them that masking may change:
    `value`, `format`, `fields` and `privacy`.

    `trusted`: the facts in `privacy` are from bronze, otherwise from a sender. Without `origins` the columns that say
    where a request comes from are left out."""
    detected, found = read(lines, knowledge.reading)
    opened = Opened.of(masking.key, lines["site"], lines["privacy"], trusted=trusted)
    if opened and not trusted:
        opened = opened.without(_unmasked(opened, found))
    masks = (
        _masks(masking.privacy, lines["site"], detected, opened, knowledge.reading.formats)
        if masking.privacy.active
        else {}
    )
    before = found
    for mask, rows in (each for some in masks.values() for each in some):
        found = found | {name: masked_rows(mask, found[name], rows) for name in TEXTS}
    client = found["client_ip"]
    # Facts have what masked addresses would be looked up for.
    known = without(client, opened.levels > EXACT) if opened else client
    described = describe(knowledge, lines["site"], found | {"client_ip": known}, origins=origins)
    found = found | described
    if opened:
        found["client_ip"] = client
        found |= opened.put_into(found)
        found["read_as"] = _read_as(lines["value"], found["read_as"], opened)
        anonymous = opened.levels == ANONYMOUS
        found["client_ip"] = without(found["client_ip"], anonymous)
    found |= {name: lines[name] for name in ("value", "format", "fields")}
    found["privacy"] = where(opened.levels > EXACT, lines["privacy"], None) if opened else lines["privacy"]
    for level, some in masks.items():
        found |= _of_level(masking, level, some, detected, before, found, lines)
    # The types of all batches are the same.
    coded = [name for name, column in described.items() if pa.types.is_dictionary(column.type)]
    return found | {name: _encoded(found[name]) for name in coded}


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


Masks = dict[int, list[tuple[TextMask, Flags]]]
Index = np.ndarray[Any, np.dtype[np.int64]]


def _masks(
    privacy: Privacy, site: pa.Array, detected: Detected, opened: Opened | None, own: Sequence[Format]
) -> Masks:
    """By level, the masks with the lines that are not masked at that level yet."""
    sites, index = sites_of(privacy, site)
    wanted = np.array([each.level for each in sites], np.int64)[index]
    asked = np.array([each.respect_gpc for each in sites], bool)[index]
    if asked.any():
        wanted = np.where(asked & opted_out(detected, own), ANONYMOUS, wanted)
    if opened:
        wanted = np.where(opened.levels < wanted, wanted, EXACT)
    return by_level(sites, index, wanted)


def sites_of(privacy: Privacy, site: pa.Array) -> tuple[list[SitePrivacy], Index]:
    """The privacy of distinct sites, and each row's index into it."""
    coded = site.dictionary_encode("encode")
    return [privacy.of(name or "") for name in coded.dictionary.to_pylist()], coded.indices.to_numpy()


def by_level(sites: Sequence[SitePrivacy], index: Index, wanted: Index) -> Masks:
    strips = dict.fromkeys(each.strip for each in sites)
    masks: Masks = {}
    for level in sorted({*np.unique(wanted).tolist()} - {EXACT}):
        for strip in strips:
            rows = (wanted == level) & np.array([each.strip == strip for each in sites], bool)[index]
            if rows.any():
                masks.setdefault(level, []).append((TextMask(level, strip), rows))
    return masks


def _unmasked(opened: Opened, found: Arrays) -> Flags:
    """Lines that have facts although they are not masked: somebody has put the facts of another line to them."""
    coded = plain(found["client_ip"]).dictionary_encode("encode")
    index = coded.indices.to_numpy()
    given = flags_of(pc.is_valid(coded.dictionary))
    masked = flags_of(pc.equal(TextMask(MASKED, ()).addresses(coded.dictionary), coded.dictionary))
    wrong = (given & ~masked)[index] | flags_of(pc.is_valid(found["remote_user"]))
    known = given[index]
    agent = flags_of(pc.is_valid(found["user_agent"]))
    unmasked: Flags = (opened.levels > EXACT) & (wrong | ((opened.levels == ANONYMOUS) & (known | agent)))
    return unmasked


def masked_rows(mask: TextMask, column: pa.Array, rows: Flags) -> pa.Array:
    if rows.all():
        return mask.column(column)
    changed = mask.column(where(rows, column, None))
    return pc.coalesce(changed, column)


def without(column: pa.Array, rows: Flags) -> pa.Array:
    """A column with NULL in these rows."""
    return where(~rows, plain(column), None) if rows.any() else column


def _read_as(value: pa.Array, read_as: pa.Array, opened: Opened) -> pa.Array:
    """The formats of lines, by what those that were written anew say of theirs."""
    anew = (opened.levels > EXACT) & flags_of(pc.equal(read_as, WRITTEN_AS))
    if not anew.any():
        return read_as
    said = pc.extract_regex(text_of(where(anew, value, b"")), rf'^\{{"{_READ_AS}":"(?P<name>[\w-]+)"')
    return pc.coalesce(pc.struct_field(said, "name"), read_as)


def _of_level(
    masking: Masking,
    level: int,
    masks: list[tuple[TextMask, Flags]],
    detected: Detected,
    before: Arrays,
    found: Arrays,
    lines: Arrays,
) -> dict[str, pa.Array]:
    """The changed columns of lines that are masked at a level, where `masks` has each mask with its lines. `before` are
    the columns as read, `found` those with masked texts."""
    rows = np.logical_or.reduce([each for _, each in masks])
    readable = rows & detected.read.sound
    client = clients(masks[0][0], found["client_ip"], rows)
    agent = without(found["user_agent"], rows) if level == ANONYMOUS else found["user_agent"]
    user = where(~rows, found["remote_user"], None)
    said, visitor = _sealed(
        masking, level, readable & flags_of(pc.is_valid(found["event_time"])), found, lines
    )
    new = {"client_ip": client, "user_agent": agent, "remote_user": user, "visitor_id": visitor}
    value, anew = _lines(level, readable, detected, before, {**found, **new}, lines["value"])
    unread = rows & ~readable
    if unread.any():
        for mask, some in masks:
            value = _unread(mask, unread & some, found, lines, value)
    named = {"format": found["format"], "fields": found["fields"]}
    if anew.any():
        named = {
            "format": where(~anew, found["format"], WRITTEN_AS),
            "fields": where(~anew, found["fields"], None),
        }
    return {**new, **named, "value": value, "privacy": where(~rows, found["privacy"], said)}


def clients(mask: TextMask, client: pa.Array, rows: Flags) -> pa.Array:
    coded = client if isinstance(client, pa.DictionaryArray) else client.dictionary_encode("encode")
    masked = mask.addresses(coded.dictionary).take(coded.indices)
    return masked if rows.all() else where(rows, masked, plain(client))


def _sealed(
    masking: Masking, level: int, rows: Flags, found: Arrays, lines: Arrays
) -> tuple[pa.Array, pa.Array]:
    """The facts of these lines, NULL for others, and the visitor ids of all."""
    visitor = found["visitor_id"]
    size = len(visitor)
    if not rows.any():
        return pa.nulls(size, pa.string()), visitor
    coded = visitor if isinstance(visitor, pa.DictionaryArray) else visitor.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    if level == ANONYMOUS:
        days = found["event_time"].cast(pa.int64()).fill_null(0).to_numpy()[rows] // DAY_US
        first = int(days.min())
        codes = codes * (int(days.max()) - first + 1) + days - first
        # The only one of the facts that requests of a visitor differ in.
        forbidden = pc.fill_null(found["disallowed"].cast(pa.int64()), 2)
        codes = codes * 3 + forbidden.to_numpy(zero_copy_only=False)[rows]
    _, where_first, back = np.unique(codes, return_index=True, return_inverse=True)
    chosen = pa.array(np.flatnonzero(rows)[where_first])
    own = {name: plain(found[name]).take(chosen) for name in columns_of(level)}
    if level == ANONYMOUS:
        dates = [EPOCH + timedelta(days=day) for day in days[where_first].tolist()]
        own["visitor_id"] = salted_ids(masking, own["visitor_id"], dates)
    texts = written(masking.key if masking.seals else None, plain(lines["site"]).take(chosen), level, own)
    spread = np.zeros(size, np.int64)
    spread[rows] = back
    index = pa.array(spread, mask=~rows)
    facts = texts.take(index)
    if level != ANONYMOUS:
        return facts, visitor
    ids = own["visitor_id"].dictionary_encode()
    if rows.all():
        return facts, pa.DictionaryArray.from_arrays(ids.indices.take(index), ids.dictionary)
    return facts, where(rows, own["visitor_id"].take(index), plain(visitor))


def salted_ids(masking: Masking, visitors: pa.Array, days: Sequence[date]) -> pa.Array:
    """The ids that visitors have on these days."""
    salts = masking.salts.for_days(days)
    salted = [
        blake2b(visitor.encode(), key=salts[day], digest_size=16).hexdigest()
        for visitor, day in zip(visitors.to_pylist(), days, strict=True)
    ]
    return pa.array(salted, pa.string())


def _lines(
    level: int, rows: Flags, detected: Detected, before: Arrays, found: Arrays, value: pa.Array
) -> tuple[pa.Array, Flags]:
    """The values with the masked lines in these rows, and which of them are written anew."""
    if not rows.any():
        return value, rows
    kept = rows & _same_but_beginning(detected, before, found)
    anew = rows & ~kept
    text = (
        _with_beginning(level, detected, found["client_ip"])
        if kept.any()
        else pa.nulls(len(rows), pa.string())
    )
    if anew.any():
        index = pa.array(np.flatnonzero(anew))
        raw = {
            "event_time": detected.read.columns["event_time"],
            "zoneless": detected.read.columns["zoneless"],
        }
        objects = _objects({name: plain(column.take(index)) for name, column in {**found, **raw}.items()})
        text = pc.replace_with_mask(text, pa.array(anew), objects)
    text = text.cast(pa.binary())
    return text if rows.all() else where(rows, text, value), anew


def _same_but_beginning(detected: Detected, before: Arrays, found: Arrays) -> Flags:
    """Lines of the combined family, without trailing fields, whose masked columns differ from those as read in client
    and user only."""
    parts, lines = detected.lines.parts, detected.lines
    same: Flags = (
        (detected.which < 0) & ~lines.escaped & ~lines.tabbed & ((parts.count == 7) | (parts.count == 3))
    )
    same &= flags_of(pc.is_valid(found["method"])) & flags_of(pc.is_null(found["host"]))
    same &= flags_of(pc.is_valid(found["event_time"]))  # otherwise anything may stand there
    for name in ("path", "query", "referrer"):
        if found[name] is not before[name]:
            old, new = plain(before[name]), plain(found[name])
            same &= flags_of(pc.fill_null(pc.equal(old, new), True))
    if same.any():
        same &= flags_of(pc.match_substring_regex(parts.at(2), _PLAIN_RESULT))
        same &= (parts.count == 3) | flags_of(pc.equal(parts.at(6), ""))
    return same


def _with_beginning(level: int, detected: Detected, client: pa.Array) -> pa.Array:
    """Lines of the combined family with these clients, and without users; anonymous ones without user agents. Of other
    lines, anything."""
    parts = detected.lines.parts
    before = Pieces.of(parts.at(0), _TIME, 1, last=True)
    rest = _from(detected.lines.text, pc.add(pc.binary_length(before.at(0)), len(_TIME)))
    if level == ANONYMOUS:
        quoted = parts.count == 7
        told = Pieces.of(where(quoted, rest, None), '" "', 1, last=True).at(0)
        rest = where(quoted, pc.binary_join_element_wise(told, f'" "{NONE}"', ""), rest)
    return pc.binary_join_element_wise(pc.fill_null(plain(client), NONE), f"{_NO_USER}{_TIME}", rest, "")


def _from(text: pa.Array, first: pa.Array) -> pa.Array:
    """The ends of strings, each from its own byte on."""
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    # Every string as two strings beside each other, of which the second is taken.
    halves = np.repeat(ends, 2)[:-1]
    halves[1::2] = np.minimum(ends[:-1] + pc.fill_null(first, 0).to_numpy(), ends[1:])
    both = pa.StringArray.from_buffers(len(halves) - 1, pa.py_buffer(halves), data)
    return both.take(pa.array(np.arange(1, len(halves), 2)))


def _objects(found: Mapping[str, pa.Array]) -> pa.Array:
    """Lines that say these columns, in the format WRITTEN_AS."""
    time = pc.replace_substring(found["event_time"].cast(pa.string()), " ", "T", max_replacements=1)
    time = where(~flags_of(found["zoneless"]), time, pc.utf8_slice_codeunits(time, 0, -1))
    query = pc.fill_null(pc.binary_join_element_wise("?", found["query"], ""), "")
    fault = where(flags_of(found["status_ok"]), pa.repeat(NONE, len(time)), "?")
    texts = {
        _READ_AS: found["read_as"],
        "time": pc.fill_null(time, "?"),
        "client_ip": pc.fill_null(found["client_ip"], NONE),
        "request_method": found["method"],
        "request": where(flags_of(pc.is_null(found["method"])), pa.repeat(NONE, len(time)), None),
        "request_uri": pc.binary_join_element_wise(found["path"], query, ""),
        "server_protocol": found["protocol"],
        "status": pc.coalesce(found["status"].cast(pa.string()), fault),
        "bytes": found["bytes"].cast(pa.string()),
        "duration_us": found["duration_us"].cast(pa.string()),
        "http_referer": found["referrer"],
        "http_user_agent": found["user_agent"],
        "http_host": found["host"],
        "country_code": found["edge_country"],
    }
    members = []
    for name, text in texts.items():
        member = pc.binary_join_element_wise(f',"{name}":"', _escaped(text), '"', "")
        members.append(pc.fill_null(member, ""))
    return pc.binary_join_element_wise(
        "{", pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1), "}", ""
    )


def _escaped(text: pa.Array) -> pa.Array:
    odd = flags_of(pc.match_substring_regex(text, r'[\\"\t]'))
    if not odd.any():
        return text
    some = text.filter(pa.array(odd))
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t")):
        some = pc.replace_substring(some, old, new)
    return pc.replace_with_mask(text, pa.array(odd), some)


def _unread(mask: TextMask, rows: Flags, found: Arrays, lines: Arrays, value: pa.Array) -> pa.Array:
    """The values with what is kept of these lines, which no format reads."""
    if not rows.any():
        return value
    shape = rows & (~flags_of(found["fits"]) | flags_of(pc.is_valid(lines["chunk"])))
    if mask.level == ANONYMOUS:
        shape = rows
    if shape.any():
        text = text_of(value.filter(pa.array(shape)))
        for pattern, character in ((r"[\pL\pM]", "x"), (r"\pN", "0")):
            text = pc.replace_substring_regex(text, pattern, character)
        value = pc.replace_with_mask(value, pa.array(shape), text.cast(pa.binary()))
    rest = rows & ~shape
    if rest.any():
        some = text_of(value.filter(pa.array(rest))).to_pylist()
        text = pa.array([mask.unread(line) for line in some], pa.string())
        value = pc.replace_with_mask(value, pa.array(rest), text.cast(pa.binary()))
    return value

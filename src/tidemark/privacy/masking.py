"""From lines to columns, and to the lines and columns that the privacy mode of a site leaves.

Columns are masked by the type of field, in the same way for every format, and the line is written from them
(`tidemark.privacy.lines`). Facts that it no longer has, such as the visitor and the country, travel with it
(`tidemark.privacy.facts`), so that a masked line is read to the same row again.

A column that is dictionary-encoded has no values but those of its rows, because files have whole dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, flags_of, plain, spread, where
from tidemark.engine.groups import Groups, encoded
from tidemark.parse.columns import Knowledge, describe
from tidemark.parse.detect import Detected, read
from tidemark.parse.format import Format
from tidemark.parse.text import text_of
from tidemark.privacy.facts import Opened, columns_of, written
from tidemark.privacy.lines import READ_AS, WRITTEN_AS, Masks, rewritten
from tidemark.privacy.optout import opted_out
from tidemark.privacy.salts import Salts
from tidemark.privacy.texts import TextMask
from tidemark.settings import Settings
from tidemark.settings.privacy import ANONYMOUS, EXACT, MASKED, Privacy, SitePrivacy

# The columns of bronze.access_log that masking changes.
MASKABLE = "value binary, format string, fields string"
TEXTS = ("path", "query", "referrer", "host")
DAY_US = 86_400_000_000
EPOCH = date(1970, 1, 1)


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
    detected, fields = read(lines, knowledge.reading)
    opened = Opened.of(masking.key, lines["site"], lines["privacy"], trusted=trusted)
    if opened and not trusted:
        opened = opened.without(_unmasked(opened, fields))
    masks = (
        _masks(masking.privacy, lines["site"], detected, opened, knowledge.reading.formats)
        if masking.privacy.active
        else {}
    )
    changed = np.zeros(len(detected.which), bool)
    for mask, rows in (each for some in masks.values() for each in some):
        for name in TEXTS:
            text = masked_rows(mask, fields[name], rows)
            if text is not fields[name]:
                changed |= flags_of(pc.not_equal(text, fields[name]))
                fields[name] = text
    client = fields["client_ip"]
    # Facts have what masked addresses would be looked up for.
    known = without(client, opened.levels > EXACT) if opened else client
    described = describe(knowledge, lines["site"], fields | {"client_ip": known}, origins=origins)
    fields = fields | described
    if opened:
        fields["client_ip"] = client
        fields |= opened.put_into(fields)
        fields["read_as"] = _read_as(lines["value"], fields["read_as"], opened)
        anonymous = opened.levels == ANONYMOUS
        fields["client_ip"] = without(fields["client_ip"], anonymous)
    fields |= {name: lines[name] for name in ("value", "format", "fields")}
    fields["privacy"] = opened.column if opened else lines["privacy"]
    for level, some in masks.items():
        fields |= _of_level(masking, level, some, detected, changed, fields, lines)
    # The types of all batches are the same.
    coded = [name for name, column in described.items() if pa.types.is_dictionary(column.type)]
    return fields | {name: _encoded(fields[name]) for name in (*coded, "privacy")}


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


Index = np.ndarray[Any, np.dtype[np.int64]]


def _masks(
    privacy: Privacy, site: pa.Array, detected: Detected, opened: Opened | None, own: Sequence[Format]
) -> dict[int, Masks]:
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


def by_level(sites: Sequence[SitePrivacy], index: Index, wanted: Index) -> dict[int, Masks]:
    strips = dict.fromkeys(each.strip for each in sites)
    masks: dict[int, Masks] = {}
    for level in (MASKED, ANONYMOUS):
        of_level = wanted == level
        for strip in strips if of_level.any() else ():
            rows = of_level & np.array([each.strip == strip for each in sites], bool)[index]
            if rows.any():
                masks.setdefault(level, []).append((TextMask(level, strip), rows))
    return masks


def _unmasked(opened: Opened, fields: Arrays) -> Flags:
    """Lines that have facts although they are not masked: somebody has put the facts of another line to them."""
    coded = plain(fields["client_ip"]).dictionary_encode("encode")
    index = coded.indices.to_numpy()
    given = flags_of(pc.is_valid(coded.dictionary))
    masked = flags_of(pc.equal(TextMask(MASKED, ()).addresses(coded.dictionary), coded.dictionary))
    wrong = (given & ~masked)[index] | flags_of(pc.is_valid(fields["remote_user"]))
    known = given[index]
    agent = flags_of(pc.is_valid(fields["user_agent"]))
    unmasked: Flags = (opened.levels > EXACT) & (wrong | ((opened.levels == ANONYMOUS) & (known | agent)))
    return unmasked


def masked_rows(mask: TextMask, column: pa.Array, rows: Flags) -> pa.Array:
    if rows.all():
        return mask.column(column)
    some = where(rows, column, None)
    masked = mask.column(some)
    return column if masked is some else pc.coalesce(masked, column)


def without(column: pa.Array, rows: Flags) -> pa.Array:
    """A column with NULL in these rows."""
    return where(~rows, plain(column), None) if rows.any() else column


def _read_as(value: pa.Array, read_as: pa.Array, opened: Opened) -> pa.Array:
    """The formats of lines, by what those that were written as objects say of theirs."""
    as_objects = (opened.levels > EXACT) & flags_of(pc.equal(read_as, WRITTEN_AS))
    if not as_objects.any():
        return read_as
    names = pc.extract_regex(text_of(where(as_objects, value, b"")), rf'^\{{"{READ_AS}":"(?P<name>[\w-]+)"')
    return pc.coalesce(pc.struct_field(names, "name"), read_as)


def _of_level(
    masking: Masking,
    level: int,
    masks: Masks,
    detected: Detected,
    changed: Flags,
    fields: Arrays,
    lines: Arrays,
) -> dict[str, pa.Array]:
    """The changed columns of lines that are masked at a level, where `masks` has each mask with its lines. `fields` are
    the columns with masked texts, `changed` says whether these are others than in the line."""
    rows = np.logical_or.reduce([each for _, each in masks])
    sound = rows & detected.read.sound & flags_of(pc.is_valid(fields["event_time"]))
    facts, visitor = _facts(masking, level, sound, fields, lines)
    new = {
        "client_ip": clients(masks[0][0], fields["client_ip"], rows),
        "user_agent": without(fields["user_agent"], rows) if level == ANONYMOUS else fields["user_agent"],
        "remote_user": without(fields["remote_user"], rows),
        "visitor_id": visitor,
        # Lines have facts already where those of several levels are in a batch.
        "privacy": facts
        if fields["privacy"].null_count == len(rows)
        else where(rows, plain(facts), plain(fields["privacy"])),
    }
    value, as_objects = rewritten(level, masks, detected, changed, {**fields, **new}, lines["chunk"])
    named = {"format": fields["format"], "fields": fields["fields"]}
    if as_objects.any():
        named = {
            "format": where(~as_objects, fields["format"], WRITTEN_AS),
            "fields": where(~as_objects, fields["fields"], None),
        }
    return {**new, **named, "value": value}


def clients(mask: TextMask, client: pa.Array, rows: Flags) -> pa.Array:
    coded = encoded(client)
    masked = spread(mask.addresses(coded.dictionary), coded.indices)
    return masked if rows.all() else where(rows, plain(masked), plain(client))


def _facts(
    masking: Masking, level: int, rows: Flags, fields: Arrays, lines: Arrays
) -> tuple[pa.DictionaryArray, pa.Array]:
    """The facts of these lines, NULL for others, and the visitor ids of all."""
    visitor = fields["visitor_id"]
    size = len(visitor)
    if not rows.any():
        return pa.nulls(size, pa.string()).dictionary_encode(), visitor
    some = np.flatnonzero(rows)
    key = [visitor.take(pa.array(some))]
    if level == ANONYMOUS:
        days = fields["event_time"].cast(pa.int64()).fill_null(0).to_numpy()[some] // DAY_US
        # The only one of the facts that requests of a visitor differ in.
        key += [pa.array(days), fields["disallowed"].take(pa.array(some))]
    groups = Groups.by(key)
    chosen = pa.array(some[groups.first])
    own = {name: plain(fields[name].take(chosen)) for name in columns_of(level)}
    if level == ANONYMOUS:
        dates = [EPOCH + timedelta(days=day) for day in days[groups.first].tolist()]
        own["visitor_id"] = salted_ids(masking, own["visitor_id"], dates)
    sites = plain(lines["site"].take(chosen))
    texts = written(masking.key if masking.seals else None, sites, level, own)
    of_row = np.zeros(size, np.int64)
    of_row[some] = groups.of
    index = pa.array(of_row, mask=~rows)
    facts = spread(texts, index)
    if level != ANONYMOUS:
        return facts, visitor
    if rows.all():
        return facts, spread(own["visitor_id"], index)
    return facts, where(rows, own["visitor_id"].take(index), plain(visitor))


def salted_ids(masking: Masking, visitors: pa.Array, days: Sequence[date]) -> pa.Array:
    """The ids that visitors have on these days."""
    salts = masking.salts.for_days(days)
    salted = [
        blake2b(visitor.encode(), key=salts[day], digest_size=16).hexdigest()
        for visitor, day in zip(visitors.to_pylist(), days, strict=True)
    ]
    return pa.array(salted, pa.string())

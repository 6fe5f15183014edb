"""What travels with a masked line because the line no longer has it: the header `privacy` of its record, and the column
of bronze.

It is text, `name=value` separated by tabs, and ends with a keyed hash, so that no sender without the home's visitor key
can say who a visitor is. The hash covers the site, but not the line: equal facts of a visitor are checked once.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, plain, where
from tidemark.parse.columns import OF_ADDRESS
from tidemark.settings.privacy import ANONYMOUS, EXACT, MASKED, MODES

# Columns that come from the user agent.
OF_AGENT = ("browser", "os", "device", "bot", "bot_name", "ai_purpose", "disallowed")
_OF_LEVEL = {MASKED: ("visitor_id", *OF_ADDRESS), ANONYMOUS: ("visitor_id", *OF_ADDRESS, *OF_AGENT)}
Levels = np.ndarray[Any, np.dtype[np.int64]]
_HASH = "hash"
_BOOLEANS = {"true": True, "false": False}


def columns_of(level: int) -> tuple[str, ...]:
    """The columns that travel with a line of a level."""
    return _OF_LEVEL[level]


def written(key: bytes, site: pa.Array, level: int, columns: Arrays) -> pa.Array:
    """The facts of lines of a level, by the columns that travel with them."""
    parts = [f"mode={MODES[level]}"]
    for name in columns_of(level):
        values = plain(columns[name])
        kind = values.type
        texts = values if pa.types.is_string(kind) else values.cast(pa.string())
        parts.append(pc.fill_null(pc.binary_join_element_wise(f"\t{name}=", texts, ""), ""))
    said = pc.binary_join_element_wise(*parts, "")
    hashes = [_hash(key, *each) for each in zip(plain(site).to_pylist(), said.to_pylist(), strict=True)]
    return pc.binary_join_element_wise(said, f"\t{_HASH}=", pa.array(hashes, pa.string()), "")


def _hash(key: bytes, site: str, text: str) -> str:
    return blake2b(f"tidemark privacy\0{site}\0{text}".encode(), key=key, digest_size=12).hexdigest()


@dataclass(frozen=True)
class Opened:
    """The facts of lines: the level of each (EXACT without facts), and their columns."""

    levels: Levels
    values: Sequence[Mapping[str, str]]
    codes: Levels

    @classmethod
    def of(cls, key: bytes, site: pa.Array, facts: pa.Array, *, trusted: bool) -> Opened | None:
        """Facts as text; None if there are none. Those whose hash is wrong are left out, unless all are `trusted`."""
        if facts.null_count == len(facts):
            return None
        coded_site, coded = site.dictionary_encode("encode"), facts.dictionary_encode("encode")
        number = len(coded_site.dictionary)
        pairs, codes = np.unique(
            coded.indices.to_numpy() * number + coded_site.indices.to_numpy(), return_inverse=True
        )
        sites, texts = coded_site.dictionary.to_pylist(), coded.dictionary.to_pylist()
        values = [_read(key, sites[pair % number], texts[pair // number], trusted) for pair in pairs.tolist()]
        levels = np.array([MODES.index(each["mode"]) if each else EXACT for each in values])
        return cls(levels[codes], values, codes)

    def without(self, rows: Flags) -> Opened:
        """The same without the facts of these lines."""
        return Opened(np.where(rows, EXACT, self.levels), self.values, self.codes)

    def put_into(self, columns: Arrays) -> dict[str, pa.Array]:
        """The columns that come from the facts, in place of those of the lines."""
        found: dict[str, pa.Array] = {}
        for level in (MASKED, ANONYMOUS):
            rows = self.levels == level
            if rows.any():
                for name in _OF_LEVEL[level]:
                    found[name] = self._put(name, rows, found.get(name, columns[name]))
        return found

    def _put(self, name: str, rows: Flags, column: pa.Array) -> pa.Array:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        values = _typed([each.get(name) for each in self.values], kind)
        index = pa.array(self.codes)
        if pa.types.is_dictionary(column.type):
            coded = values.dictionary_encode()
            mine = pa.DictionaryArray.from_arrays(coded.indices.take(index), coded.dictionary)
            if rows.all():
                return mine
            values, column = values.cast(kind), column.cast(kind)
        return where(rows, values.take(index), column)


def _typed(texts: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pa.array([text and _BOOLEANS.get(text) for text in texts], kind)
    return pa.array(texts, pa.string()).cast(kind)


# The same visitors come again and again.
@lru_cache(maxsize=16_384)
def _read(key: bytes, site: str | None, text: str | None, trusted: bool) -> Mapping[str, str]:
    """The values of facts; empty for none."""
    if text is None:
        return {}
    said, _, given = text.rpartition(f"\t{_HASH}=")
    if not trusted and not hmac.compare_digest(given.encode(), _hash(key, site or "", said).encode()):
        return {}
    return dict(part.split("=", 1) for part in said.split("\t"))


def levels_of(facts: pa.Array) -> Levels:
    """The levels of lines by their facts, which are trusted."""
    coded = facts.dictionary_encode("encode")
    modes = [_read(b"", "", text, True).get("mode", MODES[EXACT]) for text in coded.dictionary.to_pylist()]
    levels: Levels = np.array([MODES.index(mode) for mode in modes], np.int64)[coded.indices.to_numpy()]
    return levels

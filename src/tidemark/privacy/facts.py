"""What travels with a masked line because the line no longer has it: the header `privacy` of its record, and the column
of bronze.

It is text, `name=value` separated by tabs. In a record it ends with a keyed hash, so that no sender without the home's
visitor key can say who a visitor is. The hash covers the site, but not the line: equal facts of a visitor are checked
once. Facts that the pipeline writes to bronze need no hash, because nobody else writes there.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Flags, Parts, flags_of, plain, spread, where
from tidemark.parse.columns import OF_ADDRESS
from tidemark.settings.privacy import ANONYMOUS, EXACT, MASKED, MODES

# Columns that come from the user agent.
OF_AGENT = ("browser", "os", "device", "bot", "bot_name", "ai_purpose", "disallowed")
_OF_LEVEL = {MASKED: ("visitor_id", *OF_ADDRESS), ANONYMOUS: ("visitor_id", *OF_ADDRESS, *OF_AGENT)}
Levels = np.ndarray[Any, np.dtype[np.int64]]
_MODE, _HASH, _BETWEEN = "mode", "hash", "\t"


def columns_of(level: int) -> tuple[str, ...]:
    """The columns that travel with a line of a level."""
    return _OF_LEVEL[level]


def written(key: bytes | None, site: pa.Array, level: int, columns: Arrays) -> pa.Array:
    """The facts of lines of a level, by the columns that travel with them; sealed if there is a key."""
    parts = [pa.repeat(f"{_MODE}={MODES[level]}", len(site))]
    for name in columns_of(level):
        values = plain(columns[name])
        if values.null_count < len(values):
            texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
            parts.append(pc.fill_null(pc.binary_join_element_wise(f"{_BETWEEN}{name}=", texts, ""), ""))
    facts = pc.binary_join_element_wise(*parts, "")
    if key is None:
        return facts
    hashes = [_hash(key, *each) for each in zip(plain(site).to_pylist(), facts.to_pylist(), strict=True)]
    return pc.binary_join_element_wise(facts, f"{_BETWEEN}{_HASH}=", pa.array(hashes, pa.string()), "")


def _hash(key: bytes, site: str, text: str) -> str:
    return blake2b(f"tidemark privacy\0{site}\0{text}".encode(), key=key, digest_size=12).hexdigest()


@dataclass(frozen=True)
class Opened:
    """The facts of lines: the level of each line (EXACT without facts), the distinct facts as a whole and as
    `name=value`, and for each line the index of its own."""

    levels: Levels
    texts: pa.Array
    parts: Parts
    codes: Levels

    @classmethod
    def of(cls, key: bytes, site: pa.Array, facts: pa.Array, *, trusted: bool) -> Opened | None:
        """Facts as text; None if there are none. Those whose hash is wrong are left out, unless all are `trusted`."""
        if facts.null_count == len(facts):
            return None
        coded_site, coded = site.dictionary_encode("encode"), facts.dictionary_encode("encode")
        number = len(coded_site.dictionary)
        both = pa.array(coded.indices.to_numpy() * number + coded_site.indices.to_numpy()).dictionary_encode()
        text, of_site = np.divmod(both.dictionary.to_numpy(), number)
        texts = coded.dictionary.take(pa.array(text))
        if not trusted:
            sites = coded_site.dictionary.take(pa.array(of_site))
            pairs = zip(sites.to_pylist(), texts.to_pylist(), strict=True)
            sealed = [_is_sealed(key, name or "", each) for name, each in pairs]
            texts = where(np.array(sealed, bool), texts, None)
        parts = Parts.of(texts, _BETWEEN)
        levels = np.full(len(texts), EXACT)
        for level in (MASKED, ANONYMOUS):
            levels[flags_of(pc.equal(parts.at(0), f"{_MODE}={MODES[level]}"))] = level
        codes = both.indices.to_numpy()
        return cls(levels[codes], texts, parts, codes)

    def without(self, rows: Flags) -> Opened:
        """The same without the facts of these lines."""
        return replace(self, levels=np.where(rows, EXACT, self.levels))

    @property
    def column(self) -> pa.DictionaryArray:
        """Each line's facts as a whole, NULL without any."""
        kept = self.levels > EXACT
        # No line, and so no file, has the others.
        used = np.zeros(len(self.texts), bool)
        used[self.codes[kept]] = True
        return spread(where(used, self.texts, None), pa.array(self.codes, mask=~kept))

    def put_into(self, columns: Arrays) -> dict[str, pa.Array]:
        """The columns that come from the facts, in place of those of the lines."""
        replaced: dict[str, pa.Array] = {}
        for level in (MASKED, ANONYMOUS):
            rows = self.levels == level
            if rows.any():
                for name in _OF_LEVEL[level]:
                    replaced[name] = self._put(name, rows, replaced.get(name, columns[name]))
        return replaced

    def _put(self, name: str, rows: Flags, column: pa.Array) -> pa.Array:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        values = self._values(name).cast(kind)
        index = pa.array(self.codes)
        if pa.types.is_dictionary(column.type):
            if rows.all():
                return spread(values, index)
            column = column.cast(kind)
        return where(rows, values.take(index), column)

    def _values(self, name: str) -> pa.Array:
        """The values of a name in the distinct facts, as texts."""
        parts = self.parts
        start = f"{name}="
        places = np.flatnonzero(flags_of(pc.starts_with(parts.flat, start)))
        if not len(places):
            return pa.nulls(len(parts.count), pa.string())
        spread = np.full(len(parts.count), -1)
        spread[np.searchsorted(parts.start, places, side="right") - 1] = np.arange(len(places))
        values = pc.utf8_slice_codeunits(parts.flat.take(pa.array(places)), len(start))
        return values.take(pa.array(spread, mask=spread < 0))


# The same visitors come again and again.
@lru_cache(maxsize=16_384)
def _is_sealed(key: bytes, site: str, text: str | None) -> bool:
    facts, _, given = (text or "").rpartition(f"{_BETWEEN}{_HASH}=")
    return hmac.compare_digest(given.encode(), _hash(key, site, facts).encode())

"""Masks lines before they are sent to Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import plain
from tidemark.kafka.records import DEFAULT_SITE, KEY_MARK, Headers, Record, own_keys
from tidemark.local.directories import prepare_home
from tidemark.parse.columns import Knowledge
from tidemark.parse.custom import knowledge_of
from tidemark.parse.visitor import has_visitor_key, make_visitor_key, visitor_key
from tidemark.privacy.masking import Masking, columns
from tidemark.privacy.salts import require_lasting_home
from tidemark.settings import Settings

_NAMED = ("site", "format", "fields")
_ROWS = 40_000
_RESULTS = ("format", "fields", "privacy")


@dataclass(frozen=True)
class Door:
    """Masks lines by the settings of a home, with its visitor key."""

    knowledge: Knowledge
    masking: Masking

    @classmethod
    def of(cls, settings: Settings) -> Door | None:
        """None if lines of all sites are kept as they are. Creates the visitor key if the home has none. Raises
        SettingError and PlatformError."""
        if not settings.privacy.active:
            return None
        require_lasting_home(settings)
        if not has_visitor_key(settings):
            prepare_home(settings)
            make_visitor_key(settings)
        key = visitor_key(settings)
        return cls(knowledge_of(settings, key), Masking.of(settings, key, seals=True))

    def records(
        self, lines: Sequence[bytes], named: Mapping[str, str], chunks: Sequence[str] = ()
    ) -> list[Record]:
        """The records of lines whose headers are `named`: site, format, fields, id. `chunks`: if the lines are parts of
        overlong ones, the header `chunk` of each."""
        inside = {} if chunks else _with_keys(lines, named)
        if not inside:
            return self._records(lines, named, chunks)
        rest = [line for number, line in enumerate(lines) if number not in inside]
        others = iter(self._records(rest, named, ()))
        return [
            self._records([line], inside[number], ())[0] if number in inside else next(others)
            for number, line in enumerate(lines)
        ]

    def _records(
        self, lines: Sequence[bytes], named: Mapping[str, str], chunks: Sequence[str]
    ) -> list[Record]:
        site = named.get("site") or DEFAULT_SITE
        kept: Headers = [("site", site)] if site != DEFAULT_SITE else []
        kept += [("id", named["id"])] if named.get("id") else []
        records: list[Record] = []
        for start in range(0, len(lines), _ROWS):
            some, parts = lines[start : start + _ROWS], chunks[start : start + _ROWS]
            masked = columns(self.knowledge, self.masking, _arrays(some, site, named, parts), origins=False)
            headers = _headers(kept, masked)
            if parts:
                headers = [[*own, ("chunk", part)] for own, part in zip(headers, parts, strict=True)]
            records += zip(masked["value"].to_pylist(), headers, strict=True)
        return records


def _arrays(
    lines: Sequence[bytes], site: str, named: Mapping[str, str], chunks: Sequence[str]
) -> dict[str, pa.Array]:
    size = len(lines)
    texts = {name: named.get(name) or None for name in ("format", "fields")}
    return {
        "value": pa.array(lines, pa.binary()),
        "site": pa.repeat(site, size),
        **{name: pa.repeat(pa.scalar(text, pa.string()), size) for name, text in texts.items()},
        "chunk": pa.array(chunks, pa.string()) if chunks else pa.nulls(size, pa.string()),
        "privacy": pa.nulls(size, pa.string()),
    }


def _headers(kept: Headers, masked: Mapping[str, pa.Array]) -> list[Headers]:
    """The headers of each line: these, and its format, fields and privacy. Equal ones are the same object."""
    joined = [pc.fill_null(plain(masked[name]), "") for name in _RESULTS]
    coded = pc.binary_join_element_wise(*joined, "\0").dictionary_encode()
    distinct: list[Headers] = []
    for each in coded.dictionary.to_pylist():
        texts = zip(_RESULTS, each.split("\0"), strict=True)
        distinct.append([*kept, *[(name, text) for name, text in texts if text]])
    return [distinct[code] for code in coded.indices.to_pylist()]


def _with_keys(lines: Sequence[bytes], named: Mapping[str, str]) -> dict[int, Mapping[str, str]]:
    """By number, what lines say that are objects with keys in place of headers, which the masked line no longer has."""
    numbers = [number for number, line in enumerate(lines) if line[:1] == b"{" and KEY_MARK in line]
    given = {name: text for name, text in named.items() if text}
    return {number: {**own_keys(lines[number]), **given} for number in numbers}

"""Masks lines before they are sent to Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import plain
from tidemark.kafka.records import DEFAULT_SITE, Headers, Record, own_keys
from tidemark.local.directories import prepare_home
from tidemark.parse.columns import Knowledge
from tidemark.parse.custom import knowledge_of
from tidemark.parse.visitor import has_visitor_key, make_visitor_key, visitor_key
from tidemark.privacy.masking import Masking, columns
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
        if not has_visitor_key(settings):
            prepare_home(settings)
            make_visitor_key(settings)
        key = visitor_key(settings)
        return cls(knowledge_of(settings, key), Masking.of(settings, key))

    def records(
        self, lines: Sequence[bytes], named: Mapping[str, str], chunks: Sequence[str] = ()
    ) -> list[Record]:
        """The records of lines whose headers are `named`: site, format, fields, id. `chunks`: if the lines are parts of
        overlong ones, the header `chunk` of each."""
        inside = {} if chunks else dict(_with_keys(lines, named))
        if not inside:
            return list(self._records(lines, named, chunks))
        rest = [line for number, line in enumerate(lines) if number not in inside]
        others = self._records(rest, named, ())
        return [
            next(self._records([line], inside[number], ())) if number in inside else next(others)
            for number, line in enumerate(lines)
        ]

    def _records(
        self, lines: Sequence[bytes], named: Mapping[str, str], chunks: Sequence[str]
    ) -> Iterator[Record]:
        site = named.get("site") or DEFAULT_SITE
        kept: Headers = [("site", site)] if site != DEFAULT_SITE else []
        kept += [("id", named["id"])] if named.get("id") else []
        for start in range(0, len(lines), _ROWS):
            some, parts = lines[start : start + _ROWS], chunks[start : start + _ROWS]
            masked = columns(self.knowledge, self.masking, _arrays(some, site, named, parts))
            values = masked["value"].to_pylist()
            coded = _together(masked)
            own: list[Headers] = [
                [*kept, *((name, text) for name, text in zip(_RESULTS, each, strict=True) if text)]
                for each in coded[1]
            ]
            for number, (value, code) in enumerate(zip(values, coded[0], strict=True)):
                yield value, [*own[code], ("chunk", parts[number])] if parts else own[code]


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


def _together(masked: Mapping[str, pa.Array]) -> tuple[list[int], list[tuple[str | None, ...]]]:
    """For each line the number of its headers, and these: format, fields and privacy."""
    joined = [pc.fill_null(plain(masked[name]), "") for name in _RESULTS]
    coded = pc.binary_join_element_wise(*joined, "\0").dictionary_encode()
    return coded.indices.to_pylist(), [tuple(each.split("\0")) for each in coded.dictionary.to_pylist()]


def _with_keys(lines: Sequence[bytes], named: Mapping[str, str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The numbers of lines that are objects with keys in place of headers, which the masked line no longer has."""
    for number, line in enumerate(lines):
        if texts := own_keys(line):
            yield number, {**texts, **{name: text for name, text in named.items() if text}}

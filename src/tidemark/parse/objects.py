"""Formats whose lines are JSON objects.

Arrow reads the lines of a block in one pass, with the types that the first one has. A block that it refuses, because a
line is not JSON, repeats a key or has a value of another type, is halved until few lines remain, which Python's parser
decides on one by one. Both give the same texts for the same line.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidemark.engine.arrays import Flags, Parts, changed, flags_of, where
from tidemark.parse import json_repair, templates
from tidemark.parse.format import Format
from tidemark.parse.layout import Refine
from tidemark.parse.text import Lines, decoded, escaped_controls, has_byte_of, is_control
from tidemark.parse.values import Read, columns_of, each_distinct, present
from tidemark.parse.writing import Composed, Template

# A block of at most this many lines is not halved.
_FEW = 64
_NUMBER = pa.decimal128(38, 9)
_MOST_DIGITS = 28
# Where shippers put lines that are no text, as the numbers of their bytes.
_BYTES_AT = ("MESSAGE",)
# In front of a path that is the name of one key, with its dots.
_FLAT = "="
_REQUIRED = ("time", "status")
_REQUEST = ("request", "target", "route")
# What an object without these may be is not certain, unless it is marked as one of its format.
_CLIENT = ("client_ip", "method", "request")


@dataclass(frozen=True)
class Objects:
    """JSON objects: whether a line is one, and by path (names with dots in between; a key may have them, too) the texts
    of values. A value is a string, a number, or the first string of an array; others are NULL. Paths that no object has
    may be left out."""

    sound: Flags
    texts: Mapping[str, pa.Array]

    def take(self, rows: np.ndarray, paths: Iterable[str]) -> Objects:
        """The objects of these numbers, with these paths."""
        index = pa.array(rows)
        there = {path: self.texts[path].take(index) for path in paths if path in self.texts}
        return Objects(self.sound[rows], there)

    def first(self, paths: Iterable[str]) -> pa.Array:
        """The text at the first of these paths at which each object has more than a dash or nothing; where none has
        more, that text."""
        there = [self.texts[path] for path in paths if path in self.texts]
        if not there:
            return pa.nulls(len(self.sound), pa.string())
        if len(there) == 1:
            return there[0]
        best = present(there[0])
        for other in there[1:]:
            if not best.null_count:
                return best
            best = pc.coalesce(best, present(other))
        return pc.coalesce(best, *there)

    def has(self, paths: Iterable[str]) -> Flags:
        """Whether objects have a text at one of these paths."""
        has_any = np.zeros(len(self.sound), bool)
        for path in paths:
            if path in self.texts:
                has_any |= flags_of(pc.is_valid(self.texts[path]))
        return has_any


@dataclass(frozen=True)
class JsonFormat(Format):
    """A format of JSON objects. `keys`: for each text that `tidemark.parse.values.columns_of` takes, the paths of
    values, the preferred one first. An object is of the format if it has all paths `marks`, a time, a status, and a
    request or its target; in a format without marks, also an address or a method. No object is of it that has at a path
    of `unless` a text that begins so."""

    marks: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]] = field(compare=False)
    unless: Mapping[str, str] = field(default_factory=dict, compare=False, kw_only=True)
    refine: Refine = field(default=dict, compare=False, kw_only=True)
    compose: Mapping[str, Composed] = field(default_factory=dict, compare=False, kw_only=True)

    @property
    def paths(self) -> list[str]:
        return [*self.marks, *self.unless, *(path for paths in self.keys.values() for path in paths)]

    def may_be(self, text: pa.Array) -> Flags:
        return is_object(text)

    def read(self, lines: Lines) -> Read:
        return self.of(objects_of(lines.text, self.paths))

    def fits(self, objects: Objects) -> Flags:
        """Whether objects are of this format; they have all its paths."""
        fitting = objects.sound
        for _, paths in self._required:
            if not fitting.any():
                break
            fitting = fitting & objects.has(paths)
        for path, begin in self.unless.items():
            fitting = fitting & ~flags_of(pc.starts_with(objects.first([path]), begin))
        return fitting

    def of(self, objects: Objects) -> Read:
        """The fields of objects."""
        texts = {name: _printable(objects.first(paths)) for name, paths in self.keys.items()}
        return columns_of(self.refine(texts), self.fits(objects))

    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        return self.progress_of(*objects_among(lines.text, self.paths))

    def progress_of(self, flagged: Flags, objects: Objects) -> tuple[np.ndarray, np.ndarray]:
        """The same for lines of which the flagged ones are these objects."""
        reached, lacking = np.zeros(len(flagged), np.int64), np.full(len(flagged), "", object)
        rows = np.flatnonzero(flagged)
        lacking[rows[~objects.sound]] = "JSON"
        for name, paths in self._required:
            there = objects.has(paths)
            reached[rows[there]] += 1
            lacking[rows[~there & (lacking[rows] == "")]] = name
        return reached, lacking

    def template(self, columns: Collection[str]) -> Template:
        example = self.examples[0] if self.examples else ""
        return templates.of_object(self.keys, self.marks, example, columns, self.compose)

    @property
    def _required(self) -> list[tuple[str, Sequence[str]]]:
        def paths(names: Iterable[str]) -> list[str]:
            return [path for name in names for path in self.keys.get(name, ())]

        wanted = [("request", paths(_REQUEST)), *([] if self.marks else [("client_ip", paths(_CLIENT))])]
        return [
            *((path, [path]) for path in self.marks),
            *((name, self.keys[name]) for name in _REQUIRED),
            *((name, places) for name, places in wanted if places),
        ]


_INITIALS = {"Ip": "IP", "Uri": "URI", "Url": "URL", "Http": "HTTP", "Us": "US", "Ms": "MS"}


def spellings(names: Iterable[str]) -> Iterator[str]:
    """Names of keys as people spell them: `client_ip` also as clientIp, clientIP, ClientIp, ClientIP, client-ip,
    Client-Ip, Client-IP, Client_Ip, Client_ip, CLIENT_IP and clientip. Names within names, with dots in between, stay
    as they are."""
    for name in names:
        if "." in name or not name[0].isalpha():
            yield name
            continue
        words = name.split("_")
        titles = [word.capitalize() for word in words]
        initials = [_INITIALS.get(word, word) for word in titles]
        yield from dict.fromkeys(
            (
                name,
                *(words[0] + "".join(each[1:]) for each in (titles, initials)),
                *(mark.join(each) for mark in ("", "-", "_") for each in (titles, initials)),
                "-".join(words),
                name.capitalize(),
                name.upper(),
                "".join(words),
            )
        )


def is_object(text: pa.Array) -> Flags:
    """Whether lines look like JSON objects."""
    begun = flags_of(pc.starts_with(text, "{"))
    return begun & flags_of(pc.ends_with(text, "}")) if begun.any() else begun


def objects_among(text: pa.Array, paths: Iterable[str]) -> tuple[Flags, Objects]:
    """Which lines look like objects, and these."""
    flagged = is_object(text)
    return flagged, objects_of(text.filter(pa.array(flagged)), paths)


def objects_of(text: pa.Array, paths: Iterable[str], strings: pa.Array | None = None) -> Objects:
    """The objects in lines that look like one; `text` has no control characters but tabs. `strings` are the texts
    between quotes in the lines, and maybe more, if they are known."""
    written, text = text, json_repair.repaired(text)
    if strings is None or text is not written:
        strings = Parts.of(text, '"').flat
    wanted = _present(strings, tuple(paths))
    blocks = list(_blocks(text, wanted))
    sound = np.concatenate([np.zeros(0, bool), *(block.sound for block in blocks)])
    texts = {
        path: pa.concat_arrays([pa.array([], pa.string()), *(block.texts[path] for block in blocks)])
        for path in wanted
    }
    for path in [path for path in texts if path.startswith(_FLAT)]:
        flat, nested = texts.pop(path), texts.get(path[1:])
        texts[path[1:]] = flat if nested is None else pc.coalesce(nested, flat)
    return Objects(sound, texts)


def _blocks(text: pa.Array, paths: Sequence[str], *, finished: bool = False) -> Iterable[Objects]:
    if len(text) > _FEW:
        try:
            yield _by_arrow(text, paths)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if not finished and (other := json_repair.finished(text)) is not text:
                yield from _blocks(other, paths, finished=True)
                return
            middle = len(text) // 2
            yield from _blocks(text[:middle], paths, finished=True)
            yield from _blocks(text[middle:], paths, finished=True)
    elif len(text):
        yield _one_by_one(text if finished else json_repair.finished(text), paths)


def _by_arrow(text: pa.Array, paths: Sequence[str]) -> Objects:
    """Raises ArrowInvalid if a line is not an object with values of the types that the first one has."""
    first = _object(text[0].as_py())
    if first is None:
        raise pa.ArrowInvalid("not an object")
    whole = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    lines = pc.binary_join(whole, "\n")[0].as_buffer()
    if not paths:
        return Objects(np.zeros(len(text), bool), {})
    schema = pa.schema(_fields(_tree(paths), first))
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(lines.size, 1)),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    ).combine_chunks()
    if table.num_rows != len(text):
        raise pa.ArrowInvalid("not one object a line")
    objects = pa.concat_arrays(table.to_struct_array().chunks)
    return Objects(np.ones(len(text), bool), {path: _at(objects, path) for path in paths})


def _present(strings: pa.Array, paths: tuple[str, ...]) -> list[str]:
    """The paths, nested or flat, whose names are among the strings: a parser takes time for each one that it looks
    for."""
    names, wanted = _looked_for(paths)
    there = set(names.take(pc.unique(pc.index_in(strings, names)).drop_null()).to_pylist())
    return [path for path, needed in wanted.items() if needed <= there]


@lru_cache(maxsize=32)
def _looked_for(paths: tuple[str, ...]) -> tuple[pa.Array, dict[str, frozenset[str]]]:
    """All names of the paths, and those of each one, nested and flat."""
    both = sorted({*paths, *(f"{_FLAT}{path}" for path in paths if "." in path)})
    wanted = {path: frozenset(_names(path)) for path in both}
    return pa.array(sorted(frozenset().union(*wanted.values())), pa.string()), wanted


def _names(path: str) -> list[str]:
    return [path[1:]] if path.startswith(_FLAT) else path.split(".")


def _tree(paths: Iterable[str]) -> dict[str, Any]:
    """Names within names; a path may end at a name that others go through."""
    tree: dict[str, Any] = {}
    for path in paths:
        place = tree
        for name in _names(path):
            place = place.setdefault(name, {})
        place[""] = True
    return tree


def _fields(tree: Mapping[str, Any], example: Mapping[str, Any]) -> list[pa.Field]:
    return [pa.field(name, _type(inner, example.get(name))) for name, inner in tree.items() if name]


def _type(inner: Mapping[str, Any], value: Any) -> pa.DataType:
    """The type of a value like this one; a value that differs is an error, so no text is overlooked."""
    if isinstance(value, dict) or (value is None and inner and "" not in inner):
        return pa.struct(_fields(inner, value or {}))
    if isinstance(value, list):
        return pa.list_(_type({}, value[0] if value else None))
    if isinstance(value, bool):
        return pa.bool_()
    return _NUMBER if isinstance(value, _Number) else pa.string()


def _at(objects: pa.StructArray, path: str) -> pa.Array:
    """The texts at a path."""
    column: pa.Array = objects
    for name in _names(path):
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return pa.nulls(len(objects), pa.string())
        column = pc.struct_field(column, name)
    if column.type == pa.list_(pa.string()):
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        starts = column.offsets.to_numpy()[:-1]
        return Parts(column.values, starts, counts).at(0)
    if path in _BYTES_AT and column.type == pa.list_(_NUMBER):
        return pa.array([_text_of_bytes(each) for each in column.to_pylist()], pa.string())
    if pa.types.is_decimal(column.type):
        return _plain(column.cast(pa.string()))
    return column if pa.types.is_string(column.type) else pa.nulls(len(objects), pa.string())


def _text_of_bytes(numbers: Sequence[Any] | None) -> str | None:
    try:
        return None if numbers is None else decoded(bytes(int(each) for each in numbers))
    except (TypeError, ValueError):
        return None


def _plain(number: pa.Array) -> pa.Array:
    """Decimal numbers without zeros at the end."""
    number = where(~flags_of(pc.equal(number, "0E-9")), number, "0")
    decimals = flags_of(pc.match_substring(number, "."))
    return where(~decimals, number, pc.ascii_rtrim(pc.ascii_rtrim(number, "0"), "."))


def _printable(text: pa.Array) -> pa.Array:
    r"""Control characters as servers write them in other formats, `\xHH`."""
    return changed(text, has_byte_of(text, is_control), lambda some: each_distinct(some, _escaped))


def _escaped(text: str) -> str:
    return escaped_controls(text).replace("\t", "\\x09")


class _Number(str):
    """A number in JSON, as text without an exponent and without zeros at its end."""

    @staticmethod
    def of(text: str) -> _Number:
        number = Decimal(text)
        if abs(number.adjusted()) < _MOST_DIGITS and len(text) < 2 * _MOST_DIGITS:
            text = format(number, "f")
            text = text.rstrip("0").rstrip(".") if "." in text else text
        return _Number("0" if text == "-0" else text)


_DECODER = json.JSONDecoder(
    strict=False, parse_float=_Number.of, parse_int=_Number.of, parse_constant=_Number
)


def _object(line: str) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(line)
        return value if isinstance(value, dict) else None
    except (ValueError, ArithmeticError, RecursionError):
        return None


def _one_by_one(text: pa.Array, paths: Sequence[str]) -> Objects:
    parsed = [_object(line) for line in text.to_pylist()]
    rows = [[_value(each, path) for each in parsed] for path in paths]
    sound = np.array([each is not None for each in parsed])
    texts = {path: pa.array(row, pa.string()) for path, row in zip(paths, rows, strict=True)}
    return Objects(sound, texts)


def _value(value: Any, path: str) -> str | None:
    for name in _names(path):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    if path in _BYTES_AT and isinstance(value, list) and value and isinstance(value[0], _Number):
        return _text_of_bytes(value)
    if isinstance(value, list):
        value = value[0] if value and not isinstance(value[0], _Number) else None
    if not isinstance(value, str):
        return None
    # Half of a surrogate pair is not text.
    return value.encode("utf-8", "replace").decode()

"""Splits lines of an unknown layout by separators, quotes, brackets and keys into columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pyarrow as pa

from tidemark.engine.arrays import Flags
from tidemark.parse.infer_kinds import LEAST_SHARE, MOST, Column

# Which lines are the same but for quotes and optional keys: at most so many different shapes.
_MOST_SHAPES = 24
# A shape or a key that fewer lines have is an exception.
_RARE = 0.01
# A key stands in at least this share of lines where it could also be a part of a value.
_USUAL = 0.5
_KEY = r"[A-Za-z_@%][\w.@-]*"
_SCHEMES = frozenset(("http", "https", "ws", "wss", "ftp", "urn", "data", "tcp", "udp"))
_HEADING = re.compile(r"^[A-Za-z_@#][\w .()/%@:-]*$")
# Kinds that are worth a split within a value.
_TELLING = frozenset(
    ("time", "time_dmy", "time_mdy", "date", "date_dmy", "date_mdy", "clock", "address", "request", "method", "path",
     "status", "duration", "protocol")
)  # fmt: skip

_MOST_FIELDS = 80
_LEVELS = 2
# So many lines show whether others are worth a look, with a little less in common.
_FEW, _LEAST_OF_FEW = 100, 0.8
# Lines with fewer fields in common are of no layout.
_LEAST_IN_COMMON = 4

# Fixed texts, and in between the numbers of columns.
Shape = tuple[str | int, ...]
# The fixed texts of a line, and the keys of its values.
_Outline = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Split:
    """Columns of the lines of these `rows`, and their shapes, those with most fixed text first. `header`: the first
    line has the names of the columns."""

    columns: tuple[Column, ...]
    shapes: tuple[Shape, ...]
    rows: np.ndarray
    header: bool = False


@dataclass(frozen=True)
class _Scanned:
    """A line's fixed texts, one more than its values, and in between these, each with its key if it has one."""

    texts: tuple[str, ...]
    values: tuple[str, ...]
    keys: tuple[str, ...]

    def up_to(self, length: int) -> _Scanned:
        """The first values, of which the last one takes the rest of the line."""
        if len(self.values) < length:
            return self
        rest = [
            part for pair in zip(self.values[length - 1 :], self.texts[length:], strict=True) for part in pair
        ]
        values = (*self.values[: length - 1], "".join(rest))
        return _Scanned((*self.texts[:length], ""), values, self.keys[:length])

    @property
    def shape(self) -> _Outline:
        return self.texts, self.keys


def splits(lines: Sequence[str]) -> Iterator[Split]:
    """The ways to split lines that nearly all of them allow."""
    for separator in ("\t", "||", "|", ";", "^", "~", ",", " "):
        if sum(separator in line for line in lines) < LEAST_SHARE * len(lines):
            continue
        keys = dict.fromkeys((*_keys(lines, separator), frozenset[str]()))
        attempts = ((each, whole) for whole in (True, False) for each in keys)
        split = next(filter(None, (_split(lines, separator, *attempt) for attempt in attempts)), None)
        if split is not None:
            yield split


def _split(lines: Sequence[str], separator: str, keys: frozenset[str], whole: bool) -> Split | None:
    """The split of lines that are alike as a `whole`, or else up to the last field that they have in common."""
    pattern = _pattern(separator, keys)
    few = [_scan(line, pattern, separator) for line in lines[:: max(len(lines) // _FEW, 1)]]
    if not _outlines(few, whole, _LEAST_OF_FEW)[1]:
        return None
    scanned, usual = _outlines([_scan(line, pattern, separator) for line in lines], whole, LEAST_SHARE)
    if not usual:
        return None
    names: dict[tuple[str, int], int] = {}
    shapes, numbers = list[Shape](), dict[_Outline, list[int]]()
    for texts, of_texts in sorted(usual, key=lambda shape: -sum(map(len, shape[0]))):
        order = [names.setdefault(name, len(names)) for name in _identities(of_texts)]
        numbers[texts, of_texts] = order
        shapes.append(_shape(texts, order))
    rows = [row for row, each in enumerate(scanned) if each.shape in numbers]
    columns: list[list[str | None]] = [[None] * len(rows) for _ in names]
    for place, row in enumerate(rows):
        for number, value in zip(numbers[scanned[row].shape], scanned[row].values, strict=True):
            columns[number][place] = value
    titles, first = [name for name, _ in names], int(rows[0] == 0)
    if header := _is_heading(scanned[0].values, [column[first:] for column in columns]):
        titles, rows = list(scanned[0].values), rows[first:]
        columns = [column[first:] for column in columns]
    texts_of = [pa.array(column, pa.string()) for column in columns]
    return _refined(Split(tuple(map(Column, titles, texts_of)), tuple(shapes), np.array(rows), header))


def _outlines(
    scanned: Sequence[_Scanned], whole: bool, least: float
) -> tuple[Sequence[_Scanned], Collection[_Outline]]:
    """The lines, and the outlines that at least this share of them has, which differ in quotes and keys; none if there
    are not so many. Unless they have to be alike as a `whole`, the last field in common may take the rest of lines."""
    common = Counter(each.shape for each in scanned).most_common(_MOST_SHAPES)
    (main, most), unnamed = common[0], common[0][0][1].count("")
    usual = {
        shape: count
        for shape, count in common
        if shape[1].count("") == unnamed and (count > _RARE * len(scanned) or count == most)
    }
    if sum(usual.values()) >= least * len(scanned):
        return scanned, usual
    length = 0 if whole else _length_in_common(scanned, main, least)
    if not length:
        return scanned, ()
    return [each.up_to(length) for each in scanned], [((*main[0][:length], ""), main[1][:length])]


def _identities(keys: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Columns by their key, or by their number among those without one."""
    seen = Counter[str]()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1


def _shape(texts: Sequence[str], numbers: Sequence[int]) -> Shape:
    between = [part for text, number in zip(texts, numbers, strict=False) for part in (text, number)]
    return (*between, texts[-1])


def _keys(lines: Sequence[str], separator: str) -> tuple[frozenset[str], frozenset[str]]:
    """The texts `key=`, `key: ` and `key:` in front of values: those that several lines have, and the usual ones."""
    start = re.compile(rf"(?:^|[{re.escape(separator)}\[({{,;|\"] *)({_KEY})(= ?|: ?)")
    counts = Counter(key for line in lines for key in set(start.findall(line)))
    least = _USUAL * len(lines)
    colons = sum(count >= least for (_, sign), count in counts.items() if sign.startswith(":"))
    keys = {
        name + sign: count
        for (name, sign), count in counts.items()
        if name.lower() not in _SCHEMES
        and (sign.startswith("=") or (count >= least and (sign == ": " or colons >= 2)))
    }
    several = max(_RARE * len(lines), 1)
    return (
        frozenset(key for key, count in keys.items() if count > several),
        frozenset(key for key, count in keys.items() if count > max(least, 1)),
    )


def _pattern(separator: str, keys: frozenset[str]) -> re.Pattern[str]:
    """One value with the text around it."""
    key = "|".join(map(re.escape, sorted(keys, key=lambda each: (-len(each), each))))
    if separator == " ":
        end = r"(?=[ ,;|)\]}\[\"]|:(?: |$)|$)"
        word, tail = r"(?:[^ ]*[^ ,;:|])?", r"[,;:|]*"
    else:
        mark, first = re.escape(separator), re.escape(separator[0])
        end = rf"(?= *(?:{mark}|$))"
        word, tail = rf"(?:[^{first}]*[^{first} ])?", rf" *(?:{mark})?"
    groups = (
        rf"\"(?P<q>[^\"]*)\"{end}",
        rf"'(?P<s>[^']*)'{end}",
        rf"\[(?P<b>[^\]]*)\]{end}",
        rf"\((?P<p>[^)]*)\){end}",
        rf"\{{(?P<c>[^}}]*)\}}{end}",
        rf"<(?P<a>[^>]*)>{end}",
    )
    value = "|".join((*groups, f"(?P<w>{word})"))
    return re.compile(rf"(?P<lead> *)(?P<key>(?:{key or '(?!)'})?)(?:{value})(?P<tail>{tail})")


_GROUPS = {
    "q": ('"', '"'), "s": ("'", "'"), "b": ("[", "]"), "p": ("(", ")"), "c": ("{", "}"), "a": ("<", ">"), "w": ("", ""),
}  # fmt: skip


def _scan(line: str, pattern: re.Pattern[str], separator: str) -> _Scanned:
    texts, values, keys = list[str](), list[str](), list[str]()
    pending, place = "", 0
    while True:
        match = pattern.match(line, place)
        if len(values) == _MOST_FIELDS:  # of no layout
            values[-1] += pending + line[place:]
            return _Scanned((*texts, ""), tuple(values), tuple(keys))
        if match is None or (separator == " " and match.end() == place):
            pending += line[place : place + 1]
            place += 1
            if place > len(line):
                break
            continue
        name = next(group for group in _GROUPS if match[group] is not None)
        opening, closing = _GROUPS[name]
        key = match["key"]
        texts.append(pending + match["lead"] + key + opening)
        values.append(match[name] or "")
        keys.append(key.rstrip("=: "))
        pending, place = closing + match["tail"], match.end()
        if place >= len(line) and not (separator != " " and match["tail"].endswith(separator)):
            break
    return _Scanned((*texts, pending), tuple(values), tuple(keys))


def _length_in_common(scanned: Sequence[_Scanned], main: _Outline, least: float) -> int:
    """How many of the first fields that many lines have in common; 0 if they are too few."""
    lengths = sorted(
        (
            sum(
                1
                for _ in takewhile(
                    lambda pair: pair[0] == pair[1], zip(each.texts[:-1], main[0][:-1], strict=False)
                )
            )
            for each in scanned
        ),
        reverse=True,
    )
    length = lengths[math.ceil(least * len(lengths)) - 1]
    return length if length >= _LEAST_IN_COMMON else 0


def _is_heading(first: Sequence[str], columns: Sequence[Sequence[str | None]]) -> bool:
    """Whether the first line's values are the names of the columns."""
    if len(first) != len(columns) or len(first) < _LEAST_IN_COMMON or len(set(first)) < len(first):
        return False
    return all(
        _HEADING.match(name) and name not in column for name, column in zip(first, columns, strict=True)
    )


def _refined(split: Split, levels: int = _LEVELS) -> Split:
    """The columns that have fields within their values are split further, so many times within each other."""
    columns: list[Column] = []
    inside: dict[int, Shape] = {}
    for number, column in enumerate(split.columns):
        inner = _inner(column, levels - 1) if levels else None
        if inner is None:
            inside[number] = (len(columns),)
            columns.append(column)
        else:
            inside[number] = tuple(
                part if isinstance(part, str) else part + len(columns) for part in inner.shapes[0]
            )
            columns.extend(inner.columns)
    shapes = tuple(
        _joined(each for part in shape for each in (inside[part] if isinstance(part, int) else (part,)))
        for shape in split.shapes
    )
    return Split(tuple(columns), shapes, split.rows, split.header)


def _joined(parts: Iterator[str | int]) -> Shape:
    """The shape with neighbouring texts in one."""
    shape: list[str | int] = []
    for part in parts:
        if isinstance(part, str) and shape and isinstance(shape[-1], str):
            shape[-1] += part
        else:
            shape.append(part)
    return tuple(shape)


def _inner(column: Column, levels: int) -> Split | None:
    """The fields within the values of a column that are of no kind themselves; None if none is useful."""
    if column.kinds - {"word", "agent", "target", "url"} or len(column.present) < 2:
        return None
    if "agent" in column.kinds or not column.kinds.isdisjoint(("path", "url")):
        return None
    values = column.values.to_pylist()
    present = [value for value, missing in zip(values, column.missing, strict=True) if not missing]
    for separator in (" ", ",", "|", ";", "/"):
        if sum(separator in value for value in present) < MOST * len(present):
            continue
        split = _alike(values, column.missing, present, separator, levels)
        if split is not None and any(each.kinds & _TELLING for each in split.columns):
            return split
    return None


def _alike(
    values: Sequence[str | None], missing: Flags, present: Sequence[str], separator: str, levels: int
) -> Split | None:
    """The columns within values that all have one shape."""
    pattern = _pattern(separator, _keys(present, separator)[1])
    scanned = [_scan(value, pattern, separator) for value in present]
    (texts, keys), count = Counter(each.shape for each in scanned).most_common(1)[0]
    if count < MOST * len(present) or len(keys) < 2:
        return None
    rows = iter(scanned)
    columns: list[list[str | None]] = [[] for _ in keys]
    for none in missing:
        each = None if none else next(rows)
        for number, column in enumerate(columns):
            column.append(each.values[number] if each is not None and each.shape == (texts, keys) else None)
    texts_of = [pa.array(column, pa.string()) for column in columns]
    shape = _shape(texts, range(len(keys)))
    return _refined(Split(tuple(map(Column, keys, texts_of)), (shape,), np.arange(len(values))), levels)

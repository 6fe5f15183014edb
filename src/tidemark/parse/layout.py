"""Formats whose lines are fields in a fixed order, with fixed text in between."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, flags_at, flags_of, matches, where
from tidemark.parse import templates
from tidemark.parse.format import Format
from tidemark.parse.text import Lines, squeezed
from tidemark.parse.values import Read, columns_of
from tidemark.parse.writing import Composed, Template

# Changes the texts of fields, by name, before they become columns.
Refine = Callable[[dict[str, pa.Array]], Mapping[str, pa.Array]]
Steps = list[tuple[str, str]]

# What the values of fields look like, by name and by how names begin, for lines that splitting does not read.
_WORD = r"[^ \t]+"
_TEXT = ".*?"
_TYPES = {
    "client_ip": r"[^ \t\",\]]+(?:, ?[^ \t\",\]]+)*",
    "time": r"[^\]\"]*?\d[^\]\"]*?",
    "status": r"\d{3}|-|-1",
    "bytes": r"\d+|-|\.",
    "method": r"[^ \t\"]+",
    "protocol": r"[^ \t\"]+",
    "duration": r"[-+]?[\d.]+|-",
}
# The fields of own formats in which the client's address stands in a list, or in front of a port.
_LIKE = {"forwarded_client": "client_ip", "client_port": "client_ip"}
# The evidence that a line is nearly of a format. A time of day is not an address.
_TELLING = {
    "client_ip": r"^\[?(?:\d+\.\d+\.\d+\.\d+|[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*|(?:[0-9A-Fa-f]+:){5,}[0-9A-Fa-f.:]+)\]?"
    r"(?::\d+)?(?:,.*)?$",
    "time": r"^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} )? ?\d",
    "status": r"^(?:\d{3}|-)$",
    "bytes": r"^(?:\d+|-|\.)(?: |$)",
}
_FIELD = re.compile(r'"\$(\w+)"|\$(\w+)')


@dataclass(frozen=True)
class Layout(Format):
    """A format with a layout: its line with `$name` in place of each field, as nginx writes it.

    A field ends where the text after it begins for the first time. The last field takes the rest of the line unless a
    text follows it. Fields named as in `tidemark.parse.values.columns_of` become columns, those with a leading
    underscore only have to be there. The first field, and those with an underscore between spaces, are one word. Of
    several layouts the first that a line has all fields of is taken. All lines match `pattern`, a regular expression.
    In a `squeezed` format several spaces count as one.

    Lines that are not read so are matched against the layout with a pattern for each type of field, which also takes
    quotes inside a quoted field, a dash without quotes in place of one, and a line that ends within its last field.
    """

    pattern: str
    layouts: tuple[str, ...]
    refine: Refine = field(default=dict, compare=False, kw_only=True)
    compose: Mapping[str, Composed] = field(default_factory=dict, compare=False, kw_only=True)
    squeezed: bool = field(default=False, kw_only=True)

    def may_be(self, text: pa.Array) -> Flags:
        return matches(text, self.pattern)

    def read(self, lines: Lines) -> Read:
        text = self._text(lines)
        result = Read.nothing(len(text))
        for layout in self.layouts:
            rows = np.flatnonzero(lines.sound & ~result.sound)
            if not len(rows):
                break
            some = lines.take(rows)
            texts, reached = _split(text.take(pa.array(rows)), layout)
            sound = reached == len(_steps(layout)[1])
            if not sound.any():
                continue
            if not self.verbatim:
                texts = {name: some.restored(each) for name, each in texts.items()}
            result = result.replaced(rows, columns_of(self.refine(texts), sound))
        return self._matched(lines, text, result)

    def texts(self, text: pa.Array) -> Iterator[Mapping[str, pa.Array]]:
        """By layout, the texts of the fields of lines; NULL where a line is not of it."""
        for layout in self.layouts:
            yield _split(text, layout)[0]

    def _matched(self, lines: Lines, text: pa.Array, read: Read) -> Read:
        """The same with the lines that splitting has not read, or has not read to a time and a status."""
        if self.verbatim:  # has neither quotes nor escapes
            return read
        weak = ~(read.sound & flags_of(read.columns["status_ok"]))
        weak |= flags_of(pc.is_null(read.columns["event_time"]))
        rows = np.flatnonzero(lines.sound & weak)
        for layout in self.layouts:
            if not len(rows):
                break
            parts = pc.extract_regex(text.take(pa.array(rows)), _typed(layout))
            sound = flags_of(pc.is_valid(parts))
            if sound.any():
                some = lines.take(rows)
                names = [field.name for field in parts.type]
                texts = dict(zip(names, map(some.restored, parts.flatten()), strict=True))
                matched = columns_of(self.refine(texts), sound)
                sound &= flags_of(matched.columns["status_ok"])
                read = read.kept(~flags_at(rows[sound], len(text))).replaced(rows, matched.kept(sound))
                rows = rows[~sound]
        return read

    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        text = self._text(lines)
        rows = np.flatnonzero(self.may_be(text))
        reached, lacking = np.zeros(len(text), np.int64), np.full(len(text), None, object)
        for layout in self.layouts if len(rows) else ():
            others, others_lacking = _progress(text.take(pa.array(rows)), layout)
            better = (others > reached[rows]) | (others_lacking == "")
            lacking[rows[better]] = others_lacking[better]
            reached[rows] = np.maximum(reached[rows], others)
        return reached, lacking

    def template(self, columns: Collection[str]) -> Template:
        """A template of the first layout that the first example is of."""
        for layout in self.layouts if self.examples else ():
            first, steps = _steps(layout)
            # All fields, each with a name of its own.
            numbered = [f"{name.lstrip('_')}_{number}" for number, (name, _) in enumerate(steps)]
            behind = (f"${name}{text}" for name, (_, text) in zip(numbered, steps, strict=True))
            text = self._text(Lines.of(pa.array(self.examples[:1]), np.ones(1, bool)))
            parts, reached = _split(text, first + "".join(behind))
            if reached[0] == len(steps):
                sample = [parts[name][0].as_py() for name in numbered]
                return templates.of_layout(first, steps, sample, verbatim=self.verbatim, compose=self.compose)
        first, steps = _steps(self.layouts[0])
        return templates.of_layout(first, steps, None, verbatim=self.verbatim, compose=self.compose)

    def _text(self, lines: Lines) -> pa.Array:
        text = lines.text if self.verbatim else lines.hidden
        return squeezed(text) if self.squeezed else text


@cache
def _typed(layout: str) -> str:
    """A regular expression for lines of a layout, with a group for each field that is not an underscore's."""
    pattern, place = "^", 0
    for match in _FIELD.finditer(layout):
        quoted, name = match[1] is not None, match[1] or match[2]
        pattern += re.escape(layout[place : match.start()])
        place = match.end()
        last = place == len(layout)
        value = _type_of(name, quoted=quoted, last=last, behind=layout[place : place + 1])
        group = f"(?:{value})" if name.startswith("_") else f"(?P<{name}>{value})"
        end = '"?' if last else '"'
        pattern += f'(?:"{group}{end}|-)' if quoted else group
    return f"{pattern}{re.escape(layout[place:])}$"


def _type_of(name: str, *, quoted: bool, last: bool, behind: str) -> str:
    known = _TYPES.get("duration" if name.startswith("duration_") else _LIKE.get(name, name))
    if known and not (last and not quoted):
        return known
    if last and not quoted:
        return ".*"
    return _WORD if name.startswith("_") and not quoted and behind == " " else _TEXT


def _steps(layout: str) -> tuple[str, Steps]:
    """The text in front of the first field, and each field's name and the text after it."""
    first, *parts = re.split(r"\$(\w+)", layout)
    return first, list(zip(parts[::2], parts[1::2], strict=True))


def _progress(text: pa.Array, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """How many fields of a layout lines have, with values as they should be, before the first one that they lack, and
    that one's name; empty if they have all."""
    parts, reached = _split(text, layout)
    names = [name for name, _ in _steps(layout)[1]]
    for name, pattern in _TELLING.items():
        if name in parts:
            sound = matches(parts[name], pattern)
            reached = np.where(sound, reached, np.minimum(reached, names.index(name)))
    return reached, np.array([*names, ""])[reached]


def _split(text: pa.Array, layout: str) -> tuple[dict[str, pa.Array], np.ndarray]:
    """The fields of lines by name, and how many of the layout's fields each line has."""
    first, steps = _steps(layout)
    rest = text
    if first:
        begun = flags_of(pc.starts_with(text, first))
        rest = Parts.of(where(begun, text, None), first, 1).at(1)
    reached, texts = np.zeros(len(text), np.int64), {}
    place = 0
    while place < len(steps):
        run = _alike(steps, place)
        name, behind = steps[place]
        value = rest
        if _is_list(steps[place]):
            pattern = rf"^(?P<value>[^ ,]*(?:(?:, ?| : )[^ ,]+)*){re.escape(behind)}(?P<rest>(?s).*)$"
            value, rest = pc.extract_regex(rest, pattern).flatten()
            if place == len(steps) - 1:  # nothing follows the last text
                value = where(flags_of(pc.equal(rest, "")), value, None)
        elif run > 1:  # fields with the same text after each are split at once
            parts = Parts.of(rest, behind, run)
            for number, (each, _) in enumerate(steps[place : place + run]):
                reached += parts.count > number + 1
                if not each.startswith("_"):
                    texts[each] = where(parts.count > number + 1, parts.at(number), None)
            rest = parts.at(run)
            place += run
            continue
        elif behind:
            parts = Parts.of(rest, behind, 1)
            value, rest = where(parts.count == 2, parts.at(0), None), parts.at(1)
            if place == len(steps) - 1:  # nothing follows the last text
                value = where(flags_of(pc.equal(rest, "")), value, None)
            elif _is_word(steps, place, first):
                value = where(~flags_of(pc.match_substring(value, " ")), value, None)
                rest = where(flags_of(pc.is_valid(value)), rest, None)
        reached += flags_of(pc.is_valid(value))
        if not name.startswith("_"):
            texts[name] = value
        place += 1
    return texts, reached


def _alike(steps: Steps, place: int) -> int:
    """The number of fields from this one on that have the same single character after them; not the last field."""
    behind = steps[place][1]
    if behind not in (" ", "\t", "|", ";"):
        return 1
    end = place
    while end < len(steps) - 1 and steps[end][1] == behind and not _is_list(steps[end]):
        end += 1
    return max(end - place, 1)


def _is_list(step: tuple[str, str]) -> bool:
    """Whether a field is a list of addresses, or of upstream servers' values, with spaces inside and after it."""
    return step[0].startswith(("forwarded", "upstream")) and step[1].startswith(" ")


def _is_word(steps: Steps, place: int, first: str) -> bool:
    """Whether a field must not have spaces inside."""
    name, behind = steps[place]
    before = steps[place - 1][1] if place else first
    return behind[0] == " " and (not before or (name.startswith("_") and before.endswith(" ")))

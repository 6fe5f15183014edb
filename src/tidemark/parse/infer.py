"""Infers the layout of log lines that no format reads, from a sample of them.

Lines are split by quotes, brackets, separators and keys; the values and names of the columns tell the fields. What is
inferred is an own format (see `tidemark.parse.custom`), which reads the sample again: it is only used if the lines have
what the columns have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, matches
from tidemark.errors import SettingError
from tidemark.parse.custom import own_format
from tidemark.parse.infer_kinds import LEAST_SHARE, Column
from tidemark.parse.infer_objects import columns_of_objects
from tidemark.parse.infer_roles import MOST_WITHOUT_STATUS, roles_of
from tidemark.parse.infer_split import Shape, Split, splits
from tidemark.parse.infer_times import Fields, Roles
from tidemark.parse.nearest import unwrapped
from tidemark.parse.text import Lines, squeezed, text_of
from tidemark.parse.values import Read, columns_of
from tidemark.settings.formats import FormatSettings

# Fewer lines are no sample.
LEAST_LINES = 3
# So many lines are split one by one; the format that is inferred reads all.
_EXAMPLES = 1_000
_MOST_BYTES = 65_536
# Longer lines are not split, which takes time.
_MOST_SPLIT_BYTES = 4_096
_NAME = "inferred"
# A request line has so many fields more than one: method, target and protocol.
_IN_REQUEST = 2
# Fields that are parts of a time.
_PARTS = frozenset(("clock", "zone", "half"))
# A first column that looks like an envelope: like the name of a container, in front of its line as `docker compose`
# writes it, or a time in front of another one, as of `docker logs -t`.
_COLUMN = r"^(?:(?:[A-Za-z0-9_.-]*[A-Za-z.]|[A-Za-z0-9.]*) +\| |\d{4}-\d\d-\d\dT[^ ]+ \d{4}-\d\d-\d\dT)"
_NAMED_DATE = "^[A-Z][a-z]{2}"
# A dump of a database, whose rows may be requests.
_STATEMENT = r"^(?i)(?:INSERT|REPLACE|UPDATE|DELETE|SELECT|COPY|CREATE|ALTER)\s"


@dataclass(frozen=True)
class Inferred:
    """An own format that reads a `share` of the sample's lines. `notes` name the columns that are left out, and why.
    `example` is a line that it reads."""

    format: FormatSettings
    share: float
    notes: tuple[str, ...]
    example: str

    @property
    def shown(self) -> str:
        """The layout, or the fields of objects, in one line."""
        if self.format.keys:
            return ", ".join(f"{field} = {', '.join(paths)}" for field, paths in self.format.keys.items())
        return self.format.layout[0]


@dataclass(frozen=True)
class Ambiguous:
    """A layout with a field that the sample does not decide: the question, and a format for either answer."""

    question: str
    readings: tuple[Inferred, ...]


def infer(lines: Sequence[bytes]) -> Inferred | Ambiguous | None:
    """The format of lines of access logs that no format reads; None if they have none in common, or are no requests."""
    text = text_of(pa.array(lines, pa.binary()))
    sample = Lines.of(text, flags_of(pc.less_equal(pc.binary_length(text), _MOST_BYTES)))
    sample = sample.take(
        np.flatnonzero(sample.sound & flags_of(pc.greater(pc.binary_length(sample.text), 0)))
    )
    if len(sample.text) < max(LEAST_LINES, LEAST_SHARE * len(lines)):
        return None
    if matches(sample.text, _STATEMENT).mean() > 1 - LEAST_SHARE:
        return None
    inner = unwrapped(sample)
    if inner is sample:
        return _best(_readings(sample))
    if matches(sample.text, _COLUMN).mean() > 1 - LEAST_SHARE:
        return _best(_readings(sample)) or _best(_readings(inner))
    return _best([*_readings(inner), *_readings(sample)])


def _best(readings: Iterable[Inferred | Ambiguous]) -> Inferred | Ambiguous | None:
    return max(readings, key=_fields, default=None)


def _fields(reading: Inferred | Ambiguous) -> tuple[int, bool, int]:
    """A layout is better the more fields it has, and the fewer columns it leaves open. Tabs separate nothing else."""
    first = reading if isinstance(reading, Inferred) else reading.readings[0]
    names = re.findall(r"\$(\w+)", " ".join(first.format.layout[:1])) or list(first.format.keys)
    known = [name for name in names if not name.startswith("_") and name not in _PARTS]
    weight = len(known) + (_IN_REQUEST if "request" in known else 0)
    unknown = sum(name.startswith("_") for name in names)
    return weight, any("\t" in layout for layout in first.format.layout), -unknown


def _readings(lines: Lines) -> Iterator[Inferred | Ambiguous]:
    columns, objects = columns_of_objects(lines.text)
    if columns:
        roles = roles_of(columns)
        if roles is not None:
            formats: list[FormatSettings | None] = [_keys(columns, fields) for fields in roles.readings]
            yield from _checked(lines, roles, formats, columns, objects)
        return
    rows = np.unique(np.linspace(0, len(lines.text) - 1, _EXAMPLES).astype(np.int64))
    short = flags_of(pc.less_equal(pc.binary_length(lines.text.take(pa.array(rows))), _MOST_SPLIT_BYTES))
    if short.mean() < LEAST_SHARE:
        return
    rows = rows[short]
    some = lines.take(rows)
    several = flags_of(pc.match_substring(some.text, "  ")).any()
    for texts, is_squeezed in ((some.hidden, False), (squeezed(some.hidden), True)):
        if is_squeezed and not several:
            continue
        for split in _splits(some, texts, verbatim=not is_squeezed):
            roles = roles_of(split.columns)
            if roles is None:
                continue
            formats = [_layout(split, fields, is_squeezed) for fields in roles.readings]
            first = int(split.header and rows[0] == 0)  # the names of the columns are no line of the log
            rest = lines.take(np.arange(first, len(lines.text)))
            yield from _checked(rest, roles, formats, split.columns, rows[split.rows] - first)


def _splits(lines: Lines, hidden: pa.Array, *, verbatim: bool) -> Iterator[Split]:
    """The ways to split lines; those with tabs between their fields have no escapes."""
    yield from splits(hidden.to_pylist())
    if verbatim and lines.tabbed.any():
        yield from (each for each in splits(lines.text.to_pylist()) if _has_tab(each))


def _has_tab(split: Split) -> bool:
    return any("\t" in part for shape in split.shapes for part in shape if isinstance(part, str))


def _checked(
    lines: Lines,
    roles: Roles,
    formats: Sequence[FormatSettings | None],
    columns: Sequence[Column],
    rows: np.ndarray,
) -> Iterator[Inferred | Ambiguous]:
    """The inferred result, if its formats read the sample as the columns describe it; `rows` are the columns' lines."""
    inferred = []
    for format, fields in zip(formats, roles.readings, strict=True):
        result = None if format is None else _tried(lines, format, fields, columns, rows, roles.notes)
        if result is None:
            return
        inferred.append(result)
    yield inferred[0] if len(inferred) == 1 else Ambiguous(roles.question, tuple(inferred))


def _tried(
    lines: Lines,
    declared: FormatSettings,
    fields: Fields,
    columns: Sequence[Column],
    rows: np.ndarray,
    notes: tuple[str, ...],
) -> Inferred | None:
    try:
        format = own_format(_NAME, declared)
    except SettingError:
        return None
    text = lines.text if format.verbatim else lines.hidden
    read = format.read(lines).kept(format.may_be(text))
    readable = _readable(read)
    if readable.mean() < LEAST_SHARE:
        return None
    texts = {name: lines.take(rows).restored(columns[number].values) for number, name in fields.items()}
    refine = getattr(format, "refine", dict)
    expected = columns_of(refine(dict(texts)), np.ones(len(rows), bool))
    for name in ("event_time", "status", "method", "path", "bytes", "duration_us"):
        one, other = read.columns[name].take(pa.array(rows)), expected.columns[name]
        both = readable[rows] & ~flags_of(pc.is_null(other))
        if both.any() and flags_of(pc.equal(one, other))[both].mean() < LEAST_SHARE:
            return None
    example = lines.text[int(np.flatnonzero(readable)[0])].as_py()
    return Inferred(declared, float(readable.mean()), notes, example)


def _readable(read: Read) -> np.ndarray:
    """The lines with all fields and a time. A status may be lacking, as `-` or 000, if few lines lack it."""
    timed = read.sound & flags_of(pc.is_valid(read.columns["event_time"]))
    with_status = flags_of(pc.is_valid(read.columns["status"]))
    few_without = timed.any() and with_status[timed].mean() >= 1 - MOST_WITHOUT_STATUS
    return timed if few_without else timed & with_status


def _keys(columns: Sequence[Column], fields: Fields) -> FormatSettings:
    keys: dict[str, tuple[str, ...]] = {}
    for number, name in sorted(fields.items()):
        keys[name] = (columns[number].name,)
    return FormatSettings(keys=keys, detected=True)


def _layout(split: Split, fields: Fields, is_squeezed: bool) -> FormatSettings | None:
    layouts = [_rendered(split, shape, fields) for shape in split.shapes]
    usable = tuple(dict.fromkeys(each for each in layouts if each and _has_time_and_status(each)))
    if not usable or not all(layouts):
        return None
    named = any(re.match(r"\$(?:time|date)", each) for each in usable) and _begins_with_name(split)
    return FormatSettings(
        layout=usable, pattern=_NAMED_DATE if named else "", squeezed=is_squeezed, detected=True
    )


def _begins_with_name(split: Split) -> bool:
    """Whether lines begin with the name of a weekday or month, where own formats expect a digit of the time."""
    return bool(re.match(_NAMED_DATE, split.columns[0].present[0].as_py()))


def _has_time_and_status(layout: str) -> bool:
    names = re.findall(r"\$(\w+)", layout)
    return "status" in names and any(name.startswith(("time", "date")) for name in names)


def _rendered(split: Split, shape: Shape, fields: Mapping[int, str]) -> str | None:
    """The layout of a shape; None if its texts and fields cannot be written one after the other."""
    layout = ""
    for place, part in enumerate(shape):
        if isinstance(part, str):
            after_field = place > 0
            if re.search(r"\$\w", part) or (after_field and (not part and place < len(shape) - 1)):
                return None
            if after_field and re.match(r"\w", part):
                return None
            layout += part
        else:
            column = split.columns[part]
            name = fields.get(part) or f"_{_plain(column.name) or part + 1}"
            layout += "$" + name + (":$_port" if name == "client_ip" and column.has_ports else "")
    return layout


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()

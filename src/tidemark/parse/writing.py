"""Lines of a format from columns: a declaration read backwards.

The format's first example decides what the declaration leaves open: how times and durations are written, ports after
addresses and hosts, the scheme in front of a target, and fields without a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, where

_ABSENT = "-"
_SECOND = 1_000_000
# How times are written, without the fraction and the zone after them.
_TIMES = (
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d", "%d/%b/%Y:%H:%M:%S"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "%Y-%m-%dT%H:%M:%S"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "%Y-%m-%d %H:%M:%S"),
    (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", "%Y/%m/%d %H:%M:%S"),
    (r"\d{4}-\d\d-\d\d", "%Y-%m-%d"),
    (r"\d{4}/\d\d/\d\d", "%Y/%m/%d"),
    (r"\d\d:\d\d:\d\d", "%H:%M:%S"),
    (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}", "%a %b %e %H:%M:%S %Y"),
)
_USUAL_TIME = "2026-11-21T10:00:00.000000Z"
_ABSOLUTE = re.compile(r"(?:[A-Z]+ )?(?P<scheme>\w+://)[^/: ]+(?P<port>:\d+)?")
_EPOCH = re.compile(r"(?P<whole>\d{9,10}|\d{13}|\d{16}|\d{19})(?:\.(?P<fraction>\d+))?")
# Fields of a time whose form follows from their name.
_FORMS = {
    "date_dmy": "%d/%m/%Y", "date_mdy": "%m/%d/%Y", "time_dmy": "%d/%m/%Y %H:%M:%S", "time_mdy": "%m/%d/%Y %H:%M:%S",
    "half": "%p",
}  # fmt: skip
# Microseconds in each unit.
_UNITS = {"s": _SECOND, "ms": 1_000, "us": 1, "ns": 1}
# Fields whose text is the column of their name.
_PLAIN = (
    "client_ip", "remote_user", "method", "protocol", "referrer", "user_agent", "host", "edge_country", "forwarded",
)  # fmt: skip
# The columns of a field's text.
COLUMNS_OF = {
    "client_port": ("client_ip",),
    "forwarded_client": ("client_ip", "forwarded"),
    **dict.fromkeys(("time", "date", "clock", "fraction", "zone", *_FORMS), ("event_time",)),
    "request": ("method", "path", "query", "protocol"),
    "target": ("path", "query"),
    "duration": ("duration_us",),
    **{f"duration_{unit}": ("duration_us",) for unit in _UNITS},
}


@dataclass(frozen=True)
class Slot:
    """The place of a field in a line. `sample` is its text in the example, without escapes; None without an example.
    A `bare` value is a number of JSON."""

    field: str
    sample: str | None = None
    bare: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the field's text has."""
        if self.field not in ("request", "target"):
            return COLUMNS_OF.get(self.field, (self.field,))
        host = ("host",) if _ABSOLUTE.match(self.sample or "") else ()
        return (*host, *COLUMNS_OF["target" if self.is_path else self.field])

    @property
    def is_path(self) -> bool:
        """Whether a request is only its target."""
        return self.field == "target" or (self.sample or "").startswith("/")


@dataclass(frozen=True)
class Composed:
    """How the text of a format's own field is composed of others, and the columns that it has."""

    columns: tuple[str, ...]
    text: Callable[[Texts], pa.Array]


@dataclass(frozen=True)
class Template:
    """How lines are written: `texts` stand around the values of `slots`. `escape` is applied to values. `compose` has
    the fields that are not those of `tidemark.parse.values.columns_of`, by name."""

    texts: tuple[str, ...]
    slots: tuple[Slot, ...]
    escape: Callable[[pa.Array], pa.Array] = field(compare=False)
    compose: Mapping[str, Composed] = field(default_factory=dict, compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """The columns `tidemark.parse.values.READ` that its lines have."""
        each = (self.compose.get(slot.field, slot).columns for slot in self.slots)
        return frozenset(column for columns in each for column in columns)

    def lines(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Lines of columns, which need not all be there: those of `tidemark.parse.values.READ`, and `request` for the
        request of lines without a method."""
        texts = Texts(columns, frozenset(slot.field for slot in self.slots))
        parts: list[pa.Array | str] = [self.texts[0]]
        for slot, behind in zip(self.slots, self.texts[1:], strict=True):
            own = self.compose.get(slot.field)
            text = own.text(texts) if own else texts.of(slot)
            absent = "null" if slot.bare else _ABSENT
            parts += [pc.fill_null(self.escape(text), absent), behind]
        return pc.binary_join_element_wise(*parts, "")


@dataclass(frozen=True)
class Texts(Mapping[str, pa.Array]):
    """The texts of fields, by the names of `tidemark.parse.values.columns_of`; NULL where a line lacks one.

    `fields` are those of a line: beside a query the target is the path alone, and beside a half of the day the clock
    has twelve hours.
    """

    columns: Mapping[str, pa.Array]
    fields: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> pa.Array:
        return self.of(Slot(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str, type: pa.DataType | None = None) -> pa.Array:
        """A column; all NULL if no column has the name."""
        return self.columns[name] if name in self.columns else pa.nulls(self.rows, type or pa.string())

    def of(self, slot: Slot) -> pa.Array:
        """The texts of a field as the example has it."""
        name, sample = slot.field, slot.sample
        if name in _FORMS:
            return _strftime(self._event_time, _FORMS[name])
        if name in ("time", "date", "clock", "fraction", "zone"):
            return self._time(name, sample)
        if name == "duration" or name.startswith("duration_"):
            return self._duration(name.partition("_")[2], sample)
        if name == "request":
            return self._target(sample) if slot.is_path else self._request(sample)
        if name == "target":
            return self._target(sample)
        if name == "query":
            mark = "?" if sample and sample.startswith("?") else ""
            return pc.binary_join_element_wise(mark, self.column("query"), "")
        if name in ("client_ip", "host") and (port := re.search(r":\d+$", sample or "")):
            return self._with_port(name, port[0])
        if name == "client_port":  # without brackets
            return pc.binary_join_element_wise(self.column("client_ip"), ":41342", "")
        if name == "forwarded_client":
            return joined(", ", self.column("forwarded"), self.column("client_ip"))
        if name == "status":
            return pc.fill_null(
                self.column("status", pa.int32()).cast(pa.string()), "0" if slot.bare else "000"
            )
        if name == "bytes":
            return pc.fill_null(self.column("bytes", pa.int64()).cast(pa.string()), "0")
        if name in _PLAIN or name in self.columns or sample is None:
            return self.column(name)
        return pa.repeat(sample, self.rows)

    def _request(self, sample: str | None) -> pa.Array:
        request_line = joined(" ", self.column("method"), self._target(sample), self.column("protocol"))
        http = flags_of(pc.is_valid(self.column("method")))
        return where(http, request_line, self.column("request"))

    def _target(self, sample: str | None) -> pa.Array:
        path, query = self.column("path"), self.column("query")
        target = path if "query" in self.fields else joined("?", path, query)
        url = _ABSOLUTE.match(sample or "")
        if not url:
            return target
        scheme, port = url["scheme"], url["port"] or ""
        begin = pc.binary_join_element_wise(scheme, self.column("host"), port, "")
        absolute = flags_of(pc.and_(pc.is_valid(begin), pc.starts_with(target, "/")))
        return where(absolute, pc.binary_join_element_wise(begin, target, ""), target)

    def _with_port(self, name: str, port: str) -> pa.Array:
        text = self.column(name)
        bracketed = flags_of(pc.match_substring(text, ":"))
        text = where(~bracketed, text, pc.binary_join_element_wise("[", text, "]", ""))
        return pc.binary_join_element_wise(text, port, "")

    @property
    def _event_time(self) -> pa.Array:
        return self.column("event_time", pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))

    def _time(self, name: str, sample: str | None) -> pa.Array:
        time = self._event_time
        if name == "clock" and "half" in self.fields:
            return _strftime(time, "%I:%M:%S")
        if name == "zone":
            return pa.repeat(_zone(sample or "+0000"), self.rows)
        micros = time.cast(pa.int64())
        if name == "fraction":
            return _fraction(micros, len(sample or "000000"))
        usual = {"date": _USUAL_TIME[:10], "clock": _USUAL_TIME[11:19]}.get(name, _USUAL_TIME)
        inner = (sample or usual).strip("[]")
        text = _since_1970(micros, inner) if _EPOCH.fullmatch(inner) else _written(time, micros, inner)
        if text is None:
            text = _written(time, micros, usual)
        return pc.binary_join_element_wise("[", text, "]", "") if (sample or "").startswith("[") else text

    def _duration(self, unit: str, sample: str | None) -> pa.Array:
        """As many decimals as there are, but none where the example has none."""
        with_unit = re.search(r" ?(ns|us|ms|s)$", sample or "") or re.search("(ms)$", "" if unit else "ms")
        unit, end = (with_unit[1], with_unit[0]) if with_unit else (unit, "")
        micros = self.column("duration_us", pa.int64())
        if unit == "ns":
            micros = pc.multiply(micros, 1_000)
        decimals = re.search(r"\.(\d+)", sample or "")
        least = min(len(decimals[1]), 3) if decimals else 3 if unit == "s" and sample is None else 0
        return pc.binary_join_element_wise(_decimal(micros, _UNITS[unit], least), end, "")


def joined(between: str, first: pa.Array, *others: pa.Array) -> pa.Array:
    """Texts with others after them, as far as these are there."""
    for each in others:
        both = pc.binary_join_element_wise(first, each, between)
        first = pc.coalesce(both, first, each)
    return first


def _zone(sample: str) -> str:
    """The zone UTC, written as in a sample that ends with any zone; empty if it has none."""
    zone = re.search(r" ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)$", sample)
    return re.sub(r"[+-]\d\d(:?)\d\d", r"+00\g<1>00", zone[0]) if zone else ""


def _strftime(time: pa.Array, form: str) -> pa.Array:
    return pc.strftime(pc.floor_temporal(time, unit="second").cast(pa.timestamp("s")), form)


def _written(time: pa.Array, micros: pa.Array, sample: str) -> pa.Array | None:
    """Times as in a sample; None for a form that is not known."""
    for pattern, form in _TIMES:
        if match := re.fullmatch(rf"{pattern}(?:(?P<mark>[.,])(?P<fraction>\d+))?(?P<zone>\D.*)?", sample):
            text = _strftime(time, form)
            digits = len(match["fraction"] or "")
            parts = [text, match["mark"], _fraction(micros, digits)] if digits else [text]
            return pc.binary_join_element_wise(*parts, _zone(sample), "")
    return None


def _since_1970(micros: pa.Array, sample: str) -> pa.Array:
    number = _EPOCH.fullmatch(sample)
    assert number is not None
    digits, decimals = len(number["whole"]), len(number["fraction"] or "")
    if digits == 19:
        return pc.binary_join_element_wise(micros.cast(pa.string()), "000", "")
    whole = pc.divide(micros, {13: 1_000, 16: 1}.get(digits, _SECOND)).cast(pa.string())
    parts = [whole, _fraction(micros, decimals)] if decimals and digits < 13 else [whole]
    return pc.binary_join_element_wise(*parts, ".")


def _fraction(micros: pa.Array, digits: int) -> pa.Array:
    """The first digits after the point of seconds."""
    six = pc.utf8_lpad(_remainder(micros, _SECOND).cast(pa.string()), 6, "0")
    return pc.utf8_rpad(pc.utf8_slice_codeunits(six, 0, min(digits, 6)), digits, "0")


def _decimal(micros: pa.Array, unit: int, least: int) -> pa.Array:
    """Numbers in units of `unit` microseconds, with at least this many decimals; whole numbers for none."""
    whole = pc.divide(micros, unit).cast(pa.string())
    digits = len(str(unit)) - 1
    if not least or not digits:
        return whole
    decimals = pc.utf8_lpad(_remainder(micros, unit).cast(pa.string()), digits, "0")
    decimals = pc.utf8_rpad(pc.utf8_rtrim(decimals, "0"), min(least, digits), "0")
    return pc.binary_join_element_wise(whole, decimals, ".")


def _remainder(number: pa.Array, by: int) -> pa.Array:
    return pc.subtract(number, pc.multiply(pc.divide(number, by), by))


def quoted(text: pa.Array) -> pa.Array:
    """Quotes and backslashes as servers write them, and as JSON does."""
    return pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')


def unchanged(text: pa.Array) -> pa.Array:
    """Values of a format without escapes."""
    return text

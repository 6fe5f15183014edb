"""The selection of a figure: a site, a range of event time, a zone, and filters; as text and as a value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from tidemark.errors import SettingError
from tidemark.figures.calendar import Unit

Operator = Literal["is", "is not", "contains", "starts with"]
Comparison = Literal["", "previous", "year"]

FIELDS = (
    "country", "host", "path", "status", "method", "device", "browser", "os", "channel", "source", "campaign",
    "bot_kind", "bot_name", "bot_verified", "network", "as_org", "city", "search_term", "entry_page",
)  # fmt: skip
# Engines count nanoseconds since 1970 in 64 bits.
_YEARS = range(1700, 2250)
# Shorter names that people write.
_ALIASES = {"verified": "bot_verified"}
SIGNS: dict[str, Operator] = {"!=": "is not", "=": "is", "~": "contains", "^": "starts with"}
_FORM = re.compile(r"\s*(?P<field>[A-Za-z_]+)\s*(?P<sign>!=|=|~|\^)(?P<values>.*)", re.DOTALL)


class SelectionError(SettingError):
    """A filter, a time or a definition cannot be used."""


@dataclass(frozen=True)
class Filter:
    """A condition on one field; one of several values is enough, except for `is not`, which excludes all of them.

    The empty value stands for what is missing: `bot_kind=` keeps people, `source!=` what has a source.
    """

    field: str
    operator: Operator
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.field not in FIELDS:
            raise SelectionError(f"no field {self.field!r} to filter by; there are {', '.join(FIELDS)}")
        if not self.values:
            raise SelectionError(f"the filter of {self.field} has no value")
        try:
            "".join(self.values).encode()
        except UnicodeEncodeError as error:
            raise SelectionError(f"the filter of {self.field} is not UTF-8") from error
        if self.operator in ("contains", "starts with") and "" in self.values:
            raise SelectionError(f"the filter of {self.field} needs a text to look for")
        if self.field == "status" and not all(
            value == "" or (value.isascii() and value.isdigit()) for value in self.values
        ):
            raise SelectionError(f"a status is a number, not {'|'.join(self.values)!r}")

    def __str__(self) -> str:
        """The text form: `field=value`, `field!=value`, `field~part`, `field^start`.

        Several values are separated by `|`; a backslash makes a `|` or a backslash part of a value.
        """
        sign = next(sign for sign, operator in SIGNS.items() if operator == self.operator)
        return f"{self.field}{sign}" + "|".join(re.sub(r"([\\|])", r"\\\1", v) for v in self.values)

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The filter of a text form. Raises SelectionError."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise SelectionError(
                f"{text!r} is no filter; write field=value, field!=value, field~part or field^start"
            )
        name = match["field"].lower()
        return cls(_ALIASES.get(name, name), SIGNS[match["sign"]], _split(match["values"]))


def _split(text: str) -> tuple[str, ...]:
    values = [""]
    escaped = False
    for character in text:
        if not escaped and character == "\\":
            escaped = True
            continue
        if not escaped and character == "|":
            values.append("")
        else:
            values[-1] += character
        escaped = False
    return tuple(dict.fromkeys(values))


@dataclass(frozen=True)
class Selection:
    """Requests of a site (None: all sites) from `start` (None: the first) until before `end` (None: open), which pass
    every filter. `zone` (an IANA name) is that of days and hours. `comparison` is the period to compare with.

    `unit` is the calendar unit that the range consists of or began with, so that it is compared with the unit before.
    With `recount`, figures are counted from silver even if a gold table has them.
    """

    site: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    zone: str = "UTC"
    filters: tuple[Filter, ...] = ()
    comparison: Comparison = ""
    recount: bool = False
    unit: Unit | None = None

    def having(self, *filters: Filter) -> Selection:
        """With these filters added; one that it has already is not added again."""
        return replace(self, filters=tuple(dict.fromkeys((*self.filters, *filters))))

    def without(self, dropped: Filter) -> Selection:
        return replace(self, filters=tuple(f for f in self.filters if f != dropped))

    def shifted(self, start: datetime, end: datetime) -> Selection:
        """The same of another range."""
        return replace(self, start=start, end=end)

    def aligned(self, seconds: int) -> bool:
        """Whether the range consists of whole windows of `seconds`."""
        bounds = [moment for moment in (self.start, self.end) if moment is not None]
        return all(moment.timestamp() % seconds == 0 for moment in bounds)

    def fields(self) -> set[str]:
        return {f.field for f in self.filters}


def filters_of(texts: Sequence[str]) -> tuple[Filter, ...]:
    """Filters from their text forms. Several `is` of one field are one filter with several values: a row has only
    one value, so joined by AND they would keep nothing. Raises SelectionError."""
    filters: list[Filter] = []
    for each in map(Filter.parse, texts):
        same = next((f for f in filters if (f.field, f.operator) == (each.field, "is")), None)
        if same is None or each.operator != "is":
            filters.append(each)
        else:
            values = tuple(dict.fromkeys((*same.values, *each.values)))
            filters[filters.index(same)] = replace(same, values=values)
    return tuple(dict.fromkeys(filters))


def moment(text: str, zone: str = "UTC") -> datetime:
    """An ISO 8601 time, in `zone` unless it has an offset; a date is its midnight. Raises SelectionError."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise SelectionError(
            f"{text!r} is no time; write 2026-11-24, 2026-11-24T08:30 or 2026-11-24T08:30+01:00"
        ) from error
    if time.year not in _YEARS:
        raise SelectionError(
            f"{text!r} is out of range", f"Write a year from {_YEARS.start} to {_YEARS.stop - 1}."
        )
    if time.tzinfo is None:
        time = time.replace(tzinfo=ZoneInfo(zone))
    return time.astimezone(UTC)

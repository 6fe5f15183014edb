"""A question to a report, from the texts of its parameters: the same for the command, the API, MCP and Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidemark.figures import periods
from tidemark.figures.declared import Declared
from tidemark.figures.periods import Every
from tidemark.figures.report_specs import ALL
from tidemark.figures.selection import Selection, SelectionError, filters_of
from tidemark.figures.spec import COMMON, Parameter, ReportSpec

Values = Mapping[str, Sequence[str]]
_REACH = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}


class ParameterError(SelectionError):
    """A report does not take a parameter, lacks one, or gets two that exclude each other."""


class UnknownReportError(SelectionError):
    """There is no report of this name."""


@dataclass(frozen=True)
class Parameters:
    """The values of reports' own parameters, by the parameters' names, and what the home has `declared`."""

    declared: Declared = field(default_factory=Declared)
    name: str = ""
    by: Every = "day"
    from_page: str | None = None
    to_page: str | None = None
    as_of: datetime | None = None
    limit: int | None = None
    cursor: str = ""

    def __post_init__(self) -> None:
        if self.from_page and self.to_page:
            raise ParameterError("from_page and to_page exclude each other", "Leave one of them out.")


@dataclass(frozen=True)
class Question:
    """A report, the requests that it is about, and the values of its own parameters."""

    spec: ReportSpec
    selection: Selection
    parameters: Parameters


def question(name: str, values: Values, declared: Declared, *, ranged: bool = False) -> Question:
    """The question to the report `name` with the texts of its parameters; `ranged`: it must have a range.

    Raises UnknownReportError, ParameterError and SelectionError, whose texts begin with the parameter's name.
    """
    spec = ALL.get(name)
    if spec is None:
        raise UnknownReportError(f"there is no report {name!r}", f"There are: {', '.join(ALL)}.")
    require_known(f"the report {name}", values, spec.all_parameters)
    selection = selection_of(values, ranged=ranged and bool(spec.common))
    own: dict[str, Any] = {}
    for parameter in spec.parameters:
        text = one(parameter.name, values)
        if text is not None:
            own[parameter.name] = parameter.parsed(text, selection.zone)
        elif parameter.argument:
            raise ParameterError(
                f"{parameter.name}: the report {name} needs it", f"{parameter.name}: {parameter.about}"
            )
    return Question(spec, selection, Parameters(declared, **own))


def require_known(what: str, values: Values, parameters: Sequence[Parameter]) -> None:
    """Raises ParameterError for a value whose parameter is not among those that `what` takes."""
    names = [parameter.name for parameter in parameters]
    for name in values:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ParameterError(
                f"{name}: {what} has no such parameter", f"{hint}It takes {', '.join(names)}."
            )


def one(name: str, values: Values) -> str | None:
    """The value of a parameter that is given at most once; None if it is missing or empty."""
    texts = values.get(name, ())
    if len(texts) > 1:
        raise ParameterError(f"{name}: there are {len(texts)} values", "Give one value.")
    return texts[0] if texts and texts[0] else None


def selection_of(values: Values, now: datetime | None = None, *, ranged: bool = False) -> Selection:
    """The requests that the common parameters select; `now` (UTC) is the time that `range` reaches back from. `ranged`:
    without a range it is an error. Raises ParameterError and SelectionError."""
    zone = one("tz", values) or "UTC"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SelectionError(
            f"tz: there is no time zone {zone!r}", "Use an IANA name, such as Europe/Berlin."
        ) from error
    known = {parameter.name: parameter for parameter in COMMON}
    times = {name: one(name, values) for name in ("from", "to", "range")}
    start, end, named = (known[n].parsed(text, zone) if text else None for n, text in times.items())
    if named and (start or end):
        raise ParameterError("range: it excludes from and to", "Give range, or from and to.")
    if ranged and not named and not (start and end):
        missing = next(name for name in ("from", "to") if not times[name])
        raise ParameterError(
            f"{missing}: the range is missing",
            f"Give from and to, or range={'|'.join(known['range'].choices)}.",
        )
    if start and end and start > end:
        raise SelectionError("to: the range ends before it begins", "Give a later time than from.")
    if named:
        start, end = range_of(named, zone, now or datetime.now(UTC))
    try:
        filters = filters_of(values.get("filter", ()))
    except SelectionError as error:
        raise SelectionError(f"filter: {error.problem}", error.remedy or known["filter"].about) from error
    return Selection(one("site", values), start, end, zone, filters)


def range_of(name: str, zone: str, now: datetime) -> tuple[datetime, datetime | None]:
    """Begin and end (UTC; None: open) of a named range at the moment `now`."""
    if name in _REACH:
        return (now - _REACH[name]).astimezone(UTC).replace(minute=0, second=0, microsecond=0), None
    period = periods.of("month" if name == "month" else "day", now.astimezone(ZoneInfo(zone)).date(), zone)
    if name == "yesterday":
        period = period.before
    return period.start, period.end

"""The forms of a declaration of reports: parameter, figure, report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tidemark.figures.right import Role
from tidemark.figures.selection import FIELDS, SelectionError, moment

Type = Literal["integer", "number", "string", "boolean", "time", "object"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of reports. `argument`: a report that has it needs it, and the command takes it by position."""

    name: str
    about: str
    type: Type = "string"
    choices: tuple[str, ...] = ()
    repeated: bool = False
    argument: bool = False

    def parsed(self, text: str, zone: str) -> Any:
        """The value of a text; a time is in `zone` unless it has an offset. Raises SelectionError."""
        if self.choices and text not in self.choices:
            raise SelectionError(f"{self.name}: {text!r} is none of {', '.join(self.choices)}", self.about)
        try:
            match self.type:
                case "integer":
                    return int(text)
                case "time":
                    return moment(text, zone)
        except SelectionError as error:
            raise SelectionError(f"{self.name}: {error.problem}", error.remedy or self.about) from error
        except ValueError as error:
            raise SelectionError(f"{self.name}: {text!r} is no whole number", self.about) from error
        return text

    @property
    def option(self) -> str:
        """The command's option."""
        return "--" + self.name.replace("_", "-")


RANGES = ("24h", "7d", "30d", "today", "yesterday", "month")
FILTER = Parameter(
    "filter",
    "Condition on requests: field=value, field!=value, field~part (contains) or field^start (starts with). Several "
    "values of a field are separated by |; different conditions must all hold. An empty value stands for what is "
    f"missing: bot_kind= keeps people. Fields: {', '.join(FIELDS)}.",
    repeated=True,
)
COMMON = (
    Parameter("site", "Only this site (default: all sites)."),
    Parameter("from", "Begin of the range of event time, ISO 8601. A date is its midnight in tz.", "time"),
    Parameter("to", "End of the range, itself excluded.", "time"),
    Parameter(
        "range",
        "In place of from and to: 24h, 7d and 30d reach back from now, to a full hour; today, yesterday and month "
        "(this month) are days of tz.",
        choices=RANGES,
    ),
    FILTER,
    Parameter("tz", "IANA time zone of dates, such as Europe/Berlin (default: UTC)."),
)

UNFILTERED = tuple(parameter for parameter in COMMON if parameter is not FILTER)
# Where an answer may be long: not for the command.
LIMIT = Parameter(
    "limit", "Most rows of each list; `limited` in the answer says which are longer.", "integer"
)


@dataclass(frozen=True)
class Figure:
    """A value in the answer. `optional`: it may be missing (null). `many`: a list of values."""

    name: str
    type: Type
    about: str
    optional: bool = False
    many: bool = False


Figures = tuple[Figure, ...]


@dataclass(frozen=True)
class ReportSpec:
    """A report: its meaning in sentences, its own `parameters`, and the answer: single `figures`, and `lists` of rows
    with figures. The lists of `nested` have lists of rows. `common` are the parameters that it shares with others;
    `role` is the least that may ask."""

    name: str
    about: str
    figures: Figures = ()
    lists: dict[str, Figures] = field(default_factory=dict)
    nested: frozenset[str] = frozenset()
    parameters: tuple[Parameter, ...] = ()
    common: tuple[Parameter, ...] = COMMON
    role: Role = "viewer"

    @property
    def argument(self) -> str:
        """The name of the parameter that it needs; empty if it needs none."""
        return next((p.name for p in self.parameters if p.argument), "")

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """The common parameters and its own."""
        return (*self.common, *self.parameters)

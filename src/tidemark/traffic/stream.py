"""Generates traffic by settings: blocks of lines in order of arrival, with their expected outcomes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from tidemark.errors import SettingError
from tidemark.parse.formats import FORMATS
from tidemark.traffic.behaviour import Crowd
from tidemark.traffic.lines import APACHE, Formatter, LineFormat, line_format, with_request_time
from tidemark.traffic.malformed import ANY_FORMAT, KINDS, Spoiler
from tidemark.traffic.robots import Hit
from tidemark.traffic.schedule import Sample, counts
from tidemark.traffic.site import build_site
from tidemark.traffic.visitors import Population

DEFAULT_SITE = "default"
_BLOCK_LINES = 10_000
_LATEST = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp())

Span = tuple[int, int]
"""Seconds after the first line at which a fault of the server begins, and how many it takes."""


@dataclass(frozen=True)
class Traffic:
    """Settings of the generator. The same values give the same bytes while iptocc's data do not change.

    `start` is the epoch second of the first line, `seconds` how much event time to cover (None: no
    end), `rate` the lines of one event second. `late` is the share that arrives up to `late_by` seconds after
    their time, `malformed` the share that must be rejected. `visitors` is the number of distinct people.
    `request_time` adds the response's duration to lines of a format of Apache's family, none of which has it by itself.
    In `outages` every response is 503, in `silences` there is no line. `own` is how lines of an own format are made,
    which `format` names.
    Raises SettingError for invalid values.
    """

    start: int
    rate: float = 200.0
    seconds: int | None = None
    seed: int = 0
    site: str = DEFAULT_SITE
    format: str = "combined"
    visitors: int = 100_000
    late: float = 0.0
    late_by: int = 1800
    malformed: float = 0.0
    rhythm: bool = False
    request_time: bool = False
    outages: tuple[Span, ...] = ()
    silences: tuple[Span, ...] = ()
    own: LineFormat | None = None

    def __post_init__(self) -> None:
        for name, least in (("rate", 1e-3), ("visitors", 1), ("late_by", 1)):
            if not least <= getattr(self, name) < inf:  # NaN, too
                raise SettingError(
                    f"{name} is {getattr(self, name):g}", f"Use a number of at least {least:g}."
                )
        if self.seconds is not None and self.seconds < 1:
            raise SettingError(f"seconds is {self.seconds}", "Use 1 or more, or leave it out for no end.")
        if self.start + (self.seconds or 0) > _LATEST:
            raise SettingError("the lines end after the year 9998", "Use an earlier start or fewer seconds.")
        for name in ("outages", "silences"):
            if any(after < 0 or seconds < 1 for after, seconds in getattr(self, name)):
                raise SettingError(
                    f"{name} are {getattr(self, name)}",
                    "Use 0 or more seconds after the start, for 1 or more.",
                )
        for name in ("late", "malformed"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(f"{name} is {getattr(self, name):g}", "Use a fraction from 0 to 1.")
        if self.own is None and self.format not in FORMATS:
            raise SettingError(f"format is {self.format!r}", f"Use one of {', '.join(FORMATS)}.")
        if self.request_time and self.format not in APACHE:
            raise SettingError(
                f"request_time cannot be added to lines of {self.format}", f"Use it with {', '.join(APACHE)}."
            )
        if not self.site.strip() or len(self.site) > 200 or not self.site.isprintable():
            raise SettingError(f"{self.site!r} is not a site name", "Use up to 200 printable characters.")

    @property
    def timed(self) -> bool:
        """Whether lines have a duration."""
        return self.request_time or self.logged.timed

    @property
    def logged(self) -> LineFormat:
        """How lines are made of hits."""
        return self.own or line_format(self.format)

    @property
    def form(self) -> Formatter:
        """Makes lines of hits."""
        form = self.logged.lines
        return with_request_time(form) if self.request_time else form


class Outcome(NamedTuple):
    """Expected outcome of a line: `hit` accepted at epoch `second`, or rejection for `reason`."""

    second: int
    hit: Hit
    reason: str | None = None


@dataclass(frozen=True)
class Block:
    """Lines that arrive evenly over `span` seconds from epoch second `begin`; `outcomes` match them."""

    begin: float
    span: float
    lines: list[bytes]
    outcomes: list[Outcome]

    def part(self, first: int, end: int) -> Block:
        """The lines from `first` up to, but not including, `end`."""
        each = self.span / max(1, len(self.lines))
        return Block(
            self.begin + each * first, each * (end - first), self.lines[first:end], self.outcomes[first:end]
        )


def blocks(traffic: Traffic, truth: bool = True) -> Iterator[Block]:
    """The lines of `traffic` in order of arrival, in blocks of at most a second of event time and 10,000 lines, plus
    late lines.

    Without `truth`, which takes a third of the time, `outcomes` are empty. Lines delayed past the end are in a last
    block.
    """
    # Separate generators, so that late or malformed lines do not change any visit.
    crowd_random, fault_random, late_random = (
        Random(f"{traffic.seed}/{n}") for n in ("crowd", "faults", "late")
    )
    people = Population(crowd_random, traffic.visitors, agents_logged=traffic.logged.agents)
    crowd = Crowd(build_site(), people, crowd_random)
    form = traffic.form
    kinds = KINDS if traffic.format in APACHE else ANY_FORMAT
    spoiler, spoiled = Spoiler(fault_random, kinds), Sample(fault_random, traffic.malformed)
    late = Sample(late_random, traffic.late)
    delayed: defaultdict[int, tuple[list[bytes], list[Outcome]]] = defaultdict(lambda: ([], []))
    sizes = counts(traffic.rate, traffic.start, traffic.rhythm)
    seconds = (
        count(traffic.start)
        if traffic.seconds is None
        else range(traffic.start, traffic.start + traffic.seconds)
    )

    for second in seconds:
        total = next(sizes)
        for first in range(0, max(total, 1), _BLOCK_LINES):
            hits = crowd.step(second, min(_BLOCK_LINES, total - first))
            if _within(second - traffic.start, traffic.silences):
                hits = []
            elif _within(second - traffic.start, traffic.outages):
                hits = [unavailable(hit) for hit in hits]
            lines = form(hits, second)
            outcomes = [Outcome(second, hit) for hit in hits] if truth else []
            for i in spoiled.of(len(lines)):
                lines[i], reason = spoiler.spoil(lines[i])
                if truth:
                    outcomes[i] = Outcome(second, hits[i], reason)
            # From the end, so that earlier indexes stay valid.
            for i in reversed(late.of(len(lines))):
                arrived_lines, arrived_outcomes = delayed[second + late_random.randint(1, traffic.late_by)]
                arrived_lines.append(lines.pop(i))
                if truth:
                    arrived_outcomes.append(outcomes.pop(i))
            if first == 0 and second in delayed:
                arrived_lines, arrived_outcomes = delayed.pop(second)
                lines += arrived_lines
                outcomes += arrived_outcomes
            if lines:
                yield Block(second + first / max(total, 1), len(hits) / max(total, 1) or 1.0, lines, outcomes)
    # Only reached if the traffic has an end.
    for second in sorted(delayed):
        lines, outcomes = delayed[second]
        yield Block(float(traffic.start + (traffic.seconds or 0)), 1e-9, lines, outcomes)


def unavailable(hit: Hit) -> Hit:
    """The same request, answered with 503; unchanged if it is not HTTP."""
    visitor, request, referrer = hit
    if request.path is None:
        return hit
    return visitor, replace(request, status=503, size=194, seconds=b"0.001"), referrer


def _within(second: int, spans: Iterable[Span]) -> bool:
    """Whether a second after the first line is in one of these spans."""
    return any(after <= second < after + seconds for after, seconds in spans)

"""Patterns without Spark: sequence, repetition, negation, time limit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.kit.patterns import Event, Match, Matcher, Pattern, Run, Step, Where, pattern_of
from tidemark.errors import SettingError

SMALL = Step("small", (Where("amount", "<", 10),))
LARGE = Step("large", (Where("amount", ">=", 100),), times=3)
TESTING = Pattern("card testing", (SMALL, LARGE), within_ms=300)


def kind(letter: str, *, times: int = 1, absent: bool = False) -> Step:
    return Step(letter, (Where("kind", "==", letter),), times, absent)


def events(text: str, every: int = 1) -> list[Event]:
    """One event for each letter, `every` ms apart; its id is letter and number."""
    return [Event(n * every, f"{c}{n}", {"kind": c}) for n, c in enumerate(text)]


def matches_of(pattern: Pattern, happened: Sequence[Event], now: int | None = None) -> list[Match]:
    matcher = Matcher(pattern)
    runs, matches = matcher.feed([], happened)
    return matches + (matcher.expire(runs, now)[1] if now is not None else [])


def amounts(*given: tuple[int, int]) -> list[Event]:
    return [Event(time, f"t{time}", {"amount": amount}) for time, amount in given]


def test_a_small_payment_then_three_large_ones() -> None:
    happened = amounts((0, 5), (10, 500), (20, 50), (30, 100), (40, 999))
    assert matches_of(TESTING, happened) == [Match("card testing", 0, 40, ("t0", "t10", "t30", "t40"))]


def test_the_last_event_may_come_at_the_time_limit_but_not_after() -> None:
    assert matches_of(TESTING, amounts((0, 5), (10, 500), (20, 500), (300, 500)))
    assert not matches_of(TESTING, amounts((0, 5), (10, 500), (20, 500), (301, 500)))


def test_a_later_start_takes_over_when_the_first_one_runs_out_of_time() -> None:
    happened = amounts((0, 5), (250, 5), (310, 500), (320, 500), (330, 500))
    assert matches_of(TESTING, happened) == [
        Match("card testing", 250, 330, ("t250", "t310", "t320", "t330"))
    ]


def test_no_event_is_part_of_two_matches() -> None:
    pattern = Pattern("ab", (kind("a"), kind("b")), within_ms=100)
    assert [m.ids for m in matches_of(pattern, events("aabbab"))] == [("a1", "b2"), ("a4", "b5")]


def test_a_forbidden_event_between_two_steps_ends_the_run() -> None:
    pattern = Pattern("a, no x, b", (kind("a"), kind("x", absent=True), kind("b")), within_ms=100)
    assert [m.ids for m in matches_of(pattern, events("axbab"))] == [("a3", "b4")]


def test_a_forbidden_event_counts_only_between_its_steps() -> None:
    steps = (kind("a"), kind("x", absent=True), kind("b", times=2), kind("c"))
    pattern = Pattern("p", steps, within_ms=100)
    assert [m.ids for m in matches_of(pattern, events("abxbc"))] == [("a0", "b1", "b3", "c4")]


def test_absence_at_the_end_matches_when_the_time_is_over() -> None:
    pattern = Pattern("a and no b", (kind("a"), kind("b", absent=True)), within_ms=10)
    assert matches_of(pattern, events("a"), now=10) == []
    assert matches_of(pattern, events("a"), now=11) == [Match("a and no b", 0, 10, ("a0",))]
    assert matches_of(pattern, events("ab", every=10), now=50) == []
    assert [m.ids for m in matches_of(pattern, events("ab", every=11), now=50)] == [("a0",)]


def test_of_several_that_wait_for_absence_the_first_whose_time_is_over_counts() -> None:
    pattern = Pattern("a and no b", (kind("a"), kind("b", absent=True)), within_ms=10)
    happened = [
        Event(0, "first", {"kind": "a"}),
        Event(5, "second", {"kind": "a"}),
        Event(12, "b", {"kind": "b"}),
    ]
    assert [m.ids for m in matches_of(pattern, happened, now=50)] == [("first",)]


@pytest.mark.parametrize(
    ("op", "value", "fits"),
    [("==", 5, True), ("!=", 5, False), ("in", (4, 5), True), ("not in", (4, 5), False), (">", 5, False)],
)
def test_operators(op: str, value: object, fits: bool) -> None:
    assert Where("n", op, value).holds({"n": 5}) is fits


def test_text_is_searched_and_a_missing_field_fulfils_nothing() -> None:
    assert Where("path", "matches", r"\.env$").holds({"path": "/x/.env"})
    assert not Where("path", "!=", "/").holds({"path": None})


def test_a_pattern_is_read_from_plain_data() -> None:
    data = {
        "name": "card testing",
        "within_seconds": 0.3,
        "steps": [
            {"name": "small", "where": [["amount", "<", 10]]},
            {"name": "large", "where": [["amount", ">=", 100]], "times": 3},
        ],
    }
    assert pattern_of(data) == TESTING


@pytest.mark.parametrize(
    "data",
    [
        {"name": "no steps", "within_seconds": 1, "steps": []},
        {"name": "no time", "within_seconds": 0, "steps": [{"name": "a", "where": []}]},
        {"name": "op", "within_seconds": 1, "steps": [{"name": "a", "where": [["a", "~", 1]]}]},
        {"name": "first absent", "within_seconds": 1, "steps": [{"name": "a", "where": [], "absent": True}]},
        {"name": "nothing"},
    ],
)
def test_data_that_makes_no_pattern_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        pattern_of(data)


PATTERNS = [
    Pattern("abc", (kind("a"), kind("b"), kind("c")), 6),
    Pattern("aab", (kind("a", times=2), kind("b")), 4),
    Pattern("a!xbb", (kind("a"), kind("x", absent=True), kind("b", times=2)), 5),
    Pattern("ab!x", (kind("a"), kind("b"), kind("x", absent=True)), 4),
]


def every_run(pattern: Pattern, happened: Sequence[Event], end: int) -> list[tuple[int, int]]:
    """(start, completion) of the matches, by following every run from every start, none left out."""
    wanted = [step for step in pattern.steps if not step.absent for _ in range(step.times)]
    before = {}
    taken = 0
    for step in pattern.steps:
        if step.absent:
            before[taken] = step
        taken += 0 if step.absent else step.times
    matches: list[tuple[int, int]] = []
    position = 0
    while position < len(happened):
        candidates = []
        for start in range(position, len(happened)):
            done, limit = 0, happened[start].time + pattern.within_ms
            if not wanted[0].fits(happened[start].fields):
                continue
            for event in happened[start:]:
                if event.time > limit:
                    break
                if done in before and before[done].fits(event.fields):
                    done = -1
                    break
                if done < len(wanted) and wanted[done].fits(event.fields):
                    done += 1
                    if done == len(wanted) and not pattern.steps[-1].absent:
                        candidates.append((event.time, -happened[start].time))
                        break
            if pattern.steps[-1].absent and done == len(wanted) and limit < end:
                candidates.append((limit, -happened[start].time))
        if not candidates:
            break
        completed, started = min(candidates)
        matches.append((-started, completed))
        position = next((n for n, e in enumerate(happened) if e.time > completed), len(happened))
    return matches


@given(
    st.sampled_from(PATTERNS), st.lists(st.tuples(st.integers(1, 3), st.sampled_from("abcx")), max_size=30)
)
def test_keeping_few_runs_loses_no_match(pattern: Pattern, gaps: list[tuple[int, str]]) -> None:
    time, happened = 0, []
    for gap, letter in gaps:
        time += gap
        happened.append(Event(time, f"{letter}{time}", {"kind": letter}))
    matches = matches_of(pattern, happened, now=time + 100)
    assert [(m.started, m.completed) for m in matches] == every_run(pattern, happened, time + 100)


@given(st.sampled_from(PATTERNS), st.text(alphabet="abcx", max_size=30), st.integers(0, 30))
def test_it_does_not_matter_where_the_events_are_split(pattern: Pattern, text: str, place: int) -> None:
    matcher, happened = Matcher(pattern), events(text)
    runs: list[Run] = []
    runs, first = matcher.feed(runs, happened[:place])
    runs, second = matcher.feed(runs, happened[place:])
    assert first + second == matcher.feed([], happened)[1]

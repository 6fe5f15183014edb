"""The rules over windows, the patterns, and their recount, without a stream."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from examples.intrusion.check import Logged, Sequel, logged, logins, traffic
from examples.intrusion.generator import attacks, events
from examples.intrusion.rules import PATTERNS, WINDOW_SECONDS, Activity, Alert, Limits, affected, alerts
from examples.kit.load import Load
from examples.kit.patterns import Event, Matcher

LIMITS = Limits()
LOAD = Load(seed=1, rate=300, seconds=15)


def login(second: int, status: int, address: str = "a") -> Logged:
    return Logged(second, address, "POST", "/login", status)


def matched(lines: list[Logged]) -> list[Sequel]:
    """What the patterns find, by the matcher that the stream uses."""
    by_address: dict[str, list[Event]] = defaultdict(list)
    for number, line in enumerate(lines):
        by_address[line.client_ip].append(Event(line.second * 1000, f"{number:09}", line._asdict()))
    return sorted(
        Sequel(match.pattern, address, match.started // 1000, match.completed // 1000)
        for address, own in by_address.items()
        for pattern in PATTERNS
        for match in Matcher(pattern).feed([], sorted(own, key=lambda event: (event.time, event.id)))[1]
    )


def computed(lines: list[Logged]) -> list[Alert]:
    """What the job's rules find in all windows."""
    requests: Counter[tuple[str, int]] = Counter()
    missing: dict[tuple[str, int], set[str]] = defaultdict(set)
    for line in lines:
        key = (line.client_ip, line.second - line.second % WINDOW_SECONDS)
        requests[key] += 1
        if line.status == 404:
            missing[key].add(line.path)
    windows: dict[str, dict[int, Activity]] = defaultdict(dict)
    for (address, start), count in requests.items():
        windows[address][start] = Activity(count, len(missing[address, start]))
    return sorted(a for address, own in windows.items() for a in alerts(address, own, own, LIMITS))


def history(*requests: int) -> dict[int, Activity]:
    return {n * WINDOW_SECONDS: Activity(count, 0) for n, count in enumerate(requests)}


def test_five_failures_and_a_success_are_a_break_in() -> None:
    lines = [login(second, 401) for second in (0, 60, 120, 180, 240)]
    for result in (matched, logins):
        assert result([*lines, login(300, 302)]) == [Sequel("break-in", "a", 0, 300)]
        assert result([*lines, login(301, 302)]) == []
        assert result([*lines[1:], login(300, 302)]) == []


def test_ten_failures_are_guessing_and_each_counts_once() -> None:
    lines = [login(second, 403) for second in range(25)]
    for result in (matched, logins):
        assert result(lines) == [
            Sequel("password guessing", "a", 0, 9),
            Sequel("password guessing", "a", 10, 19),
        ]


def test_addresses_do_not_share_failures() -> None:
    lines = [login(second, 401, address="ab"[second % 2]) for second in range(18)]
    assert matched(lines) == logins(lines) == []


def test_many_paths_that_are_not_there_are_a_scan() -> None:
    windows = {0: Activity(19, 19), 300: Activity(20, 20)}
    assert alerts("a", windows, windows, LIMITS) == [Alert("scan", "a", 300, 20, 0.0)]


def test_a_surge_is_far_above_what_is_usual() -> None:
    assert alerts("a", history(10, 20, 30, 101), [900], LIMITS) == [Alert("surge", "a", 900, 101, 20.0)]
    assert alerts("a", history(10, 20, 30, 100), [900], LIMITS) == []


@pytest.mark.parametrize("requests", [(10, 10, 200), (1, 1, 1, 59), (0,)])
def test_without_history_or_with_few_requests_there_is_no_surge(requests: tuple[int, ...]) -> None:
    assert alerts("a", history(*requests), history(*requests), LIMITS) == []


def test_a_late_line_in_the_past_can_withdraw_a_surge() -> None:
    before = history(10, 10, 10, 60)
    after = before | {0: Activity(40, 0)}
    assert affected([0], LIMITS)[3] == 900
    assert alerts("a", before, [900], LIMITS) == [Alert("surge", "a", 900, 60, 10.0)]
    assert alerts("a", after, [900], LIMITS) == []


def test_the_past_ends_after_an_hour() -> None:
    assert affected([600], LIMITS) == list(range(600, 600 + 13 * 300, 300))
    long_ago = history(*[1] * 3, *[0] * 0) | {15 * 300: Activity(500, 0)}
    assert alerts("a", long_ago, [15 * 300], LIMITS) == []


@pytest.mark.parametrize("seed", range(3))
def test_rules_and_recount_agree_on_generated_lines(seed: int) -> None:
    lines = logged(events(Load(seed=seed, rate=300, seconds=15)))
    assert matched(lines) == logins(lines)
    assert computed(lines) == traffic(lines, LIMITS)
    assert {s.rule for s in logins(lines)} | {a.rule for a in traffic(lines, LIMITS)} >= {
        "password guessing",
        "scan",
        "surge",
    }


def test_the_recount_notices_a_lost_line() -> None:
    lines = logged(events(LOAD))
    scan = next(alert for alert in traffic(lines, LIMITS) if alert.rule == "scan")
    lost = next(n for n, line in enumerate(lines) if line.client_ip == scan.client_ip and line.status == 404)
    fewer = [line for line in lines if line.path != lines[lost].path]
    assert traffic(fewer, LIMITS) != traffic(lines, LIMITS)


def test_the_log_is_seeded_and_an_address_is_in_one_partition() -> None:
    generated = list(events(LOAD))
    assert generated == list(events(LOAD))
    assert generated != list(events(Load(seed=2, rate=300, seconds=15)))
    good = [event for event in generated if not event.reason]
    partitions = defaultdict(set)
    for event, line in zip(good, logged(generated), strict=True):
        partitions[line.client_ip].add(event.partition)
    assert all(len(own) == 1 for own in partitions.values())
    assert set().union(*partitions.values()) == {0, 1}


def test_attacks_follow_each_other_in_order() -> None:
    offsets = [request.offset for request in attacks(LOAD)]
    assert offsets == sorted(offsets)
    assert offsets[-1] < 15 * 180

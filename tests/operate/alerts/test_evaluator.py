"""Alert rules over real Delta tables: what fires, what late lines change, and that it is a function of the tables."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

import pytest

from tests.operate.alerts.scene import NOON, TABLE, Line, Scene, every
from tidemark.contract.quality_tables import ALERT_RULES, ALERTS
from tidemark.contract.store import Commit
from tidemark.contract.table import Change
from tidemark.figures.alert_rules import Rule
from tidemark.figures.declared import Goal
from tidemark.operate.alerts.evaluator import Evaluator
from tidemark.operate.alerts.record import rows_of
from tidemark.operate.moment import spans
from tidemark.settings import Settings
from tidemark.stream import swap

ERRORS = Rule("share_5xx", "5m", above=0.1)
BUSY = Rule("requests", "5m", above=3)


def test_an_alert_fires_when_its_window_has_passed_and_ends_with_the_next_one_that_obeys(
    home: Settings,
) -> None:
    scene = Scene.of(home, errors=ERRORS)
    scene.add(Line(0), Line(1, status=503), Line(4))
    assert scene.evaluate() == []  # the window is still open

    scene.add(Line(5))
    [alert] = scene.evaluate()
    assert scene.states() == [("firing", 0, None)]
    assert (alert.value, alert.bound, alert.site) == (pytest.approx(1 / 3), 0.1, "shop")
    assert alert.definition == ERRORS.definition

    scene.add(Line(10))
    assert [each.state for each in scene.evaluate()] == ["ended"]
    assert scene.states() == [("ended", 0, 10)]
    assert scene.evaluate() == []  # nothing new


def test_the_clock_passes_windows_of_a_site_that_sends_nothing(home: Settings) -> None:
    scene = Scene.of(home, silent=Rule("requests", "5m", below=1), errors=ERRORS)
    scene.add(Line(0), Line(1, status=500))
    scene.evaluate(minutes=9.9)
    assert scene.states() == []
    scene.evaluate(minutes=10)  # five minutes past the end
    assert scene.states() == [("firing", 0, None)]
    scene.evaluate(minutes=20)
    assert scene.states("silent") == [("firing", 5, None)]
    # A share without requests is not evaluated: nothing says that the errors are over.
    assert scene.states("errors") == [("firing", 0, None)]
    standing = {row["rule"]: row["state"] for row in scene.store.read(ALERT_RULES).to_pylist()}
    assert standing == {"silent": "firing", "errors": "firing"}


def test_a_late_line_withdraws_an_alert_or_raises_one(home: Settings) -> None:
    scene = Scene.of(home, errors=ERRORS)
    scene.add(Line(0, status=500), Line(6), Line(11))
    scene.evaluate()
    assert scene.states() == [("ended", 0, 10)]

    scene.add(*every(0.1, 1, 2))  # late: ten good ones
    scene.evaluate()
    assert scene.states() == [("withdrawn", 0, 10)]

    scene.add(Line(7, status=500))
    [raised] = scene.evaluate()
    assert raised.late
    assert scene.states() == [("withdrawn", 0, 10), ("firing", 5, None)]

    scene.add(*every(0.1, 2, 3, status=500))
    scene.evaluate()
    assert scene.states() == [("firing", 0, None), ("withdrawn", 5, None)]
    assert scene.alerts()[0].withdrawn_at is None


def test_messages_are_due_only_about_windows_of_the_last_day(home: Settings) -> None:
    scene = Scene.of(home, errors=ERRORS)
    scene.add(Line(0, status=500), Line(6), Line(60, status=500), Line(66), Line(71))
    day = timedelta(days=1)
    scene.evaluate(at=NOON + day + timedelta(minutes=30))
    assert [(each.state, each.due) for each in scene.alerts()] == [("ended", False), ("ended", True)]


def test_a_delivered_alert_is_delivered_again_when_it_ends_or_is_withdrawn(home: Settings) -> None:
    scene = Scene.of(home, busy=BUSY)
    now = NOON + timedelta(minutes=10)
    scene.add(*every(1, 0, 5), Line(5))
    assert [each.due for each in scene.evaluate(at=now)] == [True]
    deliver(scene, now)
    scene.add(Line(10))
    assert [(each.state, each.due) for each in scene.evaluate(at=now)] == [("ended", True)]
    deliver(scene, now)
    # A late line moves the start of the same alert: nobody is told again.
    scene.add(*every(0.5, -5, 0), Line(-6))
    scene.evaluate(at=now)
    assert [(each.state, each.due) for each in scene.alerts()] == [("ended", False), ("withdrawn", False)]
    assert scene.states() == [("ended", -5, 10), ("withdrawn", 0, 10)]


def deliver(scene: Scene, at: datetime) -> None:
    """Records the delivery of what is due."""
    rows = [
        replace(each, due=False, delivered=each.state, delivered_at=at) for each in scene.alerts() if each.due
    ]
    number = scene.store.committed(ALERTS, "alerts") + 1
    scene.store.upsert(ALERTS, Change(rows_of(rows)), Commit("alerts", number))


def test_a_changed_rule_is_evaluated_over_all_history_and_a_removed_one_no_more(home: Settings) -> None:
    scene = Scene.of(home, busy=BUSY)
    scene.add(*every(1, 0, 5), *every(2, 5, 11), Line(11))
    scene.evaluate()
    assert scene.states() == [("ended", 0, 10)]
    scene.settings = replace(scene.settings, alerts={"busy": replace(BUSY, above=2)})
    scene.evaluate()
    assert scene.states() == [("firing", 0, None)]
    # Other windows: the former alert is withdrawn.
    scene.settings = replace(scene.settings, alerts={"busy": replace(BUSY, above=0, window="1h")})
    scene.add(Line(61))
    scene.evaluate()
    assert scene.states() == [("firing", 0, None)]
    scene.settings = replace(scene.settings, alerts={})
    scene.evaluate()
    assert scene.store.read(ALERT_RULES).num_rows == 0


def test_windows_whose_rows_are_deleted_are_not_evaluated_and_their_alerts_stay(home: Settings) -> None:
    scene = Scene.of(home, busy=Rule("requests", "5m", above=6), silent=Rule("requests", "5m", below=1))
    scene.add(*every(1, 0, 61), *every(1, 10, 15))
    scene.evaluate()
    assert scene.states() == [("ended", 10, 20)]
    kept, traffic = NOON + timedelta(minutes=32), TABLE["gold.traffic"]
    scene.store.newest(traffic).delete(f"window_start < '{kept.isoformat()}'")
    # A rebuild has every window evaluated anew.
    scene.store.append_arrow(traffic, traffic.arrow_schema.empty_table(), Commit(swap.WRITER, 1))
    evaluator = Evaluator(scene.settings, scene.store, TABLE, lambda table: kept)
    assert evaluator.evaluate(scene.moment()) == []
    starts = {row["judged_from"] for row in scene.store.read(ALERT_RULES).to_pylist()}
    assert starts == {NOON + timedelta(minutes=35)}
    scene.add(Line(0), *every(0.5, 65, 70), Line(70))  # a late one, too
    assert [each.window_start for each in evaluator.evaluate(scene.moment())] == [
        NOON + timedelta(minutes=65)
    ]
    assert scene.states() == [("ended", 10, 20), ("firing", 65, None)]


def test_the_usual_value_is_that_of_the_same_window_of_the_last_weeks(home: Settings) -> None:
    rule = Rule("requests", "1h", deviation=3)
    scene = Scene.of(home, usual=rule)
    week = 7 * 24 * 60
    for number, count in enumerate((10, 12, 9, 11)):
        scene.add(*every(1, number * week, number * week + count))
    scene.add(*every(1, 4 * week, 4 * week + 40), Line(4 * week + 61), Line(4 * week + 122))
    scene.evaluate()
    # 3 · 1.4826 · 1 above the median 10.5; in the next hour the weeks before have nothing, so it is not evaluated.
    assert scene.states() == [("firing", 4 * week, None)]
    assert scene.alerts()[0].bound == pytest.approx(10.5 + 3 * 1.4826)
    # Late lines in earlier weeks change what is usual: the window obeys, and the one of a week before is beyond.
    scene.add(*every(1, 3 * week + 11, 3 * week + 50), *every(1, 2 * week + 9, 2 * week + 41))
    scene.evaluate()
    assert scene.states() == [("ended", 3 * week, 4 * week + 60), ("withdrawn", 4 * week, None)]


RULES = {
    "errors": Rule("share_5xx", "5m", above=0.3, breaches=2, of=3),
    "bots": Rule("share_bots", "5m", above=0.5),
    "visitors": Rule("visitors", "5m", above=3),
    "missing": Rule("not_found", "5m", above=1),
    "missing_hourly": Rule("not_found", "1h", above=8, below=3),
    "few": Rule("requests", "5m", below=2, breaches=2, of=2),
    "germans": Rule("requests", "5m", filter=("country=DE|ZZ", "path^/a"), above=1),
    "readers": Rule("goal:a", goal=Goal(path="/a*", status=200), above=1),
    "of_b": Rule("visitors", "1h", site="b", filter=("country!=DE",), above=3),
    "slow": Rule("p95", "5m", above=0.75),
    "slow_germans": Rule("p95", "1h", filter=("country=DE",), above=0.9),
    "deviant": Rule("requests", "1h", deviation=1),
}
WEEK = 7 * 24 * 60


def test_what_fires_is_a_function_of_the_lines_in_any_order(home: Settings) -> None:
    chance = random.Random(1)
    lines = [
        Line(
            minutes=chance.choice([0, 1, 2, 3, 4]) * WEEK + chance.random() * chance.choice([60, 120]),
            site=chance.choice("ab"),
            status=chance.choice([200, 200, 404, 500]),
            visitor=chance.choice("uvwxyz"),
            bot=chance.random() < 0.3,
            path=chance.choice(["/a", "/ab", "/b"]),
            country=chance.choice(["DE", "FR"]),
            duration_us=chance.choice([None, 0, 1, chance.randrange(1_000_000)]),
        )
        for _ in range(400)
    ]
    scene = Scene.of(home, **RULES)
    for start in range(0, len(lines), 100):
        scene.add(*lines[start : start + 100])
        scene.evaluate()
    actual = {
        (each.rule, each.site, each.window_start, each.ended_at)
        for each in scene.alerts()
        if each.state != "withdrawn"
    }
    assert actual == {alert for name, rule in RULES.items() for alert in recounted(name, rule, lines)}
    assert {rule for rule, *_ in actual} == set(RULES)


def recounted(name: str, rule: Rule, lines: list[Line]) -> list[tuple[str, str, datetime, datetime | None]]:
    """The alerts of a rule by the contract, window by window."""
    result = []
    width = timedelta(seconds=rule.seconds)
    for site in {line.site for line in lines} if not rule.site else {rule.site}:
        own = [line for line in lines if line.site == site]
        first = number = int(min(line.time for line in own).timestamp()) // rule.seconds
        last = int(max(line.time for line in own).timestamp()) // rule.seconds
        by_window: dict[int, list[Line]] = {}
        for line in own:
            if all(_passes(line, each) for each in rule.filter):
                by_window.setdefault(int(line.time.timestamp()) // rule.seconds, []).append(line)
        verdicts: list[str] = []
        fires, start = False, NOON
        for number in range(first, last):
            verdicts.append(_verdict(rule, by_window, number, first))
            recent = Counter(verdicts[-rule.of :])
            was, fires = fires, recent["bad"] >= rule.breaches or (fires and recent["good"] < rule.breaches)
            time = datetime.fromtimestamp(number * rule.seconds, NOON.tzinfo)
            if fires and not was:
                start = time
            elif was and not fires:
                result.append((name, site, start, time + width))
        if fires:
            result.append((name, site, start, None))
    return result


def _passes(line: Line, condition: str) -> bool:
    return {
        "country=DE|ZZ": line.country in ("DE", "ZZ"),
        "country=DE": line.country == "DE",
        "country!=DE": line.country != "DE",
        "path^/a": line.path.startswith("/a"),
    }[condition]


def _verdict(rule: Rule, by_window: dict[int, list[Line]], window: int, first: int) -> str:
    value = _value(rule, by_window.get(window, []))
    if value is None:
        return "not evaluated"
    low, high = rule.below, rule.above
    if rule.deviation is not None:
        earlier = [window - n * 7 * 86_400 // rule.seconds for n in range(1, 5)]
        weeks = [v for w in earlier if w >= first and (v := _value(rule, by_window.get(w, []))) is not None]
        if len(weeks) < 3:
            return "not evaluated"
        middle = median(weeks)
        spread = median(abs(week - middle) for week in weeks)
        if spread == 0:
            return "not evaluated"
        distance = rule.deviation * 1.4826 * spread
        low, high = middle - distance, middle + distance
    return "bad" if (low is not None and value < low) or (high is not None and value > high) else "good"


def _value(rule: Rule, lines: list[Line]) -> float | None:
    if rule.metric == "requests":
        return len(lines)
    if rule.metric == "goal:a":
        return sum(not line.bot and line.path.startswith("/a") and line.status == 200 for line in lines)
    if rule.metric == "visitors":
        return len({line.visitor for line in lines if not line.bot})
    if rule.metric == "not_found":
        return sum(line.status == 404 for line in lines)
    if rule.metric == "p95":
        durations = sorted(line.duration_us for line in lines if line.duration_us is not None)
        if not durations:
            return None
        gamma = 1.01 / 0.99
        bucket = math.ceil(math.log(max(1, durations[-(-95 * len(durations) // 100) - 1])) / math.log(gamma))
        return 2 * gamma**bucket / (gamma + 1) / 1e6
    if not lines:
        return None
    part = sum(line.bot if rule.metric == "share_bots" else line.status >= 500 for line in lines)
    return part / len(lines)


def test_a_line_ahead_of_its_arrival_does_not_pass_windows(home: Settings) -> None:
    row = {"site": "a", "first_event_time": NOON, "newest_event_time": NOON + timedelta(hours=20),
           "newest_kafka_timestamp": NOON, "reached_event_time": NOON + timedelta(minutes=5)}  # fmt: skip
    assert spans([row], None)["a"].reached == NOON + timedelta(minutes=5)
    assert spans([row | {"reached_event_time": None}], None)["a"].reached == NOON + timedelta(minutes=5)
    clock = NOON + timedelta(hours=1)
    assert spans([row], clock)["a"].reached == clock - timedelta(minutes=5)

"""Where a bus is, how fast, and when it comes; its state and timers in Spark's in-memory tester."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations
from math import isclose
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from examples.bus_positions.check import Report, differences
from examples.bus_positions.example import reports
from examples.bus_positions.generator import bus_count, events, falls_silent
from examples.bus_positions.motion import Position, latest_two, motion
from examples.bus_positions.routes import ROUTES, Route
from examples.bus_positions.tracker import Tracker
from examples.kit.load import Load

SQUARE = Route("Square", ((0, 0), (1000, 0), (1000, 1000), (0, 1000)), 4)
HARBOUR = ROUTES["Harbour"]


def on(route: Route, second: float, along: float) -> Position:
    return Position(round(second * 1000), *route.point(along), route.name)


@pytest.mark.parametrize(
    "along, point",
    [(0, (0, 0)), (250, (250, 0)), (1000, (1000, 0)), (2500, (500, 1000)), (3999, (0, 1)), (4250, (250, 0))],
)
def test_a_place_along_a_route_and_back(along: float, point: tuple[float, float]) -> None:
    assert SQUARE.point(along) == pytest.approx(point)
    assert SQUARE.along(*point) == pytest.approx(along % 4000)


def test_a_bus_beside_its_route_is_at_the_nearest_place() -> None:
    assert SQUARE.along(400, -30) == 400
    assert SQUARE.along(1080, 500) == 1500


def test_the_coming_stops_go_round_and_leave_out_the_one_it_stands_at() -> None:
    assert [(s.name, m) for s, m in SQUARE.coming(2900, 3)] == [
        ("Square 4", 100),
        ("Square 1", 1100),
        ("Square 2", 2100),
    ]
    assert [s.name for s, _ in SQUARE.coming(1000, 1)] == ["Square 3"]


def test_the_last_two_positions_are_the_same_in_any_order_of_arrival() -> None:
    items = [on(SQUARE, second, second * 10) for second in (10, 20, 30, 40)]
    for order in permutations(items):
        kept: tuple[Position, ...] = ()
        for position in order:
            kept = latest_two([*kept, position])
        assert kept == tuple(items[-2:])


def test_speed_and_arrivals() -> None:
    known = motion((on(SQUARE, 0, 3850), on(SQUARE, 10, 3950)), SQUARE)
    assert known.speed == pytest.approx(10)
    assert known.arrivals == (("Square 1", 15_000), ("Square 2", 115_000), ("Square 3", 215_000))


def test_speed_over_the_end_of_the_round() -> None:
    assert motion((on(SQUARE, 0, 3950), on(SQUARE, 10, 4050)), SQUARE).speed == pytest.approx(10)


def test_nothing_is_predicted_of_a_bus_that_stands_or_was_seen_once() -> None:
    standing = motion((on(SQUARE, 0, 500), on(SQUARE, 10, 499)), SQUARE)
    assert (standing.speed, standing.arrivals) == (0.0, ())
    once = motion((on(SQUARE, 0, 500),), SQUARE)
    assert (once.along, once.speed, once.arrivals) == (500, None, ())


def test_on_another_route_a_bus_starts_again() -> None:
    assert motion((on(HARBOUR, 0, 0), on(SQUARE, 10, 500)), SQUARE).speed is None


def row(second: float, along: float) -> Row:
    position = on(HARBOUR, second, along)
    return Row(bus="bus1", route="Harbour", time=position.time, x=position.x, y=position.y)


def in_memory(now: int) -> TwsTester:
    tws = TwsTester(Tracker(every_ms=30_000, silent_ms=120_000), timeMode="ProcessingTime")
    tws.setProcessingTime(now)
    return tws


def positions(rows: Any) -> list[tuple[int, float, bool]]:
    """(second of the clock, second of the position, silent) of snapshots."""
    return [(r.tick.timestamp(), r.event_time.timestamp(), r.silent) for r in rows]


def test_a_tick_tells_the_latest_position_and_no_other() -> None:
    tws = in_memory(1_000)
    assert tws.test("bus1", [row(30, 300), row(10, 100)]) == []
    assert tws.test("bus1", [row(20, 200)]) == []
    result = tws.setProcessingTime(30_000)
    assert positions(result) == [(30, 30, False)]
    assert isclose(result[0].speed, 10)


def test_a_tick_without_news_tells_nothing() -> None:
    tws = in_memory(1_000)
    tws.test("bus1", [row(10, 100)])
    tws.setProcessingTime(30_000)
    assert tws.setProcessingTime(60_000) == []


def test_an_older_position_is_no_news() -> None:
    tws = in_memory(1_000)
    tws.test("bus1", [row(20, 200), row(10, 100)])
    tws.setProcessingTime(30_000)
    tws.test("bus1", [row(5, 50)])
    assert tws.setProcessingTime(60_000) == []


def test_a_late_position_between_the_last_two_corrects_the_speed() -> None:
    tws = in_memory(1_000)
    tws.test("bus1", [row(10, 100), row(30, 300)])
    tws.setProcessingTime(30_000)
    tws.test("bus1", [row(20, 100)])
    assert isclose(tws.setProcessingTime(60_000)[0].speed, 20)


def test_a_silent_bus_is_reported_once_and_again_when_it_is_back() -> None:
    tws = in_memory(1_000)
    tws.test("bus1", [row(10, 100)])
    assert positions(tws.setProcessingTime(30_000)) == [(30, 10, False)]
    for now in (60_000, 90_000, 120_000):
        assert tws.setProcessingTime(now) == []
    assert positions(tws.setProcessingTime(150_000)) == [(150, 10, True)]
    assert tws.setProcessingTime(600_000) == []
    tws.test("bus1", [row(700, 900)])
    assert positions(tws.setProcessingTime(630_000)) == [(630, 700, False)]


def snapshots(generated: list[Report]) -> list[dict[str, Any]]:
    """What the job must end with: each bus's last position, silent."""
    rows = []
    for bus in sorted({report[0] for report in generated}):
        latest = latest_two(Position(r[2], r[3], r[4], r[1]) for r in generated if r[0] == bus)
        known = motion(latest, ROUTES[latest[-1].route])
        rows.append(
            {
                "bus": bus,
                "tick": datetime(2026, 1, 1, tzinfo=UTC),
                "event_time": datetime.fromtimestamp(latest[-1].time / 1000, UTC),
                "route": latest[-1].route,
                "x": latest[-1].x,
                "y": latest[-1].y,
                "along": known.along,
                "speed": known.speed,
                "stops": [stop for stop, _ in known.arrivals],
                "arrivals": [time for _, time in known.arrivals],
                "silent": True,
            }
        )
    return rows


def test_the_recount_agrees_with_motion_and_notices_what_is_wrong() -> None:
    generated = list(reports(Load(seed=2, rate=60, seconds=8)))
    right = snapshots(generated)
    assert list(differences(right, generated)) == []
    moving = next(n for n, r in enumerate(right) if r["speed"] and r["stops"])
    for wrong in (
        {"speed": right[moving]["speed"] + 0.1},
        {"x": right[moving]["x"] + 1},
        {"event_time": right[moving]["event_time"] + timedelta(seconds=1)},
        {"arrivals": [time + 60_000 for time in right[moving]["arrivals"]]},
        {"silent": False},
    ):
        changed = [{**r, **wrong} if n == moving else r for n, r in enumerate(right)]
        assert list(differences(changed, generated)), wrong
    assert list(differences(right[1:], generated)) == [f"{right[0]['bus']} was never shown"]


def test_the_generator_is_seeded_and_its_silent_buses_stop() -> None:
    load = Load(seed=1, rate=60, seconds=12)
    assert list(events(load)) == list(events(load))
    assert list(events(load)) != list(events(Load(seed=2, rate=60, seconds=12)))
    generated = list(reports(load))
    last = {bus: max(r[2] for r in generated if r[0] == bus) for bus in {r[0] for r in generated}}
    assert len(last) == bus_count(load) == 30
    newest = max(last.values())
    assert {bus for bus, time in last.items() if time < newest - 60_000} == set(falls_silent(load))

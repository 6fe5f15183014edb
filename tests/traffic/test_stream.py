"""Generated traffic: the same again from the same seed, at the rate asked for, from real-looking visitors."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from random import Random

import crawleruseragents
import iptocc
import pytest

from tests.traffic.generated import Line, generate
from tidemark.errors import SettingError
from tidemark.traffic import agents
from tidemark.traffic.malformed import KINDS
from tidemark.traffic.stream import Traffic, blocks
from tidemark.traffic.visitors import Population

START = 1_779_000_000
TRAFFIC = Traffic(START, rate=300, seconds=120, seed=7)


def lines_of(traffic: Traffic) -> list[Line]:
    return list(generate(traffic))


def test_the_same_seed_and_settings_make_the_same_bytes() -> None:
    noisy = replace(TRAFFIC, late=0.1, malformed=0.05, rhythm=True)
    first = [line.value for line in generate(noisy)]
    assert first == [line.value for line in generate(noisy)]
    assert first != [line.value for line in generate(replace(noisy, seed=8))]


def test_blocks_without_truth_have_the_same_lines() -> None:
    noisy = replace(TRAFFIC, late=0.1, malformed=0.05)
    bare = [value for block in blocks(noisy, truth=False) for value in block.lines]
    assert bare == [line.value for line in generate(noisy)]


@pytest.mark.parametrize(
    ("rate", "seconds", "lines"), [(300, 10, 3000), (0.1, 30, 3), (0.7, 10, 7), (25_000, 2, 50_000)]
)
def test_the_rate_is_exact(rate: float, seconds: int, lines: int) -> None:
    assert len(lines_of(Traffic(START, rate=rate, seconds=seconds, visitors=500))) == lines


def test_rhythm_keeps_the_mean_of_a_day_and_moves_the_hours() -> None:
    hours: Counter[int] = Counter()
    for line in generate(Traffic(0, rate=0.5, seconds=86_400, visitors=500, rhythm=True)):
        hours[line.outcome.second // 3600] += 1
    assert hours.total() == pytest.approx(0.5 * 86_400, rel=0.01)
    assert max(hours.values()) > 1.3 * min(hours.values())


def test_people_come_when_it_is_day_where_they_live() -> None:
    people = Population(Random(1), 5000)
    evening = Counter(people.person(20 * 3600).country for _ in range(20_000))
    night = Counter(people.person(4 * 3600).country for _ in range(20_000))
    assert evening["GB"] > 1.5 * night["GB"]
    assert night["AU"] > evening["AU"]


def test_late_lines_are_as_many_and_as_late_as_asked_for() -> None:
    newest, behind, lines = 0, [], 0
    for line in generate(Traffic(START, rate=10, seconds=3600, late=0.1, late_by=600)):
        newest = max(newest, line.outcome.second)
        lines += 1
        if line.outcome.second < newest:
            behind.append(newest - line.outcome.second)
    assert lines == 36_000
    assert len(behind) / lines == pytest.approx(0.1, rel=0.05)
    assert max(behind) <= 600
    assert sum(behind) / len(behind) == pytest.approx(300, rel=0.1)


def test_lateness_moves_lines_and_changes_none() -> None:
    late = replace(TRAFFIC, late=0.3, late_by=30)
    assert sorted(line.value for line in generate(late)) == sorted(line.value for line in generate(TRAFFIC))


def test_malformed_lines_are_as_many_as_asked_for() -> None:
    lines = lines_of(Traffic(START, rate=500, seconds=200, malformed=0.02))
    bad = [line for line in lines if line.outcome.reason]
    assert len(bad) / len(lines) == pytest.approx(0.02, rel=0.1)
    assert all(b"\n" not in line.value and not line.value.endswith(b"\r") for line in lines)


def test_fractions_of_none_and_all() -> None:
    assert not any(line.outcome.reason for line in generate(TRAFFIC))
    everything = lines_of(replace(TRAFFIC, malformed=1, seconds=2))
    assert len(everything) == 600 and all(line.outcome.reason for line in everything)


@cache
def some_lines(log_format: str) -> list[Line]:
    return lines_of(Traffic(START, rate=100, seconds=2, format=log_format, visitors=300))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("log_format", ["common", "combined", "vhost_combined"])
def test_each_malformed_kind_breaks_what_its_reason_says(kind, log_format: str) -> None:  # type: ignore[no-untyped-def]
    random = Random(3)
    shape = re.compile(
        rb'(\S+:443 )?(?P<ip>\S+) - .+ \[(?P<time>.+?)\] ".*?" (?P<status>[+\d]+) (?P<size>\S+)( ".*" ".*")?',
        re.DOTALL,
    )
    for line in some_lines(log_format):
        bad = kind.spoil(line.value, random)
        good = shape.fullmatch(line.value)
        fields = shape.fullmatch(bad) if kind.reason != "too_long" else None
        assert good is not None
        assert bad != line.value
        match kind.reason:
            case "empty":
                assert bad == b""
            case "too_long":
                assert len(bad) > 65_536
            case "malformed":
                assert fields is None
            case reason:
                # Only the one field differs.
                field = {"future_time": "time"}.get(reason, reason.split("_")[1])
                assert fields is not None
                changed = {n for n in ("ip", "time", "status", "size") if fields[n] != good[n]}
                assert changed == {field}


def test_addresses_belong_to_the_visitors_countries() -> None:
    visitors = {
        (v.ip, v.country) for v in (line.outcome.hit[0] for line in lines_of(replace(TRAFFIC, rate=800)))
    }
    ips, countries = zip(*visitors, strict=True)
    assert [code or "ZZ" for code in iptocc.country_code(list(ips))] == list(countries)
    assert len(set(countries)) > 40 and "ZZ" in countries
    assert 0.02 < sum(":" in ip for ip in ips) / len(ips) < 0.3


def test_people_can_be_as_many_as_asked_for_and_no_more() -> None:
    people = Population(Random(1), 50)
    assert 20 <= len({(p.ip, p.agent) for p in (people.person(0) for _ in range(5000))}) <= 50


def test_user_agents_of_people_are_browsers_and_those_of_bots_are_bots() -> None:
    people = [agent for agent, _ in agents.people()]
    bots = [bot.agent for declared in agents.BOTS.values() for bot in declared]
    assert len(set(people)) >= 60 and len(set(bots)) >= 25
    assert [agent for agent in people if crawleruseragents.is_crawler(agent)] == []
    assert [
        agent for agent in bots if agent not in ("", "-") and not crawleruseragents.is_crawler(agent)
    ] == []


def test_entry_pages_follow_a_zipf_law() -> None:
    entries = Counter(
        line.outcome.hit[1].path
        for line in generate(Traffic(START, rate=2000, seconds=100))
        if not line.outcome.hit[0].bot
        and line.outcome.hit[1].page
        and not line.outcome.hit[2].startswith(b"https://www.example.com")
    )
    ranked = [count for _, count in entries.most_common()]
    assert len(ranked) > 300
    for rank in (4, 16, 64):
        assert ranked[0] / ranked[rank - 1] == pytest.approx(rank, rel=0.35)


def test_the_traffic_has_what_real_logs_have() -> None:
    text = b"\n".join(line.value for line in generate(replace(TRAFFIC, rate=1500)))
    for pattern in (
        rb'"GET /search\?q=', rb'"POST /login HTTP/1.1" 302', rb'"POST /login HTTP/1.1" 401',
        rb'" 301 ', rb'" 404 ', rb'" 50[023] ', rb"utm_source=\w+&utm_medium=\w+&utm_campaign=",
        rb'"https://www\.google\.com/"', rb'"https://t\.co/', rb'"https://www\.example\.com/products',
        rb" - Mary Ann Smith \[", rb'\\"Redmi\\"', rb'"\\x16\\x03', rb'"-" 408 - "-" "-"',
        rb"/static/css/site", rb"Googlebot", rb"GET /robots\.txt", rb"^[0-9a-f]+:[0-9a-f:]+ - ",
    ):  # fmt: skip
        assert re.search(pattern, text, re.MULTILINE), pattern


def test_a_request_time_is_at_the_end_only_if_it_is_asked_for() -> None:
    few = replace(TRAFFIC, seconds=5)
    plain, timed = lines_of(few), lines_of(replace(few, request_time=True))
    assert [re.sub(rb" \d+\.\d{3}$", b"", line.value) for line in timed] == [line.value for line in plain]
    assert all(line.value.endswith(b'"') for line in plain)
    assert {line.outcome.hit[1].seconds for line in timed} == {line.value.split(b" ")[-1] for line in timed}


def test_outages_and_silences_change_nothing_else() -> None:
    usual = Traffic(START, rate=20, seconds=100, seed=7)
    faulty = replace(usual, outages=((20, 30),), silences=((60, 10), (90, 5)))
    silent = {*range(60, 70), *range(90, 95)}
    before = [line for line in generate(usual) if line.outcome.second - START not in silent]
    after = list(generate(faulty))
    assert len(after) == len(before) == 20 * 85
    for was, result in zip(before, after, strict=True):
        if 20 <= result.outcome.second - START < 50 and result.outcome.hit[1].path is not None:
            assert b'" 503 194 ' in result.value and result.outcome.hit[1].status == 503
            assert not result.outcome.hit[1].page
        else:
            assert result.value == was.value


@pytest.mark.parametrize(
    "bad",
    [{"request_time": True, "format": "iis_w3c"},
     {"outages": ((-1, 5),)}, {"silences": ((5, 0),)},
     {"rate": 0}, {"rate": float("nan")}, {"rate": float("inf")}, {"late": 1.5}, {"malformed": -0.1},
     {"seconds": 0}, {"visitors": 0}, {"late_by": 0}, {"format": "json"}, {"site": " "}],
)  # fmt: skip
def test_values_that_cannot_be_met_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(bad))):
        Traffic(START, **bad)  # type: ignore[arg-type]


def test_lines_have_times_that_a_calendar_has() -> None:
    last = int(datetime(9998, 12, 31, 23, 59, 50, tzinfo=UTC).timestamp())
    assert len(list(generate(Traffic(last, rate=1, seconds=10)))) == 10
    with pytest.raises(SettingError, match="after the year 9998"):
        Traffic(last, seconds=11)

"""The week of past traffic: its size, its rhythm, and each part of its story."""

from __future__ import annotations

from collections import Counter
from statistics import median

import pytest

from tests.traffic.test_truth import read_back
from tidemark.traffic.stream import Block
from tidemark.traffic.truth import Tally, Truth
from tidemark.traffic.week import (
    BROKEN_PATH,
    BROKEN_REFERRER,
    CAMPAIGN,
    CRAWLER,
    DAY,
    SLOWED,
    Week,
    week_blocks,
)

WEEK = Week(end=1_780_003_721, lines=30_000, seed=3)


@pytest.fixture(scope="module")
def generated() -> list[Block]:
    return list(week_blocks(WEEK))


@pytest.fixture(scope="module")
def lines(generated: list[Block]) -> list[tuple[int, bytes]]:
    return [(int(block.begin), line) for block in generated for line in block.lines]


def test_the_same_week_has_the_same_bytes(generated: list[Block], lines: list[tuple[int, bytes]]) -> None:
    again = [(int(block.begin), line) for block in week_blocks(WEEK) for line in block.lines]
    assert again == lines
    assert len(lines) == pytest.approx(WEEK.lines, rel=0.02)


def test_it_fills_seven_days_in_order_with_a_daily_rhythm(lines: list[tuple[int, bytes]]) -> None:
    seconds = [second for second, _ in lines]
    assert seconds == sorted(seconds)
    assert WEEK.start <= seconds[0] < WEEK.start + 3600
    assert WEEK.end - 3600 < seconds[-1] < WEEK.end
    days = Counter((second - WEEK.start) // DAY for second in seconds)
    assert sorted(days) == list(range(7))
    quiet = [days[day] for day in (0, 3, 4, 5, 6)]
    assert min(quiet) > 0.92 * max(quiet)
    story = {*WEEK.campaign, *WEEK.crawl}
    hours = Counter(second % DAY // 3600 for second in seconds if second not in story)
    assert max(hours.values()) > 1.4 * min(hours.values())


def test_the_truth_is_that_of_a_recount_of_the_lines(generated: list[Block]) -> None:
    truth, tally = Truth(), Tally()
    for block in generated:
        assert len(block.lines) == len(block.outcomes)
        truth.extend("default", block.outcomes)
        tally.extend(block.outcomes)
    rows, unread = read_back([line for block in generated for line in block.lines])
    assert unread == 0
    counts: Counter[tuple[object, ...]] = Counter()
    people: dict[tuple[object, ...], set[tuple[object, object]]] = {}
    for second, ip, agent, country, bot, page, _ in rows:
        assert isinstance(second, int)
        key = (second // 300 * 300, country)
        counts[*key, "requests"] += 1
        counts[*key, "pageviews"] += bool(page and not bot)
        if not bot:
            people.setdefault(key, set()).add((ip, agent))
    for window in truth.windows():
        key = (window.window_start, window.country)
        assert window.requests == counts[*key, "requests"]
        assert window.pageviews == counts[*key, "pageviews"]
        assert window.visitors == len(people.get(key, ()))
    assert tally.accepted == truth.accepted == len(rows)
    assert tally.pageviews == sum(window.pageviews for window in truth.windows())


def test_the_campaign_doubles_the_first_hours(lines: list[tuple[int, bytes]]) -> None:
    tagged = [second for second, line in lines if CAMPAIGN[1].encode() in line]
    assert min(tagged) in WEEK.campaign
    first, usual = WEEK.campaign.start, 0
    hours = Counter(second // 3600 for second, _ in lines)
    usual = hours[first // 3600 - 24] or hours[first // 3600 + 24]
    assert hours[first // 3600] > 2 * usual


def test_the_crawler_reads_at_night_from_one_address(lines: list[tuple[int, bytes]]) -> None:
    by_address = Counter(
        line.split(b" ")[0]
        for second, line in lines
        if CRAWLER.agent.encode() in line and second in WEEK.crawl
    )
    assert by_address.most_common(1)[0][1] == round(0.02 * WEEK.lines)


def test_the_broken_link_is_followed_from_one_referrer(lines: list[tuple[int, bytes]]) -> None:
    followed = [(second, line) for second, line in lines if BROKEN_REFERRER in line]
    assert len(followed) >= 0.98 * 0.012 * WEEK.lines  # but for those in the silence
    assert all(second in WEEK.broken_link for second, _ in followed)
    wanted = b'"GET ' + BROKEN_PATH.encode() + b' HTTP/1.1" '
    answers = Counter(line.split(wanted)[1][:3] for _, line in followed)
    assert set(answers) <= {b"404", b"503"} and answers[b"404"] > 0.9 * len(followed)


def test_in_the_outage_every_request_fails_and_just_before_nearly_none(
    lines: list[tuple[int, bytes]],
) -> None:
    def failed(seconds: range) -> float:
        there = [line for second, line in lines if second in seconds and b" HTTP/" in line]
        assert len(there) > 20
        return sum(b'" 503 ' in line for line in there) / len(there)

    assert failed(WEEK.outage) == 1.0
    assert failed(range(WEEK.outage.start - 3600, WEEK.outage.start)) < 0.1


def test_the_search_is_slow_for_an_afternoon_and_one_page_always(lines: list[tuple[int, bytes]]) -> None:
    def typical(path: str, seconds: range, *, within: bool = True) -> float:
        request = f'"GET {path}'.encode()
        took = [
            float(line.rsplit(b" ", 1)[1])
            for second, line in lines
            if request in line and b'" 200 ' in line and (second in seconds) == within
        ]
        assert len(took) > 5
        return median(took)

    assert typical(SLOWED + "?", WEEK.slow) > 5 * typical(SLOWED + "?", WEEK.slow, within=False)
    assert typical("/products/compare", range(WEEK.start, WEEK.end)) > 1.5
    assert typical("/ ", range(WEEK.start, WEEK.end)) < 0.2


def test_nothing_is_logged_in_the_silence(lines: list[tuple[int, bytes]]) -> None:
    assert [second for second, _ in lines if second in WEEK.silence] == []
    assert len([second for second, _ in lines if second + 1200 in WEEK.silence]) > 5


def test_assistants_send_visits_all_week(lines: list[tuple[int, bytes]]) -> None:
    sent = [second for second, line in lines if b"utm_source=chatgpt.com" in line or b"claude.ai/" in line]
    assert len({(second - WEEK.start) // DAY for second in sent}) == 7

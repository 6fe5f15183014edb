"""What the generator knows of its bots, campaigns, searches, statuses, suspects and purchases, against the lines."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.pipeline.compare import REQUESTS
from tests.pipeline.recount import Expected, recount
from tidemark.traffic import agents
from tidemark.traffic.site import CONVERTED, FUNNEL
from tidemark.traffic.stream import Traffic, blocks
from tidemark.traffic.truth import Truth
from tidemark.traffic.week import Week, week_blocks

START = 1_780_000_200
DAY = 86_400


@pytest.fixture(scope="module", params=["traffic", "week"])
def generated(request: pytest.FixtureRequest) -> tuple[Truth, Expected]:
    """Traffic of some hours across midnight, or a week."""
    if request.param == "week":
        all_blocks = list(week_blocks(Week(START, lines=20_000, seed=9)))
    else:
        all_blocks = list(
            blocks(Traffic(START, rate=2, seconds=20_000, seed=9, visitors=2_000, request_time=True))
        )
    truth = Truth(timed=True)
    for block in all_blocks:
        truth.extend("shop", block.outcomes)
    return truth, recount(("shop", line) for block in all_blocks for line in block.lines)


def requests(expected: Expected, *columns: str) -> Counter[tuple[object, ...]]:
    """Number of requests by some columns."""
    places = [REQUESTS.index(name) for name in columns]
    counts: Counter[tuple[object, ...]] = Counter()
    for *row, number in expected.requests:
        counts[tuple(row[place] for place in places)] += number  # type: ignore[assignment]
    return counts


def test_every_kind_of_bot_is_counted(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    counts = requests(expected, "site", "bot_name", "bot_kind", "ai_purpose", "bot")
    bots = truth.facts.bots
    assert {(*key[:3], key[3] or None): number for key, number in bots.items()} == {
        key[:4]: number for key, number in counts.items() if key[4]
    }
    declared = {bot.kind for each in agents.BOTS.values() for bot in each if bot.name}
    assert {kind for _, _, kind, _ in bots} == {*declared, "forged"}
    assert {purpose for *_, purpose in bots} == {"", "training", "search", "assistant"}


def test_pageviews_of_campaigns(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    counts = requests(expected, "site", "utm_campaign", "pageview")
    campaigns = {key[:2]: number for key, number in counts.items() if key[1] is not None and key[2]}
    assert truth.facts.campaigns == campaigns
    assert {campaign for _, campaign in campaigns} > {"brand", "Grinders-Q4", "black friday", "Café & Filter"}


def test_searches_by_day(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    assert truth.facts.searches == {row[:3]: row[3] for row in expected.searches}
    assert len({day for _, day, _ in truth.facts.searches}) > 1


def test_statuses_and_durations(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    assert truth.facts.statuses == requests(expected, "site", "status")
    assert sum(row[-1] for row in expected.latency) == truth.timed == truth.accepted  # type: ignore[misc]


def test_suspects_of_each_rule(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    assert truth.facts.suspected() == suspected(expected)
    assert {rule for *_, rule in truth.facts.suspected()} >= set("abcd")


def suspected(expected: Expected) -> Counter[tuple[object, ...]]:
    """Visitors by site, day and rule, from the recomputed silver.visitor_days."""
    loading: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for site, day, _, _, assets, *_, number in expected.visitor_days:
        loading[site, day] += number if assets else 0  # type: ignore[operator]
    counts: Counter[tuple[object, ...]] = Counter()
    for (
        site,
        day,
        requested,
        views,
        assets,
        missing,
        robots,
        hosting,
        minutes,
        number,
    ) in expected.visitor_days:
        busiest = max((int(each.split(":")[1]) for each in str(minutes).split()), default=0)
        rules = {
            "a": robots > 0,  # type: ignore[operator]
            "b": views >= 30 and assets == 0 and loading[site, day] > 0,  # type: ignore[operator]
            "c": busiest > 60,
            "d": requested >= 10 and missing == requested,  # type: ignore[operator]
            "e": hosting > 0 and views >= 3 and assets == 0 and loading[site, day] > 0,  # type: ignore[operator]
        }
        for rule, holds in rules.items():
            if holds:
                counts[site, day, rule] += number  # type: ignore[assignment, operator]
    return counts


def test_purchases(generated: tuple[Truth, Expected]) -> None:
    truth, expected = generated
    (result,) = truth.conversions()
    bought = requests(expected, "path", "bot")[CONVERTED, False]
    assert result.completions == bought >= result.conversions > 5
    steps = [result.funnel[path] for path in FUNNEL]
    assert steps == sorted(steps, reverse=True)
    # After a long pause, the last page may be of another session than the cart.
    assert 0 < steps[2] <= result.conversions

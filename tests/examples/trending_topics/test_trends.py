"""What a trend is, from sketches by the example and from plain counts by its recount."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from datasketches import frequent_strings_sketch

from examples.kit.load import Load
from examples.trending_topics.check import differences, recount
from examples.trending_topics.example import mentions
from examples.trending_topics.generator import SPEED, burst, events
from examples.trending_topics.trends import Definition, error, score, trends, unite, window_ends

QUIET = Definition(least_history=5, floor=5)


def sketch(counts: dict[str, int], lg_entries: int = 10) -> frequent_strings_sketch:
    generated = frequent_strings_sketch(lg_entries)
    for topic, count in counts.items():
        generated.update(topic, count)
    return generated


def sketches(mentions: Iterable[tuple[int, str]], lg_entries: int = 14) -> dict[int, frequent_strings_sketch]:
    counts: dict[int, Counter[str]] = {}
    for second, topic in mentions:
        counts.setdefault(second // 60, Counter())[topic] += 1
    return {minute: sketch(counter, lg_entries) for minute, counter in counts.items()}


def load(seed: int = 1) -> Load:
    return Load(seed=seed, rate=400, seconds=15, late=0.2)


def test_a_topic_that_is_always_frequent_is_no_trend_and_one_that_rises_is() -> None:
    calm = {minute: sketch({"usual": 30}) for minute in range(100, 130)}
    rising = {minute: sketch({"usual": 30, "news": 6}) for minute in range(125, 130)}
    result = trends(calm | rising, 130, QUIET)
    assert [(t.rank, t.topic, t.messages, t.expected, t.score) for t in result] == [
        (1, "news", 30, 0.0, 30.0)
    ]


def test_a_risen_topic_becomes_its_own_baseline() -> None:
    minutes = {m: sketch({"usual": 30, **({"news": 6} if m >= 125 else {})}) for m in range(100, 250)}
    assert [t.topic for t in trends(minutes, 130, QUIET)] == ["news"]
    assert trends(minutes, 250, QUIET) == []


def test_recent_minutes_count_more_in_the_baseline() -> None:
    early = {m: sketch({"a": 9 if m < 110 else 1}) for m in range(100, 120)}
    late = {m: sketch({"a": 1 if m < 110 else 9}) for m in range(100, 120)}
    now = {m: sketch({"a": 40}) for m in range(120, 130)}
    after_early, after_late = (trends(past | now, 130, QUIET)[0] for past in (early, late))
    assert after_early.expected < after_late.expected
    assert after_early.score > after_late.score


def test_nothing_is_scored_before_there_is_history() -> None:
    minutes = {m: sketch({"a": 50}) for m in range(100, 114)}
    assert trends(minutes, 114, QUIET) == []


def test_ties_go_to_the_name_and_the_list_ends_at_the_top() -> None:
    past = {m: sketch({"usual": 1}) for m in range(100, 120)}
    now = {120: sketch(dict.fromkeys("dbca", 50))}
    result = trends(past | now, 130, Definition(least_history=5, floor=5, top=3))
    assert [(t.rank, t.topic) for t in result] == [(1, "a"), (2, "b"), (3, "c")]


def test_a_minute_changes_the_windows_it_lies_in_or_before() -> None:
    definition = Definition(window=3, slide=2, history=4)
    assert window_ends([10], definition) == [12, 14, 16]
    assert window_ends([10, 11], definition) == [12, 14, 16, 18]


def test_the_score_of_what_was_expected_is_nothing() -> None:
    assert score(10, 10.0) == 0
    assert score(20, 0.0) == 20
    assert score(20, 8.0) == 4


def test_united_sketches_count_together_in_either_order() -> None:
    a, b = sketch({"x": 3, "y": 1}).serialize(), sketch({"x": 4}, 12).serialize()
    for both in (unite([a, b]), unite([b, a])):
        generated = frequent_strings_sketch.deserialize(both)
        assert (generated.get_estimate("x"), generated.get_estimate("y"), error(generated)) == (7, 1, 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sketches_and_recount_agree_on_generated_messages(seed: int) -> None:
    mentioned = list(mentions(load(seed)))
    minutes = sketches(mentioned)
    result = [t for end in window_ends(minutes, Definition()) for t in trends(minutes, end, Definition())]
    assert differences(result, recount(mentioned, Definition())) == []
    bursts = [burst(load(seed), number) for number in range(4)]
    assert all(b.at + b.width < 15 * SPEED for b in bursts)
    assert {t.topic for t in result} >= {b.topic for b in bursts}


def test_the_recount_notices_a_lost_message() -> None:
    mentioned = list(mentions(load()))
    lost = next(number for number, (_, topic) in enumerate(mentioned) if topic == "news1")
    result = recount(mentioned[:lost] + mentioned[lost + 1 :], Definition())
    assert differences(result, recount(mentioned, Definition()))


def test_a_million_topics_keep_within_bounded_memory_and_the_stated_error() -> None:
    random = Random(7)
    truth = Counter({f"rare{n}": 1 for n in random.sample(range(10_000_000), 200_000)})
    truth.update({f"topic{n}": 20_000 // (n + 1) for n in range(50)})
    parts = [frequent_strings_sketch(12) for _ in range(5)]
    for number, (topic, count) in enumerate(sorted(truth.items(), key=lambda item: item[0][::-1])):
        parts[number % 5].update(topic, count)
    united = unite([part.serialize() for part in parts])
    generated = frequent_strings_sketch.deserialize(united)
    assert len(united) < 4096 * 40
    assert 0 < error(generated) <= 3.5 * truth.total() / 4096  # the a priori bound of Anderson et al., 2017
    assert all(
        abs(generated.get_estimate(topic) - count) <= error(generated) for topic, count in truth.items()
    )


def test_equal_seeds_give_equal_messages_and_others_do_not() -> None:
    assert list(events(load(5))) == list(events(load(5)))
    assert list(events(load(5))) != list(events(load(6)))


def test_about_one_message_in_a_hundred_is_bad() -> None:
    generated = list(events(load()))
    assert len(generated) == 400 * 15
    assert 0.005 < sum(bool(event.reason) for event in generated) / len(generated) < 0.02

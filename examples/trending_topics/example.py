"""The example as its command line needs it: input, job, what is shown, and the recount."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime

from examples.kit.example import Example
from examples.kit.load import Load
from examples.kit.results import Results
from examples.trending_topics.check import differences, recount
from examples.trending_topics.generator import events
from examples.trending_topics.job import MINUTES, TRENDS, job
from examples.trending_topics.trends import Definition, Trend

_SHOWN = 3


def mentions(load: Load) -> Iterator[tuple[int, str]]:
    """(epoch second, topic) of every topic of every good message of the load."""
    for event in events(load):
        if not event.reason:
            fields = json.loads(event.value)
            second = int(datetime.fromisoformat(fields["event_time"]).timestamp())
            for topic in dict.fromkeys(re.findall(r"#(\w+)", fields["text"].lower())):
                yield second, topic


def show(results: Results) -> Iterator[str]:
    """The strongest trends of the newest window that changed."""
    rows = sorted(results.fresh(TRENDS).to_pylist(), key=lambda row: (row["window_end"], -row["rank"]))
    newest = [row for row in rows if row["window_end"] == rows[-1]["window_end"]]
    for row in reversed(newest[-_SHOWN:]):
        yield (
            f"{row['window_end']:%H:%M}  #{row['topic']:<10} {row['messages']:5,} messages, "
            f"{row['expected']:7.1f} expected, score {row['score']:6.1f}"
        )


def check(load: Load, results: Results) -> Iterator[str]:
    """The table's trends against the recount. The sketches must have had room, so that both are exact."""
    rows = results.table(TRENDS).sort_by([("window_end", "ascending")]).to_pylist()
    trends = [
        Trend(int(row["window_end"].timestamp()) // 60, *(row[name] for name in Trend._fields[1:]))
        for row in rows
    ]
    yield from differences(trends, recount(mentions(load), Definition()))
    wrong = sum(results.table(MINUTES)["error"].to_pylist())
    if wrong:
        yield f"the sketches were too small: they may be wrong by {wrong}"


EXAMPLE = Example("examples.trending_topics", job(), events, show, check, rate=1000.0)

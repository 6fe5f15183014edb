"""Conversions equal a plain recount, however requests are split and ordered."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from gold import goals as gold_goals
from silver import requests, session_goals
from tests.engine.test_every_table import _read, applied
from tidemark.engine.conversions import Conversions
from tidemark.engine.goals import SessionGoals
from tidemark.figures.declared import Goal

GAP = 1800
START = datetime(2026, 11, 22, tzinfo=UTC)
GOALS = {
    "welcome": Goal(path="/welcome*"),
    "missing": Goal(path="*", status=404),
    "sent": Goal(path="/form", method="POST", site="shop"),
    "guide": Goal(download=("pdf", ".zip")),
    "found": Goal(search=True),
}
PATHS = ["/", "/welcome", "/welcome/a/b", "/form", "/Welcome", "/a.PDF", "/zip", "/x.zip", None]


class Request(NamedTuple):
    second: int
    site: str
    visitor: str
    path: str | None
    status: int
    method: str
    term: str | None
    bot: bool

    @property
    def pageview(self) -> bool:
        return self.status < 400 and self.method == "GET" and not self.bot and self.path != "/x.zip"

    @property
    def channel(self) -> str:
        return "email" if self.path == "/welcome" else "direct"

    def reaches(self, name: str) -> bool:
        path = self.path or ""
        return (
            not self.bot
            and {
                "welcome": path.startswith("/welcome"),
                "missing": self.path is not None and self.status == 404,
                "sent": path == "/form" and self.method == "POST" and self.site == "shop",
                "guide": path.lower().endswith((".pdf", ".zip")),
                "found": self.term is not None,
            }[name]
        )


def some(chance: random.Random, number: int) -> list[Request]:
    return [
        Request(
            chance.randrange(0, 6 * 3600, 60),
            chance.choice(["shop", "blog"]),
            chance.choice("vw"),
            chance.choice(PATHS),
            chance.choice([200, 200, 404]),
            chance.choice(["GET", "GET", "POST"]),
            chance.choice([None, None, "boots"]),
            chance.random() < 0.1,
        )
        for _ in range(number)
    ]


def rows_of(sent: list[Request]) -> pa.Table:
    rows = [
        {
            "site": each.site, "visitor_id": each.visitor, "event_time": START + timedelta(seconds=each.second),
            "path": each.path, "pageview": each.pageview, "channel": each.channel, "bot": each.bot,
            "status": each.status, "method": each.method, "search_term": each.term,
        }
        for each in sent
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, requests.TABLE.arrow_schema)


def recount(sent: list[Request]) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Conversions and visitors by site, hour, goal and channel: the definition, word for word."""
    sessions: list[list[Request]] = []
    views = [each for each in sent if each.pageview]
    for view in sorted(views, key=lambda v: (v.site, v.visitor, v.second, v.path or "")):
        last = sessions[-1][-1] if sessions else None
        if last and last[1:3] == view[1:3] and view.second - last.second < GAP:
            sessions[-1].append(view)
        else:
            sessions.append([view])
    reached: dict[tuple[Any, ...], list[str]] = {}
    for session in sessions:
        first, last = session[0], session[-1]
        within = [
            each for each in sent
            if each[1:3] == first[1:3] and first.second <= each.second < last.second + GAP
        ]  # fmt: skip
        for name in GOALS:
            if any(each.reaches(name) for each in within):
                hour = START + timedelta(seconds=first.second // 3600 * 3600)
                reached.setdefault((first.site, hour, name, first.channel), []).append(first.visitor)
    return {key: (len(visitors), len(set(visitors))) for key, visitors in reached.items()}


def conversions(rows: pa.Table) -> dict[tuple[Any, ...], tuple[int, int]]:
    aggregation = Conversions.of(3600, GOALS)
    partial = aggregation.partial(rows.select(list(aggregation.needs)))
    result = aggregation.combine(gold_goals.TABLE.arrow_schema.empty_table(), partial).rows
    assert {(row["goal"], row["definition"]) for row in result.to_pylist()} <= {
        (name, goal.definition) for name, goal in GOALS.items()
    }
    return {
        tuple(row[name] for name in gold_goals.TABLE.key): (row["conversions"], row["visitors"])
        for row in result.to_pylist()
    }


@pytest.mark.parametrize("seed", range(8))
def test_conversions_equal_a_recount_batch_after_batch(seed: int) -> None:
    chance = random.Random(seed)
    sent = some(chance, 60)
    aggregation = SessionGoals(GAP, GOALS)
    table = session_goals.TABLE
    rows = table.arrow_schema.empty_table()
    for start in range(0, len(sent), 7):
        parts = [rows_of(sent[start : start + 3]), rows_of(sent[start + 3 : start + 7])]
        partial = aggregation.merge(
            pa.concat_tables([aggregation.partial(part.select(list(aggregation.needs))) for part in parts])
        )
        rows = applied(table, rows, aggregation.combine(_read(rows, aggregation.touched(partial)), partial))
        assert conversions(rows) == recount(sent[: start + 7])
    at_once = aggregation.combine(
        table.arrow_schema.empty_table(), aggregation.partial(rows_of(sent).select(list(aggregation.needs)))
    ).rows
    order = [("session_id", "ascending")]
    names = [name for name in table.column_names if name != "updated_at"]
    assert rows.select(names).sort_by(order).to_pylist() == at_once.select(names).sort_by(order).to_pylist()


def test_a_match_waits_for_its_session() -> None:
    aggregation = SessionGoals(GAP, GOALS)
    match = Request(1_900, "shop", "v", "/form", 200, "POST", None, False)
    view = match._replace(second=200, path="/", method="GET")
    rows = aggregation.combine(
        session_goals.TABLE.arrow_schema.empty_table(),
        aggregation.partial(rows_of([match]).select(list(aggregation.needs))),
    ).rows
    assert rows["pageviews"].to_pylist() == [0] and conversions(rows) == {}
    change = aggregation.combine(rows, aggregation.partial(rows_of([view]).select(list(aggregation.needs))))
    assert change.deleted == rows
    assert conversions(change.rows) == {("shop", START, "sent", "direct"): (1, 1)}


def test_without_goals_there_are_no_rows_and_another_definition_is_not_counted() -> None:
    rows = rows_of(some(random.Random(1), 30))
    none = SessionGoals(GAP)
    assert none.partial(rows.select(list(none.needs))).num_rows == 0
    aggregation = SessionGoals(GAP, {"welcome": Goal(path="/")})
    result = aggregation.combine(
        session_goals.TABLE.arrow_schema.empty_table(),
        aggregation.partial(rows.select(list(aggregation.needs))),
    )
    assert result.rows.num_rows and conversions(result.rows) == {}
    assert aggregation.identity.keys() != SessionGoals(GAP, {"welcome": GOALS["welcome"]}).identity.keys()

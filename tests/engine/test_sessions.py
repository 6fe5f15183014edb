"""Sessions compared with a plain recount, in any order of pageviews."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silver import requests
from silver.sessions import TABLE
from tidemark.engine.intervals import session_id
from tidemark.engine.sessions import Sessions

GAP = 1800
START = datetime(2026, 11, 21, tzinfo=UTC)


class View(NamedTuple):
    """A pageview, in seconds after START."""

    second: int
    path: str = "/"
    visitor: str = "v"
    site: str = "s"
    query: str | None = None
    referrer: str | None = None
    channel: str = "direct"
    source: str = ""
    medium: str | None = None
    host: str | None = None

    @property
    def internal(self) -> bool:
        return self.channel == "internal"


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def recount(views: Sequence[View]) -> list[dict[str, Any]]:
    """Every session, by one pass over all pageviews in order of time: the definition, word for word."""
    result = []
    for (site, visitor), group in groupby(sorted(views, key=_order), key=lambda v: (v.site, v.visitor)):
        session: list[View] = []
        for view in group:
            if session and view.second - session[-1].second >= GAP:
                result.append(_session(site, visitor, session))
                session = []
            session.append(view)
        result.append(_session(site, visitor, session))
    # The last of each site stays.
    newest = {view.site: view.second for view in sorted(views, key=lambda view: view.second)}
    for row in result:
        row["closed"] = at(newest[row["site"]]) - row["end_time"] > timedelta(seconds=GAP)
    return sorted(result, key=lambda row: row["session_id"])


def _order(view: View) -> tuple[Any, ...]:
    texts = (view.path, view.query, view.referrer, *_origin(view))
    # NULLs first
    return view.site, view.visitor, view.second, *((text is not None, text or "") for text in texts)


def _origin(view: View) -> tuple[str | None, ...]:
    """Channel, source, medium and referring host of a session that begins with the view."""
    channel, source = ("direct", "") if view.internal else (view.channel, view.source)
    return channel, source, (view.medium or "").lower(), view.host


def _session(site: str, visitor: str, views: list[View]) -> dict[str, Any]:
    first, last = views[0].second, views[-1].second
    entry = min((v for v in views if v.second == first), key=_order)
    return {
        "session_id": session_id(site, visitor, int(at(first).timestamp()) * 1_000_000),
        "site": site,
        "visitor_id": visitor,
        "country": "DE",
        "start_time": at(first),
        "end_time": at(last),
        "duration_seconds": last - first,
        "pageviews": len(views),
        "entry_page": entry.path,
        "exit_page": max(v.path for v in views if v.second == last),
        "bounced": len(views) == 1,
        "closed": None,
        "browser": "Firefox",
        "os": "Linux",
        "device": "desktop",
        "entry_query": entry.query,
        "entry_referrer": entry.referrer,
        **dict(zip(("channel", "source", "medium", "referrer_host"), _origin(entry), strict=True)),
        "campaign": _origin(entry)[2],
    }


CONSTANT = {"country": "DE", "browser": "Firefox", "os": "Linux", "device": "desktop"}
REQUESTS = pa.schema([*(requests.TABLE.arrow_schema.field(name) for name in Sessions.needs)])


def pageviews(views: Sequence[View]) -> pa.Table:
    """The views as rows of silver.requests, and a request that is none."""
    rows = [
        {
            "site": v.site, "visitor_id": v.visitor, "event_time": at(v.second), "path": v.path,
            "pageview": True, "channel": v.channel, "referrer_host": v.host, **CONSTANT, "query": v.query,
            "referrer": v.referrer, "source": v.source, "utm_medium": v.medium, "utm_campaign": v.medium,
        }
        for v in views
    ]  # fmt: skip
    return pa.Table.from_pylist([*rows, *({**row, "pageview": False} for row in rows[:1])], REQUESTS)


class Stored:
    """The sessions table, in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.newest: dict[str, datetime] = {}

    def take(self, views: Sequence[View]) -> tuple[int, int]:
        """Merges a batch in; returns how many rows were written and deleted."""
        for view in views:
            self.newest[view.site] = max(self.newest.get(view.site, START), at(view.second))
        existing = pa.Table.from_pylist(list(self.rows.values()), TABLE.arrow_schema)
        aggregation = Sessions(GAP, self.newest)
        change = aggregation.combine(existing, aggregation.partial(pageviews(views)))
        gone = change.deleted.to_pylist() if change.deleted else []
        for row in gone:
            del self.rows[row["session_id"]]
        for row in change.rows.to_pylist():
            self.rows[row["session_id"]] = row
        return change.rows.num_rows, len(gone)

    def content(self) -> list[dict[str, Any]]:
        rows = sorted(self.rows.values(), key=lambda row: row["session_id"])
        return [{name: value for name, value in row.items() if name != "updated_at"} for row in rows]


VIEWS = st.builds(
    View,
    # Around the gap, where sessions meet or do not, and on the same second.
    second=st.one_of(st.integers(0, 20_000), st.integers(0, 12).map(lambda n: n * 900)),
    path=st.sampled_from(["/", "/a", "/b", "/é"]),
    visitor=st.sampled_from(["u", "v"]),
    site=st.sampled_from(["s", "t"]),
    query=st.sampled_from([None, "", "b"]),
    referrer=st.sampled_from([None, "https://a.example/"]),
    channel=st.sampled_from(["direct", "internal", "organic search"]),
    source=st.sampled_from(["", "google"]),
    medium=st.sampled_from([None, "CPC", "cpm"]),
    host=st.sampled_from([None, "a.example", "b.example"]),
)


@settings(max_examples=150, deadline=None)
@given(views=st.lists(VIEWS, min_size=1, max_size=40), data=st.data())
def test_any_order_in_any_batches_gives_the_same_table(views: list[View], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(views))
    bounds = sorted(data.draw(st.lists(st.integers(0, len(views)), max_size=8)))
    table = Stored()
    for low, high in zip([0, *bounds], [*bounds, len(views)], strict=True):
        table.take(shuffled[low:high])
        assert table.content() == recount(shuffled[:high]) if high else True
    assert table.content() == recount(views)


@pytest.mark.parametrize("seconds, sessions", [(GAP - 1, 1), (GAP, 2), (GAP + 1, 2)])
def test_the_gap_itself_parts_two_sessions(seconds: int, sessions: int) -> None:
    together, apart = Stored(), Stored()
    together.take([View(0), View(seconds)])
    apart.take([View(seconds)])
    apart.take([View(0)])
    assert len(together.rows) == sessions
    assert together.content() == apart.content()


def test_a_late_line_between_two_sessions_merges_them() -> None:
    table = Stored()
    table.take([View(0, "/in"), View(3000, "/out")])
    assert len(table.rows) == 2
    assert table.take([View(1500, "/between")]) == (1, 1), "one row revised, the other's id deleted"
    [row] = table.content()
    assert (row["entry_page"], row["exit_page"], row["pageviews"], row["duration_seconds"]) == (
        "/in",
        "/out",
        3,
        3000,
    )


def test_a_line_before_the_first_gives_the_session_another_id() -> None:
    table = Stored()
    table.take([View(100, "/b")])
    before = set(table.rows)
    assert table.take([View(50, "/a")]) == (1, 1)
    assert before.isdisjoint(table.rows)
    assert table.content() == recount([View(50, "/a"), View(100, "/b")])


def test_within_a_second_the_smallest_path_enters_and_the_largest_leaves() -> None:
    table = Stored()
    for path in ("/m", "/z", "/a"):
        table.take([View(0, path)])
    [row] = table.content()
    assert (row["entry_page"], row["exit_page"]) == ("/a", "/z")


def test_of_pageviews_at_the_same_time_path_query_and_referrer_decide_the_entry() -> None:
    entry = View(
        0, "/a", query="utm_medium=Email", referrer="https://b.example/", channel="email", medium="Email"
    )
    others = [
        View(0, "/a", query="utm_medium=b", channel="referral"),
        View(0, "/a", query=entry.query, referrer="https://c.example/", channel="referral"),
        View(0, "/b", channel="referral"),
        View(1, "/", channel="referral"),
    ]
    for views in ([entry, *others], [*reversed(others), entry]):
        table = Stored()
        for view in views:
            table.take([view])
        [row] = table.content()
        assert (row["entry_query"], row["entry_referrer"]) == (entry.query, entry.referrer)
        assert (row["channel"], row["medium"], row["campaign"]) == ("email", "email", "email")


def test_a_session_that_begins_on_the_sites_own_page_is_direct() -> None:
    table = Stored()
    table.take([View(0, channel="internal", source="shop.example", host="shop.example")])
    [row] = table.content()
    assert (row["channel"], row["source"], row["referrer_host"]) == ("direct", "", "shop.example")


def test_a_session_closes_when_its_site_has_moved_on() -> None:
    table = Stored()
    table.take([View(0)])
    table.take([View(GAP, visitor="w"), View(9 * GAP, site="t")])
    assert {(r["visitor_id"], r["site"]): r["closed"] for r in table.content()} == {
        ("v", "s"): False, ("w", "s"): False, ("v", "t"): False,
    }  # fmt: skip
    table.take([View(GAP + 1, visitor="w")])
    assert {r["visitor_id"]: r["closed"] for r in table.content() if r["site"] == "s"} == {
        "v": True,
        "w": False,
    }


def test_nothing_new_changes_nothing() -> None:
    table = Stored()
    table.take([View(0), View(10_000)])
    assert table.take([]) == (0, 0)
    assert Stored().take([]) == (0, 0)


def test_many_visitors_over_many_years() -> None:
    chance = random.Random(7)
    views = [View(chance.randrange(-50 * 31_536_000, 0), visitor=f"{n % 9000:05}") for n in range(12_000)]
    aggregation = Sessions(GAP, {"s": START})
    partials = [aggregation.partial(pageviews(half)) for half in (views[:6000], views[6000:])]
    change = aggregation.combine(
        TABLE.arrow_schema.empty_table(), aggregation.merge(pa.concat_tables(partials))
    )
    merged = change.rows.drop_columns("updated_at").sort_by("session_id").to_pylist()
    expected = recount(views)
    assert [row | {"closed": None} for row in merged] == [row | {"closed": None} for row in expected]

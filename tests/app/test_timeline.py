"""One session as a timeline, compared with its requests."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.app import lakehouse
from tests.app.recounted import Scene
from tidemark.figures import sessions
from tidemark.figures.declared import Goal
from tidemark.figures.permitted import ForbiddenError, permitted
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.right import Right
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection
from tidemark.figures.text import several
from tidemark.figures.timeline import session_at, timeline

GAP = timedelta(minutes=30)
GOALS = {"read a": Goal("/a")}


def test_a_session_has_its_steps_with_gaps_files_and_goals_and_its_visitors_other_sessions(
    scene: Scene,
) -> None:
    rows, lines = scene
    every = sessions.latest(rows, Selection(), 100_000)
    with_files = with_goals = 0
    for _, session in every.nlargest(12, "pageviews").iterrows():
        result = timeline(rows, session["session_id"], GOALS, GAP)
        assert result is not None and result.session["pageviews"] == session["pageviews"]

        mine = lines[(lines["site"] == session["site"]) & (lines["visitor_id"] == session["visitor_id"])]
        during = mine["event_time"].between(
            session["start_time"], session["end_time"] + GAP, inclusive="left"
        )
        mine = mine[during].sort_values(["event_time", "offset"])
        goal = (mine["path"] == "/a") & ~mine["bot"]
        is_step = mine["pageview"] | (mine["status"] >= 400) | goal
        steps = result.steps
        assert steps["path"].tolist() == mine.loc[is_step, "path"].tolist()
        assert steps["pageview"].sum() == session["pageviews"]
        assert [names == ["read a"] for names in steps["goals"]] == goal[is_step].tolist()
        seconds = mine.loc[is_step, "event_time"].diff().dt.total_seconds()
        assert steps["gap"].iloc[1:].tolist() == seconds.iloc[1:].tolist()
        first = is_step.to_numpy().argmax()
        assert steps["files"].sum() == (~is_step.iloc[first:]).sum()
        with_files += int(steps["files"].sum())
        with_goals += int(goal.sum())

        others = every[(every["site"] == session["site"]) & (every["visitor_id"] == session["visitor_id"])]
        assert set(result.others["session_id"]) == set(others["session_id"]) - {session["session_id"]}
        view = mine[mine["pageview"]].iloc[-1]
        assert session_at(rows, view) == session["session_id"]
    assert with_files and with_goals
    assert timeline(rows, "no such session", GOALS, GAP) is None


def test_a_viewer_sees_no_session(scene: Scene) -> None:
    rows, _ = scene
    session = sessions.latest(rows, Selection(), 1)["session_id"].iloc[0]
    with pytest.raises(ForbiddenError):
        timeline(Rows(permitted(rows.reader, Right("viewer"))), session, GOALS, GAP)


def test_the_address_opens_a_session_and_another_one_of_its_visitor(tmp_path: Path) -> None:
    lakehouse.build(tmp_path, lakehouse.requests())
    every = sessions.latest(Rows(DeltaReader(tmp_path)), Selection(), 100_000)
    known = every.groupby("visitor_id")["session_id"].transform("count")
    session = every[known > 1].iloc[0]

    def script(home: str) -> None:
        from pathlib import Path

        from app.dashboard.controls import address, views
        from app.dashboard.filters import Filters
        from tidemark.figures.reader_delta import DeltaReader

        address.read((), "Sessions")
        views.show(DeltaReader(Path(home)), Filters(preset="all"))

    page = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(tmp_path)})
    page.query_params["session"] = session["session_id"]
    page.run()
    assert not page.exception and several(session["pageviews"], "pageview") in page.caption[0].value
    page.button(key="other-session-0").click().run()
    assert page.session_state["choice"].session in set(every["session_id"]) - {session["session_id"]}

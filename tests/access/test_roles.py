"""Every role asks for everything: reports, tables and pages, through the one layer that says no."""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.dashboard import data
from app.dashboard.controls import edit, noting
from tests.app import lakehouse
from tests.app.scene import line_of
from tidemark.access.asking import HEADER, OWNER, Asking, Shared, signed
from tidemark.access.door import Door
from tidemark.access.shares import PAGES, Share
from tidemark.figures import drill, sessions
from tidemark.figures.declared import Declared, Kind, of_right
from tidemark.figures.permitted import ForbiddenError, Permitted, permitted
from tidemark.figures.query import (
    AnyOf,
    Exists,
    HasElement,
    Query,
    Where,
    count,
    distinct_values,
    greatest,
    query,
)
from tidemark.figures.question import Parameters
from tidemark.figures.reader import Reader
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import REPORTS
from tidemark.figures.right import EVERYTHING, ROLES, Right, Role
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection, SelectionError, filters_of

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "app" / "main.py"
MINE, OTHER = "a.example", "b.example"
VIEWER, ANALYST = Right.of("viewer", [MINE]), Right.of("analyst", [MINE])
ALL_OF = {"all": (), "filtered": ("device=mobile", "path^/a")}
FUNNEL = Declared({"funnels": {"f": {"steps": ["/a*", "/*"], "scope": "visitor"}}})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two sites."""
    directory = tmp_path_factory.mktemp("home")
    rows = lakehouse.requests()
    lakehouse.build(directory, rows)
    lakehouse.write(directory, "bronze.access_log", [line_of(row) for row in rows])
    return directory


@pytest.fixture(scope="module")
def reader(home: Path) -> Reader:
    return DeltaReader(home)


@pytest.mark.parametrize("filters", ALL_OF.values(), ids=ALL_OF)
@pytest.mark.parametrize("name", [name for name in REPORTS if name != "explain"])  # which needs a range
def test_a_report_of_all_sites_is_of_those_that_a_role_may_see(
    reader: Reader, name: str, filters: tuple[str, ...]
) -> None:
    parameters = Parameters(FUNNEL, name="f")
    chosen = filters_of(filters)

    def report(right: Right, site: str | None) -> Any:
        rows = Rows(permitted(reader, right))
        result = REPORTS[name](rows, Selection(site, filters=chosen), parameters).json
        return {key: value for key, value in result.items() if key != "suspected"}

    of_site = report(EVERYTHING, MINE)
    assert report(VIEWER, None) == report(VIEWER, MINE) == report(ANALYST, None) == of_site
    assert json.dumps(report(Right("viewer"), None), default=str) == json.dumps(
        report(EVERYTHING, None), default=str
    )
    elsewhere = report(VIEWER, OTHER)
    assert OTHER not in str(elsewhere) and elsewhere == report(EVERYTHING, "a site that is not there")


@pytest.mark.parametrize(
    "wanted",
    [
        query("silver/requests", ["event_time", "path"], limit=1),
        query("silver/requests", {"address": "client_ip", "n": count()}, group_by=["address"]),
        query("silver/requests", {"newest": greatest("visitor_id")}),
        query("silver/requests", {"n": count()}, [Where("client_ip", "=", "192.0.2.1")]),
        query("silver/requests", {"n": count(AnyOf((Where("user_agent", "=", "a"),)))}),
        query("silver/sessions", ["session_id"]),
        query("silver/visitor_days", ["day", "requests"]),
        query("bronze/access_log", ["value"]),
        query("quality/access", ["who"]),
    ],
    ids=repr,
)
def test_nobody_is_shown_to_a_viewer(reader: Reader, wanted: Query) -> None:
    with pytest.raises(ForbiddenError):
        permitted(reader, Right("viewer")).arrow(wanted)
    if wanted.table != "quality/access":
        Permitted(reader, ANALYST).permitted(wanted)


def test_single_requests_and_their_lines_are_an_analysts(reader: Reader) -> None:
    rows = Rows(permitted(reader, ANALYST))
    result = drill.newest(rows, Selection())
    assert set(result["site"]) == {MINE}
    assert drill.line(rows, result.iloc[0]) is not None
    # Another site's line is not there for those who know where it is.
    other = drill.newest(Rows(reader), Selection(OTHER)).iloc[0]
    assert drill.line(Rows(reader), other) is not None and drill.line(rows, other) is None
    with pytest.raises(ForbiddenError):
        drill.newest(Rows(permitted(reader, VIEWER)), Selection())
    with pytest.raises(ForbiddenError):
        sessions.latest(Rows(permitted(reader, VIEWER)), Selection(), 5)


def test_a_condition_on_another_table_is_of_the_same_sites(reader: Reader) -> None:
    """Otherwise a filter tells whether another site has something."""
    elsewhere = (Where("site", "=", OTHER),)
    for condition in (
        Exists("silver/sessions", (("start_time", "<=", "event_time"),), elsewhere),
        AnyOf((HasElement("site", "silver/session_steps", "steps", (Where("path", "!=", ""),), elsewhere),)),
    ):
        wanted = query(
            "silver/requests", {"n": count(), "visitors": distinct_values("visitor_id")}, [condition]
        )
        assert permitted(reader, VIEWER).arrow(wanted)["n"].to_pylist() == [0]


def test_tables_of_all_sites_are_closed_to_those_who_see_some(reader: Reader, home: Path) -> None:
    lakehouse.write(home, "quality.progress", [{"flow": "requests", "batch_id": 1, "rows": 5}])
    mine = permitted(reader, ANALYST)
    assert mine.arrow(query("quality/progress", ["flow", "recorded_at"])).num_rows == 1
    for wanted in (
        query("quality/progress", ["rows"]),
        query("quality/progress", ["flow"], [Where("rows", ">", 3)]),
    ):
        with pytest.raises(ForbiddenError):
            mine.arrow(wanted)
        assert permitted(reader, Right("viewer")).arrow(wanted).num_rows == 1


def test_what_is_remembered_for_one_right_answers_nobody_with_another(reader: Reader) -> None:
    rights = [EVERYTHING, Right("viewer"), VIEWER, ANALYST, Right.of("viewer", [MINE, OTHER])]
    assert len({permitted(reader, right).label for right in rights}) == len(rights)
    wanted = query("silver/requests", ["path"], order_by=["path"])
    assert len(data.rows_of(permitted(reader, ANALYST))(wanted)) < len(data.rows_of(reader)(wanted))
    with pytest.raises(ForbiddenError):
        data.rows_of(permitted(reader, VIEWER))(wanted)


def test_rows_that_were_counted_are_shown_to_nobody_who_may_not_see_them(reader: Reader) -> None:
    wanted = query("silver/sessions", ["session_id"])
    for right in (Right("viewer"), VIEWER, EVERYTHING):
        known = data.rows_of(permitted(reader, right)).reader
        counted = known.arrow(replace(wanted, counted=True))
        if right is EVERYTHING:
            assert known.arrow(wanted) is counted
        else:
            with pytest.raises(ForbiddenError):
                known.arrow(wanted)


def test_no_page_says_that_its_rows_are_only_counted() -> None:
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_query = isinstance(node, ast.Call) and ast.unparse(node.func) in ("query", "Query", "replace")
            assert not (is_query and "counted" in {each.arg for each in node.keywords}), path
            assert not (isinstance(node, ast.Attribute) and node.attr == "coded"), path


def test_definitions_of_another_site_are_not_shown() -> None:
    declared = Declared(
        {
            "goals": {
                "mine": {"path": "/a", "site": MINE},
                "other": {"path": "/a", "site": OTHER},
                "all": {"path": "/"},
            },
            "sites": {MINE: {}, OTHER: {}},
            "funnels": {"f": {}},
        }
    )
    kept = of_right(declared, VIEWER)
    assert [sorted(kept.of(kind)) for kind in ("goals", "sites", "funnels")] == [
        ["all", "mine"],
        [MINE],
        ["f"],
    ]
    assert of_right(declared, EVERYTHING) == declared


def shown(page: AppTest) -> str:
    """All texts and tables of a page."""
    texts = [str(getattr(each, "value", "")) for each in page.main]
    for frame in page.dataframe:
        texts.append(pd.DataFrame(frame.value).to_csv())
    for kind in ("button", "selectbox", "metric", "caption", "markdown", "text", "info", "warning"):
        texts += [
            f"{each.value if hasattr(each, 'value') else ''} {getattr(each, 'label', '')}"
            for each in page.get(kind)
        ]
    texts += [each.proto.spec for each in page.get("arrow_vega_lite_chart")]
    return "\n".join(texts)


def run(
    monkeypatch: pytest.MonkeyPatch, home: Path, asking: Asking, page: str = "", **address: str
) -> AppTest:
    """A page of app/main.py by its address, by default the first, as the guard has let somebody in."""
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    monkeypatch.setattr(ContextProxy, "headers", {HEADER: signed(asking)})
    at = AppTest.from_file(MAIN, default_timeout=60)
    at._page_hash = calc_hash(page)
    at.query_params.update({"range": "all", **address})
    at.run()
    assert not at.exception and not at.error
    return at


@pytest.mark.parametrize("name", PAGES)
def test_a_share_shows_its_page_whatever_the_address_says(
    monkeypatch: pytest.MonkeyPatch, home: Path, name: str
) -> None:
    shared = Shared("1", name, MINE, ("country=DE",))
    at = run(
        monkeypatch,
        home,
        Asking("share 1", VIEWER, "share", shared=shared),
        site=OTHER,
        filter="country=US",
    )
    text = shown(at)
    assert OTHER not in text and "192.0.2." not in text
    assert not at.warning and not any(each.label == "Site" for each in at.selectbox)
    assert f"{MINE}, country=DE" in [each.value for each in at.text]


def test_a_viewer_of_a_page_sees_locks_and_no_error(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    at = run(monkeypatch, home, Asking("ana", VIEWER, "password"))
    assert OTHER not in shown(at)
    site = next(each for each in at.selectbox if each.label == "Site")
    assert site.options == ["All sites", MINE]
    assert all(each.disabled for each in at.button if (each.key or "").startswith("requests-"))


OF_ALL_SITES, FIRST = ("quality", "pipeline"), "overview"


@pytest.mark.parametrize("page", [*PAGES, *OF_ALL_SITES, "definitions"])
def test_an_analyst_sees_no_other_site_on_any_page(
    monkeypatch: pytest.MonkeyPatch, home: Path, page: str
) -> None:
    at = run(monkeypatch, home, Asking("bo", ANALYST, "password"), "" if page == FIRST else page)
    assert at.title[0].value.lower().replace(" ", "-") == page
    assert OTHER not in shown(at)
    locked = [each.value for each in at.info if "all sites" in each.value]
    assert len(locked) == (page in OF_ALL_SITES)
    assert not at.warning


def test_the_address_of_another_site_is_refused(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    at = run(monkeypatch, home, Asking("bo", ANALYST, "password"), "pages", site=OTHER)
    assert ["There is no site" in each.value for each in at.warning] == [True]
    assert not at.metric and not at.dataframe


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_open_what_it_may_see(monkeypatch: pytest.MonkeyPatch, home: Path, role: Role) -> None:
    asking = Asking("cy", Right(role), "password")
    errors = run(monkeypatch, home, asking, "errors")
    assert OTHER in next(each.options for each in errors.selectbox if each.label == "Site")
    openers = [each for each in errors.button if (each.key or "").startswith("requests-")]
    assert openers and {each.disabled for each in openers} == {role == "viewer"}
    managed = run(monkeypatch, home, asking, "access")
    assert (managed.title[0].value == "Access") == (role == "admin")


def managing(monkeypatch: pytest.MonkeyPatch, home: Path, asking: Asking) -> AppTest:
    """The page Access, and below it the dialog that shares the page Pages."""

    def script(home: str) -> None:
        from pathlib import Path

        from app.dashboard import clock
        from app.dashboard.controls import sharing
        from app.dashboard.filters import Filters
        from app.dashboard.panel import Look
        from app.dashboard.panels import access
        from tidemark.figures.reader_delta import DeltaReader

        reader, filters = DeltaReader(Path(home)), Filters("a.example")
        access.page(reader, filters)
        sharing.offer(Path(home), "pages")
        sharing.form(Look(reader, filters, clock.now(), "view"), home=Path(home), page="pages")

    monkeypatch.setattr(ContextProxy, "headers", {HEADER: signed(asking)})
    return AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()


def press(at: AppTest, label: str) -> None:
    next(each for each in at.button if each.label == label).click().run()
    assert not at.exception and not at.error


def test_an_admin_manages_people_keys_and_shares(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home, tmp_path / "home")
    door = Door(tmp_path / "home")
    door.keys.add("old", "viewer", (), None)
    at = managing(monkeypatch, door.home, Asking("ops", EVERYTHING, "password"))
    at.text_input(key="person-name").input("bo")
    at.text_input(key="person-password").input("correct horse")
    at.multiselect(key="person-sites").select(OTHER)
    press(at, "Add")
    assert [(each.name, each.right) for each in door.people.all()] == [("bo", Right.of("viewer", [OTHER]))]

    press(at, "Make an address")
    share = door.shares.of(at.code[0].value.rpartition("/")[2])
    assert share is not None and (share.site, share.page) == (MINE, "pages")

    at.session_state["access"] = "Keys"
    at.run()
    press(at, "Revoke")
    press(at, "Revoke old?")
    at.text_input(key="key-name").input("robot")
    press(at, "Make a key")
    key = door.keys.of(at.code[0].value)
    assert key is not None and [each.name for each in door.keys.all()] == ["robot"]


def test_an_admin_of_some_sites_manages_rights_for_these(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home, tmp_path / "home")
    door = Door(tmp_path / "home")
    for name, sites in (("of-all", ()), ("of-other", (OTHER,)), ("of-mine", (MINE,))):
        door.keys.add(name, "viewer", sites, None)
        door.people.add(name, "admin", sites, "correct horse")
        door.shares.add(Share.of(sites[0] if sites else OTHER, "pages", []), None)
    admin = Asking("ops", Right.of("admin", [MINE]), "password")
    at = managing(monkeypatch, door.home, admin)
    assert len([each for each in at.button if each.label == "Remove"]) == 1
    at.text_input(key="person-name").input("bo")
    at.text_input(key="person-password").input("correct horse")
    next(each for each in at.button if each.label == "Add").click().run()
    assert "sites of yours" in at.error[0].value and len(door.people.all()) == 3

    at.session_state["access"] = "Keys"
    at.run()
    assert len([each for each in at.button if each.label == "Revoke"]) == 1
    at.text_input(key="key-name").input("robot")
    next(each for each in at.button if each.label == "Make a key").click().run()
    assert "sites of yours" in at.error[0].value and len(door.keys.all()) == 3
    at.multiselect(key="key-sites").select(MINE)
    press(at, "Make a key")
    assert {key.name: key.right for key in door.keys.all()}["robot"] == Right.of("viewer", [MINE])

    at.session_state["access"] = "Shares"
    at.run()
    assert len([each for each in at.button if each.label == "Revoke"]) == 1


def test_no_admin_shares_a_page_of_a_site_of_others(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    at = managing(monkeypatch, home, Asking("ops", Right.of("admin", [OTHER]), "password"))
    assert "Make an address" not in {each.label for each in at.button}


@pytest.mark.parametrize(
    "asking", [Asking("ana", Right("editor"), "password"), OWNER], ids=["editor", "owner"]
)
def test_nobody_else_does(monkeypatch: pytest.MonkeyPatch, home: Path, asking: Asking) -> None:
    at = managing(monkeypatch, home, asking)
    assert "Only admins" in at.info[0].value
    assert not {"Share", "Add", "Make a key"} & {each.label for each in at.button}
    press(at, "Make an address")
    assert not (home / "access.db").exists()


def test_definitions_and_notes_need_an_editor_of_the_site(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(edit.EDITS, "yes")

    def saved(right: Right, kind: Kind, name: str, values: dict[str, Any] | None) -> str:
        monkeypatch.setattr(ContextProxy, "headers", {HEADER: signed(Asking("ana", right, "password"))})
        try:
            edit.save(tmp_path, kind, name, values)
        except SelectionError as error:
            return str(error)
        return ""

    editor, of_other = Right.of("editor", [MINE]), {"path": "/b", "site": OTHER}
    assert "only editors" in saved(Right("analyst"), "goals", "all", {"path": "/a"})
    assert saved(Right("editor"), "goals", "all", {"path": "/a"}) == ""
    assert saved(editor, "goals", "mine", {"path": "/a", "site": MINE}) == ""
    for name, values in (
        ("new", of_other),
        ("new", {"path": "/b"}),
        ("all", {"path": "/b", "site": MINE}),
        ("all", None),
    ):
        assert MINE in saved(editor, "goals", name, values), (name, values)
    assert MINE in saved(editor, "sites", OTHER, {"hosts": ["evil.example"]})
    monkeypatch.setattr(noting, "_note", lambda home, *arguments: "")
    for site, refused in ((MINE, False), (OTHER, True), ("", True)):
        assert bool(noting.add(tmp_path, "a sale", datetime.now(UTC), site)) == refused
    monkeypatch.setattr(
        ContextProxy, "headers", {HEADER: signed(Asking("ana", Right("analyst"), "password"))}
    )
    assert not edit.editable(tmp_path)


def test_nobody_sees_a_page_where_login_is_needed_and_no_guard_let_them_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tidemark.toml").write_text('[access]\nlogin = "password"\n')
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    assert [each.value for each in at.info] == [
        "Nobody is logged in, or may see nothing here. Log in, or ask an admin."
    ]
    assert not at.title

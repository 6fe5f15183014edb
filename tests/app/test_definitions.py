"""The forms that change tidemark.toml: what they write, what they refuse, and where they change nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard.controls import preview
from app.dashboard.controls.edit import EDITS
from tests.app import tables
from tests.app.recounted import Scene
from tests.app.showing import show
from tidemark.figures.declared import Declared, Goal, declared
from tidemark.figures.extents import extents, of_site
from tidemark.figures.selection import filters_of
from tidemark.settings import load

NOW = datetime.now(UTC).replace(microsecond=0)
TEXT = """\
# Kept.
[goals.signup]
path = "/welcome*"  # the page after it
[funnels.checkout]
steps = ["/cart", "goal:signup"]
[alerts.errors]
metric = "share_5xx"
above = 0.05
to = ["json://user:secret@localhost"]
[sites.shop]
timezone = "Europe/Berlin"
"""


@pytest.fixture(autouse=True)
def _may_edit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EDITS, "yes")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "tidemark.toml").write_text(TEXT)
    tables.write_gold(tmp_path, [tables.Request(NOW - timedelta(minutes=5), "v", site="shop")])
    return tmp_path


def opened(home: Path, part: str) -> AppTest:
    page = show("definitions", home)
    page.segmented_control(key="definitions").set_value(part).run()
    assert not page.exception
    return page


def clicked(page: AppTest, label: str, place: int = 0) -> AppTest:
    [button for button in page.button if button.label == label][place].click().run()
    assert not page.exception
    return page


def test_a_goal_is_added_changed_and_removed(home: Path) -> None:
    page = opened(home, "Goals")
    key = "def-goals-new0"
    page.text_input(key=f"{key}-name").set_value("manuals")
    page.text_area(key=f"{key}-download").set_value("pdf\n.zip\n")
    clicked(page, "Save", -1)
    assert "Saved goal manuals" in page.success[0].value
    goals = load({"home": home}, {}).meaning.goals
    assert goals == {"signup": Goal("/welcome*"), "manuals": Goal(download=("pdf", ".zip"))}

    page.text_input(key="def-goals-1-1-path").set_value("/hello")
    clicked(page, "Save", 1)
    assert load({"home": home}, {}).meaning.goals["signup"] == Goal("/hello")
    text = (home / "tidemark.toml").read_text()
    assert text.startswith("# Kept.\n") and 'path = "/hello"  # the page after it' in text

    clicked(page, "Remove goal", 0)
    assert "manuals" in load({"home": home}, {}).meaning.goals
    clicked(page, "Remove")
    assert list(load({"home": home}, {}).meaning.goals) == ["signup"]


@pytest.mark.parametrize(
    "part, typed, message",
    [
        (
            "Goals",
            {"name": "a", "path": "/a", "search": True},
            "goal a needs one of path, download and search",
        ),
        ("Goals", {"name": "signup", "path": "/a"}, "there is already a goal 'signup'"),
        ("Goals", {"name": " ", "path": "/a"}, "a name has 1 to 100 characters"),
        ("Funnels", {"name": "f", "steps": "/a"}, "funnel f has 1 steps"),
        ("Funnels", {"name": "f", "steps": "/a\ngoal:x"}, "no goal 'x'"),
        ("Segments", {"name": "s", "filter": "colour=red"}, "no field 'colour'"),
        ("Alerts", {"name": "x"}, "no bound of alert x"),
        ("Alerts", {"name": "x", "above": 1.0, "breaches": 3}, "breaches = 3, of = 1 of alert x"),
        ("Own hosts", {"name": "s", "hosts": "https://shop.example"}, "is no host"),
    ],
)
def test_what_is_wrong_is_reported_and_not_written(
    home: Path, part: str, typed: dict[str, object], message: str
) -> None:
    page = opened(home, part)
    kind = "sites" if part == "Own hosts" else part.lower()
    for name, value in typed.items():
        key = f"def-{kind}-new0-{name}"
        (field,) = [each for each in (*page.text_input, *page.text_area, *page.number_input, *page.checkbox)
                    if each.key == key]  # fmt: skip
        field.set_value(value)
    clicked(page, "Save", -1)
    assert message in page.error[0].value.replace("\\", "")
    assert (home / "tidemark.toml").read_text() == TEXT


def test_a_form_says_what_a_definition_matches_before_it_is_saved(home: Path, scene: Scene) -> None:
    rows, lines = scene
    extent, none = of_site(extents(rows), None), Declared()
    people = lines[~lines["bot"]]
    number = people["path"].fillna("").str.startswith("/a").sum()
    goal = preview.words(rows, "goals", {"path": "/a*"}, none, extent)
    assert goal.startswith(f"Matches {number:,} requests in ") and goal.endswith("the last 7 days of data.")
    mobile = (lines["device"] == "mobile").sum()
    segment = preview.words(rows, "segments", {"filter": ["device=mobile"]}, none, extent)
    assert segment == f"Matches {mobile:,} requests of the last 7 days of data."
    funnel = preview.words(rows, "funnels", {"steps": ["/a", "/nosuch"]}, none, extent)
    assert funnel.endswith(", then 0 visitors took the steps of the last 7 days of data.")

    page = opened(home, "Goals")
    page.text_input(key="def-goals-new0-path").set_value("[a-z")
    clicked(page, "Preview", -1)
    assert [error.value for error in page.error] == [
        "the path '\\[a\\-z' matches nothing; begin it with / or \\*"
    ]
    page.text_input(key="def-goals-new0-path").set_value("/")
    clicked(page, "Preview", -1)
    assert len(page.info) + len(page.error) == 1 and "begin it with" not in str(page.error)
    assert (home / "tidemark.toml").read_text() == TEXT, "nothing was saved"


def test_a_goal_that_a_funnel_needs_is_not_removed(home: Path) -> None:
    page = clicked(clicked(opened(home, "Goals"), "Remove goal"), "Remove")
    assert "no goal 'signup'" in page.error[0].value.replace("\\", "")


def test_secrets_of_an_alert_are_not_shown_and_stay(home: Path) -> None:
    page = opened(home, "Alerts")
    shown = [
        str(e.value)
        for e in (*page.text_area, *page.text_input, *page.markdown, *page.expander)
        if hasattr(e, "value")
    ]
    assert not any("secret" in text for text in (*shown, *(e.label for e in page.expander)))
    page.number_input(key="def-alerts-0-0-above").set_value(0.1)
    clicked(page, "Save")
    rule = load({"home": home}, {}).alerts["errors"]
    assert (rule.above, rule.to) == (0.1, ("json://user:secret@localhost",))


def test_own_hosts_leave_the_other_settings_of_a_site(home: Path) -> None:
    page = opened(home, "Own hosts")
    page.text_area(key="def-sites-0-0-hosts").set_value("shop.example\nwww.shop.example")
    clicked(page, "Save")
    site = load({"home": home}, {}).sites["shop"]
    assert (site.timezone, site.hosts) == ("Europe/Berlin", ("shop.example", "www.shop.example"))
    page.text_area(key="def-sites-0-1-hosts").set_value("")
    clicked(page, "Save")
    assert load({"home": home}, {}).sites["shop"].hosts == ()


def test_where_the_file_cannot_be_changed_the_page_says_why(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EDITS, "no")
    page = opened(home, "Goals")
    assert "other machines may reach this dashboard" in page.info[0].value
    assert not page.button and any("signup" in each.value for each in page.markdown)
    (home / "tidemark.toml").write_text("goals = 1\n")
    assert "goals must be tables" in opened(home, "Goals").warning[0].value.replace("\\", "")


def test_the_filters_of_the_bar_become_a_segment(home: Path) -> None:
    def script(home: str) -> None:
        from pathlib import Path

        from app.dashboard.controls import bar

        bar.choose(["shop"], {}, page="Pages", ranged=True, home=Path(home))

    bar = AppTest.from_function(script, default_timeout=60, kwargs={"home": str(home)}).run()
    bar.multiselect(key="filter").set_value(["device=mobile", "status^4"]).run()
    bar.text_input(key="segment-name").set_value("phones")
    clicked(bar, "Save segment")
    assert declared(home).segment("phones") == filters_of(["device=mobile", "status^4"])
    assert bar.multiselect(key="filter").value == ["device=mobile", "status^4"]
    bar.text_input(key="segment-name").set_value("phones")
    clicked(bar, "Save segment")
    assert "there is already a segment 'phones'" in bar.caption[0].value.replace("\\", "")
    bar.button(key="segment-phones-remove").click().run()
    assert "phones" in declared(home).of("segments")
    bar.button(key="segment-phones-remove").click().run()
    assert not declared(home).of("segments") and not bar.exception


def test_what_a_change_did_is_shown(home: Path) -> None:
    note = {"note": "n", "time": NOW, "site": "", "text": "Goal signup: 120 → 134 conversions", "cause": "settings",
            "updated_at": NOW}  # fmt: skip
    tables.write(home, "quality/notes", [note])
    assert any("Goal signup: 120 → 134 conversions" in text.value for text in show("definitions", home).text)

"""Goals, funnels and segments come from tidemark.toml, and a form writes them back without losing anything."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from app.dashboard.controls.edit import EDITS, save
from tidemark.errors import SettingError
from tidemark.figures.declared import Definition, Goal, Step, declared
from tidemark.figures.selection import Filter, SelectionError
from tidemark.settings import load

TEXT = """\
# Kept.
batch_lines = 5000

[goals.signup]
path = "/welcome*"  # kept, too
[goals.manual]
download = ["pdf"]
[funnels.checkout]
steps = ["/cart", "/checkout", "goal:signup"]
within = "2h"
[segments.phones]
filter = ["device=mobile", "country!=DE"]
"""


@pytest.fixture(autouse=True)
def _editable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EDITS, "yes")


def home_with(directory: Path, text: str) -> Path:
    (directory / "tidemark.toml").write_text(text)
    return directory


def test_the_file_is_read_by_both_sides(tmp_path: Path) -> None:
    home = home_with(tmp_path, TEXT)
    result = declared(home)
    steps = (Step("/cart", "/cart"), Step("/checkout", "/checkout"), Step("signup", "/welcome*"))
    assert result.funnel("checkout") == Definition(steps, True, timedelta(hours=2))
    assert result.segment("phones") == (
        Filter("device", "is", ("mobile",)),
        Filter("country", "is not", ("DE",)),
    )
    settings = load({"home": home}, {})
    assert settings.meaning.goals["signup"] == Goal("/welcome*")
    assert settings.meaning.goals["manual"].download == ("pdf",)
    assert len({goal.definition for goal in settings.meaning.goals.values()}) == 2
    assert declared(tmp_path / "nowhere").goals == {}


@pytest.mark.parametrize(
    "text, refused",
    [
        ('[goals.a]\nsearch = true\npath = "/a"', "goal a needs one of path, download and search"),
        ("[goals.a]\nsearch = true\nstatus = 200", "goal a has a status or a method, but no path"),
        ('[goals.a]\npath = "/a"\nstatus = 99', "status 99 of goal a"),
        ('[funnels.a]\nsteps = ["/a"]', "funnel a has 1 steps"),
        ('[funnels.a]\nsteps = ["/a", "/b"]\nscope = "site"', "unknown scope 'site' of funnel a"),
        ('[segments.a]\nfilters = ["a"]', "unknown setting 'filters' of segments.a"),
        ("goals = 1", "goals must be tables"),
    ],
)
def test_the_pipeline_refuses_what_nobody_can_use(tmp_path: Path, text: str, refused: str) -> None:
    with pytest.raises(SettingError, match=refused):
        load({"home": home_with(tmp_path, text + "\n")}, {})


def test_a_form_changes_one_table_and_keeps_the_rest(tmp_path: Path) -> None:
    home = home_with(tmp_path, TEXT)
    save(home, "funnels", "buy", {"steps": ["/", "goal:signup"], "scope": "session"})
    save(home, "goals", "signup", {"path": "/hello"})
    save(home, "segments", "phones", None)
    result = declared(home)
    assert result.funnel("buy") == Definition((Step("/", "/"), Step("signup", "/hello")), visitor=False)
    assert not result.of("segments")
    text = (home / "tidemark.toml").read_text()
    assert text.startswith("# Kept.\nbatch_lines = 5000\n") and "[goals.manual]" in text
    assert load({"home": home}, {}).batches.lines == 5000
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    save(fresh, "segments", "phones", {"filter": ["device=mobile"]})
    assert declared(fresh).segment("phones") == (Filter("device", "is", ("mobile",)),)


def test_a_form_writes_nothing_that_cannot_be_read(tmp_path: Path) -> None:
    home = home_with(tmp_path, TEXT)
    for kind, name, values, refused in (
        ("funnels", "one", {"steps": ["/"]}, "funnel one has 1 steps"),
        ("goals", "signup", None, "no goal 'signup'"),
        ("goals", "signup", {"download": ["zip"]}, "goal signup is no page"),
        ("segments", "odd", {"filter": ["colour=red"]}, "no field 'colour'"),
        ("funnels", "slow", {"steps": ["/", "/a"], "within": "soon"}, "no duration"),
    ):
        with pytest.raises(SelectionError, match=refused):
            save(home, kind, name, values)  # type: ignore[arg-type]
    assert (home / "tidemark.toml").read_text() == TEXT
    with pytest.raises(SelectionError, match="no funnel 'x'; there are checkout"):
        declared(home).funnel("x")
    with pytest.raises(SettingError, match="cannot read"):
        declared(home_with(tmp_path, "goals = ["))

"""Alert rules in `tidemark.toml`: what they may say, and that their targets stay secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tidemark.errors import SettingError
from tidemark.figures.alert_rules import Rule
from tidemark.figures.declared import Goal
from tidemark.figures.selection import Filter
from tidemark.settings import Settings, load


def loaded(home: Path, text: str) -> Settings:
    (home / "tidemark.toml").write_text(text, encoding="utf-8")
    return load({"home": home}, {})


def test_a_rule_is_a_table_of_the_file(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
        [alerts.errors]
        metric = "share_5xx"
        window = "5m"
        above = 0.05
        [goals.signup]
        path = "/welcome*"
        [alerts.signups]
        metric = "goal:signup"
        window = "1d"
        below = 1
        [alerts.quiet]
        metric = "requests"
        window = "1h"
        filter = ["country=DE", "path^/shop"]
        site = "shop"
        below = 10
        deviation = 4
        breaches = 2
        of = 3
        to = ["json://127.0.0.1:9/5ecre7", "$OPS"]
        """,
    )
    assert settings.alerts["errors"] == Rule("share_5xx", "5m", above=0.05)
    signups = settings.alerts["signups"]
    assert signups.goal == settings.meaning.goals["signup"]
    assert signups.definition != replace(signups, goal=Goal(path="/")).definition
    quiet = settings.alerts["quiet"]
    assert quiet.filters == (Filter("country", "is", ("DE",)), Filter("path", "starts with", ("/shop",)))
    assert (quiet.seconds, quiet.below, quiet.to[1]) == (3600, 10.0, "$OPS")
    assert str(quiet) == (
        "requests where country=DE and path^/shop below 10 or 4 deviations off in 1h, 2 of 3 windows"
    )
    assert "5ecre7" not in f"{settings} {settings.public()}"


def test_the_definition_changes_with_what_fires_and_not_with_its_targets() -> None:
    rule = Rule("requests", above=5, to=("json://a",))
    assert rule.definition == Rule("requests", above=5, to=("json://b",)).definition
    assert rule.definition != Rule("requests", above=6, to=("json://a",)).definition


@pytest.mark.parametrize(
    "text, message",
    [
        ('metric = "request"\nabove = 1', "unknown metric 'request' of alert a"),
        ('metric = "goal:none"\nabove = 1', "unknown metric 'goal:none' of alert a"),
        ('metric = "requests"', "no bound of alert a"),
        ('metric = "requests"\nabove = 1\nwindow = "2m"', "unknown window '2m'"),
        ('metric = "requests"\nabove = 1\nfilter = ["colour=red"]', "unknown filter 'colour=red'"),
        ('metric = "requests"\nabove = 1\nfilter = ["entry_page=/"]', "unknown filter 'entry_page=/'"),
        ('metric = "requests"\nabove = 1\nfilter = ["country"]', "unknown filter 'country'"),
        ('metric = "requests"\nabove = 1\nbreaches = 2', "breaches = 2, of = 1"),
        ('metric = "requests"\ndeviation = 0', "deviation 0 is not positive"),
        ('metric = "requests"\nabove = "1"', "above of alerts.a must be a number, not '1'"),
        ("metrics = 1", "unknown setting 'metrics' of alerts.a"),
        (
            'metric = "requests"\nabove = 1\nto = "json://5ecre7"',
            "to of alerts.a must be a list of texts, not ***",
        ),
    ],
)
def test_a_rule_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        loaded(tmp_path, f"[alerts.a]\n{text}\n")
    assert message in str(caught.value)
    assert "tidemark.toml" in str(caught.value) and "5ecre7" not in str(caught.value)


def test_several_values_of_a_field_are_one_filter() -> None:
    rule = Rule("requests", filter=("country=DE", "path!=/", "country=FR|DE"), above=1)
    assert rule.filters == (Filter("country", "is", ("DE", "FR")), Filter("path", "is not", ("/",)))


def test_targets_are_secrets() -> None:
    rule = Rule("requests", to=("mailto://user:5ecre7@mail.example", "$OPS_CHAT", "5ecre7"))
    assert rule.targets == ("mailto", "$OPS_CHAT", "unknown")

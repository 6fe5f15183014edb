from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tidemark.errors import SettingError
from tidemark.figures.declared import duration
from tidemark.figures.selection import SelectionError
from tidemark.local.jars import cache_directory
from tidemark.settings import DECLARED, Settings, edit, load
from tidemark.settings.sections import options_of


def write(home: Path, text: str) -> Path:
    home.mkdir(exist_ok=True)
    (home / "tidemark.toml").write_text(text, encoding="utf-8")
    return home


def test_the_command_line_goes_before_the_environment_before_the_file(tmp_path: Path) -> None:
    home = write(tmp_path, 'topic = "file"\nbroker_port = 1\nlate_seconds = 7')
    environment = {"TIDEMARK_HOME": str(home), "TIDEMARK_TOPIC": "env", "TIDEMARK_BROKER_PORT": "2"}
    result = load({"topic": "line", "master": None}, environment)
    assert result == Settings.of(home=home, topic="line", broker_port=2, late_seconds=7)


def test_defaults(tmp_path: Path) -> None:
    assert load({"home": tmp_path}, {}) == Settings.of(home=tmp_path)
    assert load({}, {}).home == Path(".tidemark").absolute()


def test_values_are_given_by_flat_name_and_are_in_their_section() -> None:
    settings = Settings.of(topic="lines", kafka_username="ann", jvm_cache="/cache")
    assert (settings.kafka.topic, settings.kafka.username, settings.java.cache) == ("lines", "ann", "/cache")
    changed = settings.changed(topic="other", shared_home=True)
    assert (changed.kafka.topic, changed.kafka.username, changed.shared_home) == ("other", "ann", True)
    with pytest.raises(TypeError, match="username"):
        settings.changed(username="bob")


def test_every_field_of_a_section_has_a_flat_name_of_its_own() -> None:
    places = [(declared.section, declared.attribute) for declared in DECLARED.values()]
    declared = [
        (section.name, each.name)
        for section in dataclasses.fields(Settings)
        if not section.metadata and dataclasses.is_dataclass(getattr(Settings(), section.name))
        for each in dataclasses.fields(getattr(Settings(), section.name))
        if each.metadata
    ]
    assert [place for place in places if place[0]] == declared
    assert list(Settings().public()) == list(DECLARED)


def test_another_process_gets_the_same_settings(tmp_path: Path) -> None:
    settings = Settings.of(home=tmp_path, topic="lines", visitor_key="key", late_seconds=9, shared_home=True)
    assert load({}, settings.environment()) == settings


def test_an_empty_variable_is_one_that_is_not_set(tmp_path: Path) -> None:
    assert load({"home": tmp_path}, {"TIDEMARK_BROKER_PORT": ""}).broker.port == 19092


@pytest.mark.parametrize("text, value", [("1", True), ("Yes", True), ("false", False), (" 0 ", False)])
def test_truth(text: str, value: bool, tmp_path: Path) -> None:
    assert load({"home": tmp_path}, {"TIDEMARK_ALLOW_DATA_LOSS": text}).kafka.allow_data_loss is value


@pytest.mark.parametrize(
    "variable, value, message",
    [
        ("BROKER_PORT", "x", "a whole number"),
        ("BROKER_PORT", "1.5", "a whole number"),
        ("BROKER_PORT", "-1", "at least 0"),
        ("SESSION_GAP_SECONDS", "0", "at least 1"),
        ("QUALITY_INTERVAL_SECONDS", "nan", "a number"),
        ("QUALITY_INTERVAL_SECONDS", "inf", "a number"),
        ("ALLOW_DATA_LOSS", "perhaps", "true or false"),
        ("LOG_FORMAT", "xml", "text or json"),
        ("METRICS_PORT", "-2", "at least -1"),
        ("INGEST_PORT", "70000", "at most 65535"),
        ("SESSION_GAP_SECONDS", "99999999999", "at most 3155760000"),
    ],
)
def test_a_bad_value_is_named_with_its_source(
    variable: str, value: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        load({"home": tmp_path}, {f"TIDEMARK_{variable}": value})
    assert f"TIDEMARK_{variable}" in str(caught.value) and repr(value) in str(caught.value)


@pytest.mark.parametrize(
    "text, message",
    [
        ('colour = "blue"', "unknown setting 'colour'"),
        ("home = '/srv/logs'", "home in .* has no effect. Remove it, and use --home or TIDEMARK_HOME"),
        ("broker_port = 1.5", "a whole number"),
        ("broker_port = true", "a whole number"),
        ("topic = [1]", "text"),
        ("broker_port = ", "cannot read"),
        ("dashboard_port = 65536", "at most 65535"),
        (f"freshness_goal_seconds = {'9' * 400}", "a number"),
        ("retention = '30d'", r"retention must be a table. Write \[retention\], then"),
        ("[retention]\nlines = 30", "lines of retention must be text"),
        ("[retention]\nlines = '9999y'", "lines of retention is more than a hundred years. Write forever"),
        (
            "[sites.shop]\nprivacy = 'masked'",
            r"sites.shop.privacy must be a table. Write \[sites.shop.privacy\]",
        ),
        ("[access]\noidc = 'x'", "access.oidc must be a table"),
        (f"a = {'[' * 20_000}", "nested too deeply"),
        (
            "".join(f"[goals.g{i}]\npath = '/{i}'\n" for i in range(501)),
            r"501 tables \[goals.NAME\], at most 500",
        ),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        load({"home": write(tmp_path, text)}, {})
    assert "tidemark.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_bytes(b"\xff")
    with pytest.raises(SettingError, match="cannot read"):
        load({"home": tmp_path}, {})


def test_a_pipe_in_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tidemark.toml")
    with pytest.raises(SettingError, match="no regular file"):
        load({"home": tmp_path}, {})


def test_secrets_show_nowhere(tmp_path: Path) -> None:
    result = load({"home": tmp_path}, {"TIDEMARK_KAFKA_PASSWORD": "hush", "TIDEMARK_VISITOR_KEY": "hush"})
    assert (result.kafka.password, result.meaning.visitor_key) == ("hush", "hush")
    assert "hush" not in repr(result) + str(result.public())
    assert (result.public()["kafka_password"], Settings().public()["kafka_password"]) == ("***", "")


def test_a_secret_of_the_wrong_kind_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="kafka_password must be text") as caught:
        load({"home": write(tmp_path, 'kafka_password = ["hush"]')}, {})
    assert "hush" not in str(caught.value)


def test_options_are_parted_as_in_a_shell() -> None:
    assert options_of("x", "") == {}
    assert options_of("x", "a=1 b='two words' c==d") == {"a": "1", "b": "two words", "c": "=d"}


@pytest.mark.parametrize("text", ["hush", "=hush", "a='hush"])
def test_options_that_cannot_be_read_are_not_shown(text: str) -> None:
    with pytest.raises(SettingError, match="spark_options") as caught:
        options_of("spark_options", text)
    assert "hush" not in str(caught.value)


def test_an_unknown_users_directory_is_named() -> None:
    for environment in ({"TIDEMARK_HOME": "~nobody-here/x"}, {"TIDEMARK_JVM_CACHE": "~nobody-here/x"}):
        with pytest.raises(SettingError, match=r"~nobody-here/x\. Write the whole path"):
            cache_directory(load({}, environment).java)


def test_an_age_is_at_most_a_hundred_years() -> None:
    assert duration("36525d").days == 36_525
    with pytest.raises(SelectionError, match=r"'36526d' is too long\. Write at most 36525d"):
        duration("36526d")


def test_a_linked_file_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    file, link = tmp_path / "repository" / "ours.toml", tmp_path / "tidemark.toml"
    file.write_text("topic = 'a'\n")
    link.symlink_to("repository/ours.toml")
    edit.replace(link, "topic = 'b'\n")
    assert link.is_symlink() and file.read_text() == "topic = 'b'\n"

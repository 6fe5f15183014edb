"""Own formats as files of the home: detected, and tested by their examples."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidemark.cli import tidemark
from tidemark.errors import SettingError
from tidemark.parse.custom import reading_of
from tidemark.parse.explain import explained
from tidemark.settings import load

LINE = "2026-11-21T10:00:00Z;203.0.113.7;GET /a HTTP/1.1;200;12"
SEMICOLONS = f"""
about = "Lines with semicolons."
docs = "https://example.org/log"
layout = "$time;$client_ip;$request;$status;$duration_ms"
examples = ["{LINE}"]
"""
COMBINED = '''203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl"'''


def home_with(home: Path, **files: str) -> Path:
    (home / "formats").mkdir(exist_ok=True)
    for name, text in files.items():
        (home / "formats" / f"{name}.toml").write_text(text, encoding="utf-8")
    return home


def formats_of_line(home: Path, line: str) -> list[str]:
    return [
        kind.format
        for kind in explained([([line.encode()], "")], reading=reading_of(load({"home": home}, {})))
    ]


def test_lines_of_a_format_in_a_file_are_detected(tmp_path: Path) -> None:
    home_with(tmp_path, semicolons=SEMICOLONS)
    assert formats_of_line(tmp_path, LINE) == ["semicolons"]
    assert formats_of_line(tmp_path, COMBINED) == ["combined"]
    home_with(tmp_path, semicolons=SEMICOLONS + "detected = false\n")
    assert formats_of_line(tmp_path, LINE) == [""]


def test_the_files_may_be_in_another_directory(tmp_path: Path) -> None:
    elsewhere = home_with(tmp_path, semicolons=SEMICOLONS) / "formats"
    settings = load({"home": tmp_path / "home"}, {"TIDEMARK_FORMATS_LOCATION": str(elsewhere)})
    assert list(settings.formats) == ["semicolons"]
    assert reading_of(settings).version == reading_of(load({"home": tmp_path}, {})).version != ""


def test_files_that_are_no_format_are_left_alone(tmp_path: Path) -> None:
    home_with(tmp_path, semicolons=SEMICOLONS)
    for name in (".semicolons.toml", "README.md", "semicolons.toml~"):
        (tmp_path / "formats" / name).write_text("?", encoding="utf-8")
    assert list(load({"home": tmp_path}, {}).formats) == ["semicolons"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("layout = 1", "layout of formats.mine must be a list of texts"),
        ("layout = ", "cannot read .*mine.toml"),
        ("layout = '$time $status $target'", "mine.toml has no examples"),
        ("examples = ['x']", "needs exactly one of apache"),
        (SEMICOLONS.replace(";200;", ";OK;"), "mine.toml: an example of the format mine has no valid status: 2026"),
        (SEMICOLONS.replace(";200;12", ";200"),
         "mine.toml: the format mine does not read its example, from the field status on: 2026.*;200[.]"),
        (f"apache = '%h %l %u %t \"%r\" %>s %b \"%{{Referer}}i\" \"%{{User-Agent}}i\"'\nexamples = ['{COMBINED}']",
         "mine.toml: an example of the format mine is read as combined: 203.0.113.7 "),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_that_names_it(text: str, message: str, tmp_path: Path) -> None:
    home_with(tmp_path, mine=text)
    with pytest.raises(SettingError, match=message):
        reading_of(load({"home": tmp_path}, {}))


def test_a_format_has_one_declaration_and_a_plain_name(tmp_path: Path) -> None:
    home_with(tmp_path, mine=SEMICOLONS)
    (tmp_path / "tidemark.toml").write_text("[formats.mine]\nlayout = '$time $status $target'\n")
    with pytest.raises(SettingError, match=r"mine.toml: the format mine is in the settings file, too"):
        load({"home": tmp_path}, {})
    (tmp_path / "tidemark.toml").unlink()
    home_with(tmp_path, **{"a b": SEMICOLONS})
    with pytest.raises(SettingError, match="'a b' cannot name a format"):
        load({"home": tmp_path}, {})


def test_examples_that_another_own_format_takes_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home_with(tmp_path, first=SEMICOLONS, second=SEMICOLONS)
    with caplog.at_level(logging.WARNING):
        reading_of(load({"home": tmp_path}, {}))
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"{tmp_path / 'formats' / 'second.toml'}: lines such as 2026")
    assert warning.endswith("are read as first")


def test_explain_and_import_know_the_format(tmp_path: Path) -> None:
    log, home = tmp_path / "some.log", home_with(tmp_path, semicolons=SEMICOLONS)
    log.write_text(LINE + "\n")

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(tidemark, [*arguments, "--home", str(home)])

    shown = invoke("explain", str(log))
    assert "1 line of semicolons" in shown.output and "duration_us  12000" in shown.output
    unknown = invoke("import", str(log), "--format", "colons")
    assert "'colons' is not one of combined" in unknown.output and "semicolons" in unknown.output
    home_with(home, semicolons=SEMICOLONS.replace(";200;", ";OK;"))
    wrong = invoke("import", str(log), "--format", "semicolons")
    assert isinstance(wrong.exception, SettingError)

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import tomllib
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import processes
from tidemark.cli import COMMANDS, tidemark

# Every command whose module is part of this installation.
PRESENT = [name for name, module in COMMANDS.items() if importlib.util.find_spec(module)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("tidemark")), *arguments]
    return processes.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", PRESENT)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(tidemark, [command, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Usage: ") and "--help" in result.output


def test_the_version_needs_no_spark() -> None:
    result = run("--version")
    assert result.returncode == 0 and "0.1.0" in result.stdout


def test_a_bad_setting_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('colour = "blue"', encoding="utf-8")
    result = run("status", "--home", str(tmp_path))
    assert result.returncode == 2
    assert result.stdout == "" and result.stderr.count("\n") == 1
    assert "unknown setting 'colour'" in result.stderr


def test_closed_standard_streams_are_no_error_and_no_file_gets_their_numbers(tmp_path: Path) -> None:
    tidemark, truth = Path(sys.executable).with_name("tidemark"), tmp_path / "truth.json"
    generate = f'"{tidemark}" generate --seed 1 --seconds 1 --rate 2 -o - --truth "{truth}"'
    for closed in (">&-", "<&- >&- 2>&-"):
        done = processes.run(
            ["/bin/sh", "-c", f"{generate} {closed}"], stderr=subprocess.PIPE, text=True, timeout=60
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr
        assert len(json.loads(truth.read_text())) > 1
        truth.unlink()


def test_an_unknown_command_is_no_traceback() -> None:
    result = run("fly")
    assert result.returncode == 2 and "No such command 'fly'" in result.stderr


@pytest.mark.parametrize("command", ["rebuild nosuch", "rebuild all", "forget --address 192.0.2.1", "maintain",
                                     "savepoint create x", "savepoint delete x", "savepoint restore x", "quality",
                                     "savepoint list", "status", "broker stop", "broker status"])  # fmt: skip
def test_a_command_that_finds_no_home_does_not_make_one(tmp_path: Path, command: str) -> None:
    result = run("--home", str(tmp_path / "none"), *command.split())
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "none").exists()


def test_an_option_is_no_value_of_another(tmp_path: Path) -> None:
    for command in (
        ["import", "--site", "--follow", "x"],
        ["savepoint", "create", "--home", "--bootstrap-servers"],
    ):
        result = run(*command)
        assert result.returncode == 2 and "needs a value" in result.stderr, result.stderr
    assert run("--home", "--bootstrap-servers", "x", "status").returncode == 2


def test_status_of_a_home_that_does_not_exist(tmp_path: Path) -> None:
    result = run("status", "--home", str(tmp_path / "none"))
    assert result.returncode == 0, result.stderr
    assert "not running" in result.stdout
    assert not (tmp_path / "none").exists(), "looking must not make it"


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    line = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /\u0416 HTTP/1.1" 200 512'
    log.write_text(f"{line}\n", encoding="utf-8")
    command = [sys.executable, "-m", "tidemark", "explain", str(log)]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode == 0 and result.stderr == ""
    assert line.replace("\u0416", "\\u0416") in result.stdout


def test_ctrl_c_during_the_imports_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "tidemark.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tidemark.cli")
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("tidemark", run_name="__main__")
    assert ended.value.code == 130
    script = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"][
        "tidemark"
    ]
    assert script == "tidemark.__main__:main"

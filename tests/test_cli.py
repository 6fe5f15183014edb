from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidemark.cli import COMMANDS, tidemark

# Every command whose module is part of this installation.
PRESENT = [name for name, module in COMMANDS.items() if importlib.util.find_spec(module)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("tidemark")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


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


def test_an_unknown_command_is_no_traceback() -> None:
    result = run("fly")
    assert result.returncode == 2 and "No such command 'fly'" in result.stderr


def test_status_of_a_home_that_does_not_exist(tmp_path: Path) -> None:
    result = run("status", "--home", str(tmp_path / "none"))
    assert result.returncode == 0, result.stderr
    assert "not running" in result.stdout
    assert not (tmp_path / "none").exists(), "looking must not make it"

"""A page finds the home of its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.kit.page import home_of


def test_the_home_is_named_or_set_or_that_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    assert home_of([]) == tmp_path / ".tidemark"
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "set"))
    assert home_of([]) == tmp_path / "set"
    assert home_of(["--home", "named"]) == tmp_path / "named"


def test_an_argument_that_is_none_does_not_end_the_program(tmp_path: Path) -> None:
    assert home_of(["--hom", str(tmp_path)]) == tmp_path
    assert home_of(["--other", "--home", str(tmp_path)]) == tmp_path

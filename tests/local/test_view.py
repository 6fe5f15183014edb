"""The homes that `tidemark view` keeps: which files get which, and which are removed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import PlatformError
from tidemark.local import view
from tidemark.local.view import KEPT_DAYS, MOST_KEPT, Kept, ViewedError, home_for, kept

A, B = {"/a.log": [10, 1]}, {"/a.log": [10, 1], "/b.log": [5, 1]}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def look(
    states: view.States,
    *,
    made: str = "1",
    holds: Callable[[list[object]], bool] = lambda entries: True,
    done: bool = True,
    lasting: bool = True,
) -> Kept:
    """A look at files, after which their home has all of them if `done`."""
    with home_for(states, made, holds, lasting=lasting) as home:
        if done:
            home.note(entries=[{"offset": size} for size, _ in states.values()], exact=True)
    return home


def test_the_same_files_get_the_same_home_and_are_unchanged_until_one_changes() -> None:
    first = look(A)
    assert not first.unchanged
    again = look(A)
    assert again.directory == first.directory and again.unchanged
    grown = look({"/a.log": [20, 2]})
    assert grown.directory == first.directory and not grown.unchanged


def test_a_home_whose_lines_are_all_among_the_files_is_used_for_more_files() -> None:
    first = look(A)
    assert look(B).directory == first.directory


def test_files_that_lost_lines_get_a_new_home_and_the_old_one_is_removed() -> None:
    first = look(A)
    second = look(A, holds=lambda entries: False)
    assert second.directory != first.directory and not first.directory.exists()


def test_other_settings_or_another_version_get_a_new_home() -> None:
    first = look(A)
    assert look(A, made="2").directory != first.directory


def test_a_home_whose_import_was_killed_is_removed() -> None:
    first = look(A, done=False)
    assert look(B).directory != first.directory
    assert not first.directory.exists()


def test_a_second_look_at_the_same_files_is_refused_and_other_files_are_not() -> None:
    with home_for(A, "1", lambda entries: True, lasting=True) as home:
        with pytest.raises(ViewedError, match="shows these files already") as refused:
            look(A)
        assert refused.value.directory == home.directory
        assert look(B).directory != home.directory
        assert view.clear()[0][0].directory != home.directory
    assert home.directory.exists()


def test_old_homes_and_homes_beyond_the_limit_are_removed() -> None:
    old = look({"/old.log": [1, 1]}).directory
    long_ago = time.time() - KEPT_DAYS * 86_400 - 60
    os.utime(old / "view.json", (long_ago, long_ago))
    for number in range(MOST_KEPT + 2):
        look({f"/{number}.log": [1, 1]}, holds=lambda entries: False)
        assert not old.exists()
    assert len(kept()) == MOST_KEPT
    assert kept()[0].record["files"] == {f"/{MOST_KEPT + 1}.log": [1, 1]}


def test_a_home_that_does_not_last_is_removed_in_the_end_but_not_after_an_error() -> None:
    assert not look({}, lasting=False).directory.exists()
    with pytest.raises(ZeroDivisionError), home_for({}, "1", lambda entries: True, lasting=False) as home:
        raise ZeroDivisionError
    assert home.directory.exists()
    look(A)
    assert not home.directory.exists()


def test_a_cache_that_cannot_be_written_is_told(cache: Path) -> None:
    (cache / "tidemark").write_text("a file")
    with pytest.raises(PlatformError, match="XDG_CACHE_HOME"):
        look(A)

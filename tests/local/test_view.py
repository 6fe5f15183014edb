"""The homes that `tidemark view` keeps: which files get which, and which are removed."""

from __future__ import annotations

import os
import threading
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
    identity: str = "1",
    known: Callable[[Path], int | None] = lambda directory: 1,
    done: bool = True,
    lasting: bool = True,
) -> Kept:
    """A look at files, after which their home has all of them if `done`."""
    with home_for(states, identity, known, lasting=lasting) as home:
        home.note(exact=done)
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
    second = look(A, known=lambda directory: None)
    assert second.directory != first.directory and not first.directory.exists()


def test_other_settings_or_another_version_get_a_new_home() -> None:
    first = look(A)
    assert look(A, identity="2").directory != first.directory


def test_a_home_whose_import_was_killed_goes_on() -> None:
    first = look(A, done=False)
    again = look(A)
    assert again.directory == first.directory and not again.unchanged


def test_a_home_of_an_earlier_version_is_removed() -> None:
    old = Kept(view.place() / "old")
    old.directory.mkdir(parents=True)
    old.note(files=A, made="1", entries=[{"offset": 10}], exact=True)
    assert look(A).directory != old.directory
    assert not old.directory.exists()


def test_of_several_homes_the_one_with_most_of_the_files_is_used() -> None:
    most = look({"/b.log": [90, 1]})
    look({"/c.log": [10, 1]}, known=lambda directory: None)
    assert (
        look(A, known=lambda directory: 90 if directory == most.directory else 10).directory == most.directory
    )


def test_a_second_look_at_the_same_files_is_refused_and_other_files_are_not() -> None:
    with home_for(A, "1", lambda directory: 1, lasting=True) as home:
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
        look({f"/{number}.log": [1, 1]}, known=lambda directory: None)
        assert not old.exists()
    assert len(kept()) == MOST_KEPT
    assert kept()[0].record["files"] == {f"/{MOST_KEPT + 1}.log": [1, 1]}


def test_a_home_that_does_not_last_is_removed_in_the_end_and_after_a_kill() -> None:
    assert not look({}, lasting=False).directory.exists()
    killed = Kept(view.place() / "killed")
    killed.directory.mkdir()
    killed.note(files={}, made="1", lasting=False, exact=False)
    look(A)
    assert not killed.directory.exists()


def test_a_cache_that_cannot_be_written_is_reported(cache: Path) -> None:
    (cache / "tidemark").write_text("a file")
    with pytest.raises(PlatformError, match="XDG_CACHE_HOME"):
        look(A)


def test_homes_are_listed_while_views_write_and_remove_theirs() -> None:
    done = threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            log = view.place() / "temporary" / "tables" / "_delta_log"
            log.mkdir(parents=True)
            (log.parents[1] / "view.json").write_text("{}")
            for number in range(20):
                (log / f"{number}.tmp").touch()
                (log / f"{number}.tmp").unlink()
            while log.parents[1].exists():  # a look at the lock makes it anew
                Kept(log.parents[1]).remove()

    look(A)
    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for home in kept():
                assert not home.in_use and home.size() >= 0 and home.used_at >= 0
    finally:
        done.set()
        writer.join()

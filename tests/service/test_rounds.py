"""A changed settings file ends a round of the flows, and the next begins with its tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tidemark.figures.declared import Goal
from tidemark.service.rounds import Add, run_in_rounds
from tidemark.settings import Settings, load

FIRST = '[goals.signup]\npath = "/welcome"\n'
POLL = 0.05
SECOND = '[goals.signup]\npath = "/hello"\n[sites.shop]\nhosts = ["shop.example"]\n'


def rounds(
    home: Path, during: list[Callable[[], None]], busy: Callable[[Settings], bool] = lambda settings: False
) -> list[Settings]:
    """The settings of each round; in each the next function of `during` is called, and the last one is stopped."""
    result: list[Settings] = []

    def run(settings: Settings, add: Add) -> bool:
        stopping = threading.Event()
        result.append(settings)
        sides = add([], partial(busy, settings))
        threads = [threading.Thread(target=side, args=(stopping,)) for side in sides]
        for thread in threads:
            thread.start()
        last = len(result) > len(during)
        if not last:
            during[len(result) - 1]()
            last = not stopping.wait(20 * POLL)
        stopping.set()
        for thread in threads:
            thread.join()
        return last

    run_in_rounds(load({"home": home}, {}), run, poll_seconds=POLL)
    return result


def test_changed_tables_apply_in_the_next_round(tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text(FIRST)
    first, second, third = rounds(tmp_path, [lambda: file.write_text(SECOND), file.unlink])  # type: ignore[list-item]
    assert first.meaning.goals == {"signup": Goal("/welcome")}
    assert second.meaning.goals == {"signup": Goal("/hello")}
    assert second.sites["shop"].hosts == ("shop.example",)
    assert not third.meaning.goals and not third.sites


@pytest.mark.parametrize("text", ["goals = 1\n", FIRST + "search = true\n", "batch_lines = 7\n" + FIRST])
def test_wrong_tables_and_other_settings_begin_no_round(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text(FIRST)
    assert len(rounds(tmp_path, [lambda: file.write_text(text)])) == 1  # type: ignore[list-item]
    assert ("the settings in use stay" in caplog.text) == ("batch_lines" not in text)


MINE = """
layout = '$time;$client_ip;$request;$status'
examples = ["2026-11-21T10:00:00Z;203.0.113.7;GET / HTTP/1.1;200"]
"""


def test_the_file_of_a_format_applies_in_the_next_round(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "formats").mkdir()
    file = tmp_path / "formats" / "mine.toml"

    def wrong_then_right() -> None:
        file.write_text(MINE.replace(";200", ""))
        for _ in range(200):
            if caplog.text:
                break
            threading.Event().wait(POLL)
        file.write_text(MINE)

    first, second = rounds(tmp_path, [wrong_then_right])
    assert (list(first.formats), list(second.formats)) == ([], ["mine"])
    assert (
        "the settings in use stay" in caplog.text and f"{file}: the format mine does not read" in caplog.text
    )


def test_a_changed_file_waits_while_history_is_filled(tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text(FIRST)
    calls: list[Settings] = []

    def busy(settings: Settings) -> bool:
        calls.append(settings)
        return len(calls) < 2

    result = rounds(tmp_path, [lambda: file.write_text(SECOND)], busy)  # type: ignore[list-item]
    assert len(result) == 2
    assert calls == [result[0], result[0]]


def test_a_side_begins_when_that_of_the_round_before_has_ended(tmp_path: Path) -> None:
    """Its last piece of work may outlast the round."""
    file = tmp_path / "tidemark.toml"
    file.write_text(FIRST)
    events: list[str] = []
    release = threading.Event()
    number = iter(range(2))

    def side(stopping: threading.Event) -> None:
        mine = next(number)
        events.append(f"begins {mine}")
        if mine == 0:
            stopping.wait()
            release.wait(60)
        events.append(f"ends {mine}")

    threads: list[threading.Thread] = []

    def run(settings: Settings, add: Add) -> bool:
        stopping = threading.Event()
        mine = [threading.Thread(target=each, args=(stopping,)) for each in add([side], lambda: False)]
        threads.extend(mine)
        for thread in mine:
            thread.start()
        if len(threads) > 2:
            release.set()
            mine[0].join(60)
            stopping.set()
            return True
        file.write_text(SECOND)
        assert stopping.wait(60)
        return False

    run_in_rounds(load({"home": tmp_path}, {}), run, poll_seconds=POLL)
    assert events == ["begins 0", "ends 0", "begins 1", "ends 1"]


def test_newer_data_and_another_robots_txt_begin_a_round(tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text('[sites.shop]\nrobots = "robots.txt"\n')
    (tmp_path / "robots.txt").write_text("")
    lists = tmp_path / "data" / "networks"

    def add_list() -> None:
        lists.mkdir(parents=True)
        (lists / "own.tsv").write_text("# hosting\t2026-11-01\thttps://example.com\tCC0-1.0\n192.0.2.0/24\n")

    during: list[Callable[[], None]] = [
        add_list,
        lambda: (tmp_path / "robots.txt").unlink(),  # an error, with which nothing begins
    ]
    result = rounds(tmp_path, during)
    assert len(result) == 2 and {settings.sites["shop"].robots for settings in result} == {"robots.txt"}

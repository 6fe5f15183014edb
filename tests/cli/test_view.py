"""`tidemark view` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from tests import processes
from tests.parse.infer_cases import CASES, requests
from tidemark.cli import look, tidemark
from tidemark.cli import view as command
from tidemark.cli.look import Given, Output
from tidemark.cli.summary import COLUMNS, NAMES, rows
from tidemark.errors import PlatformError
from tidemark.importing import journal
from tidemark.importing.sources import states_of
from tidemark.local import view
from tidemark.local.process import wait_until
from tidemark.settings import Settings
from tidemark.traffic.stream import Traffic, blocks
from tidemark.traffic.truth import Truth

START = 1_780_000_200  # a Thursday in May 2026
NOISE = [b"this is no log line", b"neither \x1b[31mis this", b"nor this"]


@dataclass
class Log:
    """Generated lines and an independent count of them."""

    lines: list[bytes] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)
    visitors: set[tuple[str, str]] = field(default_factory=set)
    pages: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, start: int) -> list[bytes]:
        """Adds half an hour of traffic, and returns its lines."""
        added = []
        traffic = Traffic(start=start, rate=3, seconds=1_800, seed=seed, visitors=400, malformed=0.02)
        for block in blocks(traffic, truth=True):
            added += block.lines
            self.truth.extend("default", block.outcomes)
            for _, (visitor, request, _), reason in block.outcomes:
                if reason is None and not visitor.bot:
                    self.visitors.add((visitor.ip, visitor.agent))
                    if request.page and request.path is not None:
                        self.pages[request.path] += 1
        self.lines += added
        return added

    def figures(self) -> dict[str, Any]:
        windows = self.truth.windows()
        return {
            "lines": len(self.lines),
            "requests": self.truth.accepted,
            "rejected": self.truth.rejected.total(),
            "pageviews": sum(window.pageviews for window in windows),
            "bot_requests": sum(window.bot_requests for window in windows),
            "visitors": len(self.visitors),
            "sessions": len(self.truth.sessions()),
        }


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # None of this concerns a view.
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "another-home"))
    monkeypatch.setenv("TIDEMARK_DASHBOARD_PORT", "1")
    monkeypatch.setenv("TIDEMARK_TOPIC", "another-topic")
    monkeypatch.delenv("DISPLAY", raising=False)
    return dict(os.environ)


def start(environment: dict[str, str], *arguments: str | Path, **more: Any) -> subprocess.Popen[bytes]:
    call = [str(Path(sys.executable).with_name("tidemark")), "view", *map(str, arguments)]
    return processes.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True, **more
    )


def as_json(
    environment: dict[str, str], *arguments: str | Path, given: bytes | None = None
) -> dict[str, Any]:
    """The figures that `view --json` prints."""
    process = start(environment, *arguments, "--json", stdin=subprocess.PIPE if given else subprocess.DEVNULL)
    out, err = process.communicate(given, timeout=240)
    assert process.returncode == 0, err.decode()
    assert err == b""
    result: dict[str, Any] = json.loads(out)
    return result


def left() -> list[psutil.Process]:
    """Running processes of any home in the cache."""
    result = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TIDEMARK_HOME", "").startswith(str(view.place())):
                result.append(process)
        except psutil.Error:
            continue
    return result


@pytest.mark.slow
def test_figures_as_json_equal_the_truth_and_a_grown_file_adds_its_rest(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log, path = Log(), tmp_path / "access.log"
    path.write_bytes(b"\n".join(log.add(1, START)))  # the last line has no line feed
    first = as_json(environment, path)
    assert {name: first[name] for name in log.figures()} == log.figures()
    assert first["files"] == [str(path)]
    most = sorted(log.pages.items(), key=lambda page: (-page[1], page[0]))[:100]
    assert [(page["path"], page["pageviews"]) for page in first["pages"]] == most
    assert sum(country["visitors"] for country in first["countries"]) == first["visitors"]
    assert first["reasons"] == dict(log.truth.rejected.most_common())
    assert sum(bot["requests"] for bot in first["bots"]) <= first["bot_requests"]
    assert sum(first["statuses"].values()) == first["requests"]
    assert left() == []

    (home,) = view.kept()
    read = (home.directory / journal.NAME).read_text()
    assert as_json(environment, path) == first
    assert (home.directory / journal.NAME).read_text() == read, "nothing is new"

    with path.open("ab") as file:
        file.write(b"\n" + b"\n".join(log.add(2, START + 1_800)) + b"\n")
    grown = as_json(environment, str(tmp_path / "*.log"))
    assert {name: grown[name] for name in log.figures()} == log.figures()
    assert [kept.directory for kept in view.kept()] == [home.directory]
    assert left() == []


@pytest.mark.slow
def test_a_look_opens_the_dashboard_follows_the_file_and_stops_on_ctrl_c(
    environment: dict[str, str], tmp_path: Path
) -> None:
    log, path, opened = Log(), tmp_path / "access.log", tmp_path / "opened"
    path.write_bytes(b"\n".join(log.add(3, START)) + b"\n")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> "{opened}"\n')
    browser.chmod(0o700)
    output = tmp_path / "output"
    with output.open("wb") as out:
        shown = processes.Popen(
            [sys.executable, "-m", "tidemark", "view", str(path)],
            stdout=out, stderr=subprocess.STDOUT, env={**environment, "BROWSER": str(browser)},
            start_new_session=True,
        )  # fmt: skip
    try:
        await_text(output, rf"^log +{len(log.lines):,} lines in [\d.]+ s, .* UTC$", shown)
        expected = log.figures()
        await_text(output, rf"^requests +{expected['requests']:,}: [\d,]+ by people, [\d,]+ by bots$", shown)
        visits = (
            f"{expected['visitors']:,} with {expected['sessions']:,} sessions and {expected['pageviews']:,}"
        )
        text = await_text(output, rf"^visitors +{visits} pageviews$", shown)
        assert all(len(line) <= COLUMNS for line in text.splitlines() if not line.startswith("dashboard")), (
            text
        )
        assert wait_until(lambda: opened.exists() and opened.read_text().endswith("\n"), timeout=60)
        (address,) = opened.read_text().split()
        assert address.endswith("/?range=all&site=default")
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.status == 200

        again = start(environment, path)
        printed, err = again.communicate(timeout=60)
        assert again.returncode == 0, err
        assert address.encode() in printed

        busy = start(environment, path, "--json")
        printed, err = busy.communicate(timeout=60)
        assert busy.returncode == 1 and printed == b"" and err.count(b"\n") == 1

        with path.open("ab") as file:
            file.write(b"\n".join(log.add(4, START + 1_800)) + b"\n")
        await_text(output, rf"^requests +{log.figures()['requests']:,}: .*$", shown)
        family = psutil.Process(shown.pid).children(recursive=True)
        shown.send_signal(signal.SIGINT)
        assert shown.wait(timeout=30) == 0
    finally:
        shown.kill()
    assert family, "the dashboard ran"
    assert processes.gone(each.pid for each in family)
    assert "Traceback" not in output.read_text()
    # What came while it ran is kept, too.
    assert as_json(environment, path)["requests"] == log.figures()["requests"]


@pytest.mark.slow
def test_lines_of_no_format_are_read_by_the_layout_that_they_have_in_common(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "shop.log"
    path.write_text("\n".join(CASES[0].line(request) for request in requests(200)) + "\n")
    process = start(environment, path, "--json")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err.decode()
    saved = rf"{re.escape(str(path))}: the layout .*, saved as the format shop in .*\n"
    assert re.fullmatch(saved, err.decode())
    figures = json.loads(out)
    assert (figures["lines"], figures["requests"], figures["rejected"]) == (200, 200, 0)


def test_exact_figures_have_all_lines_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"one\n")
    committed = [1]

    class Reader:
        def read(self, paths: Sequence[str]) -> tuple[dict[str, list[int]], bool]:
            states = states_of(paths)
            committed.append(states[str(path)][0])
            return states, False

    def slow_totals(_: object) -> dict[str, Any]:
        before = committed[-1]
        with path.open("ab") as file:
            file.write(b"more\n")
        time.sleep(0.5)
        return {"requests": before, "lines": committed[-1], "rejected": 0}

    monkeypatch.setattr(look, "GROWTH_SECONDS", 0.05)
    monkeypatch.setattr("tidemark.figures.totals.totals", slow_totals)
    home: Any = SimpleNamespace(unchanged=True, record={"files": states_of([str(path)])})
    given, output = Given([str(path)], [str(path)], "default", ""), Output(False, True, None, "")
    shown = look.Look(Settings.of(home=tmp_path), home, given, output)
    monkeypatch.setattr(shown, "_reader", lambda _: Reader())
    works = [Thread(target=shown._work, args=(work,)) for work in (shown._keep_reading, shown._keep_counting)]
    for work in works:
        work.start()
    try:
        assert wait_until(lambda: len(committed) > 3, timeout=20)
        assert shown._figures["requests"] == shown._figures["lines"] > 0
    finally:
        shown._stopping.set()
        shown._news.set()
        for work in works:
            work.join()
    assert shown._error is None


def await_text(output: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    def is_printed() -> bool:
        return bool(re.search(pattern, output.read_text(), re.MULTILINE))

    assert wait_until(lambda: is_printed() or process.poll() is not None, timeout=240, interval=0.2)
    assert is_printed(), output.read_text()
    return output.read_text()


@pytest.mark.slow
def test_standard_input_is_not_kept(environment: dict[str, str]) -> None:
    log = Log()
    given = b"\n".join([*log.add(5, START), *NOISE])
    result = as_json(environment, "-", given=given)
    assert result["requests"] == log.truth.accepted
    assert result["rejected"] == log.truth.rejected.total() + len(NOISE)
    assert view.kept() == [] and left() == []


@pytest.mark.slow
def test_files_of_another_format_are_one_error_with_the_reasons(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "messages"
    path.write_bytes(b"\n".join(NOISE) + b"\n")
    process = start(environment, path, "--json")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1 and out == b""
    assert "none of the 3 lines is a valid log line: malformed (3)." in err.decode()
    assert err.count(b"\n") == 1
    assert left() == []


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["missing.log"], 1, "does not exist"),
        (["."], 1, "is a directory"),
        (["*.none"], 1, "no file matches"),
        ([], 2, "Missing argument 'FILE...'"),
        (["--home", "elsewhere", "x.log"], 2, "No such option"),
    ],
)
def test_bad_input_starts_nothing(
    arguments: list[str], status: int, text: str, environment: dict[str, str], tmp_path: Path
) -> None:
    process = start(environment, *arguments, cwd=tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert text in err.decode() and "Traceback" not in err.decode()
    assert view.kept() == []


def test_another_home_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    result = CliRunner().invoke(tidemark, ["--home", str(tmp_path), "view", "x.log"])
    assert "a home of its own" in str(result.exception)


def test_too_little_disk_is_reported_before_anything_starts(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(NOISE[0] + b"\n")
    monkeypatch.setattr(command, "LEAST_ROOM", 1 << 60)
    result = CliRunner().invoke(tidemark, ["view", str(path)])
    assert isinstance(result.exception, PlatformError)
    assert "MB free" in str(result.exception) and "--clear" in str(result.exception)


def test_kept_homes_are_listed_and_cleared(environment: dict[str, str]) -> None:
    with view.home_for({"/logs/access.log": [1, 2]}, "made", lambda directory: 1, lasting=True) as home:
        (home.directory / "data").write_bytes(b"x" * 3_000_000)
        listed = CliRunner().invoke(tidemark, ["view", "--kept"]).output
        assert re.search(rf"^in use +3 MB  {home.directory}  /logs/access.log$", listed, re.MULTILINE)
        assert "0 MB freed" in CliRunner().invoke(tidemark, ["view", "--clear"]).output
    assert re.search(
        r"^removed +3 MB .*\n3 MB freed", CliRunner().invoke(tidemark, ["view", "--clear"]).output
    )
    assert view.kept() == []


def test_the_summary_has_eighty_columns_and_no_control_characters() -> None:
    path = "/a\x1b[31m" + "é" * 200
    figures = {
        "lines": 9_000_000, "requests": 8_000_000, "bot_requests": 3_000_000, "visitors": 1_234_567,
        "sessions": 2_345_678, "pageviews": 5_000_000, "rejected": 1_000_000,
        "statuses": dict.fromkeys(("2xx", "3xx", "4xx", "5xx"), 7654321),
        "countries": [{"country": code, "visitors": 123_456} for code in ("US", "IN", "DE", "GB", "FR", "BR", "JP")],
        "bots": [{"bot_name": "Googlebot" * 9, "requests": 5_000}, {"bot_name": "GPTBot", "requests": 4}],
        "pages": [{"path": path, "pageviews": 4_000_000}],
        "slowest_pages": [{"path": path, "p95": 12.3456, "timed": 1_000_000}],
        "reasons": dict.fromkeys(("malformed", "invalid_time", "invalid_status", "too_long"), 250000),
    }  # fmt: skip
    for exact in (False, True):
        shown = [text for _, text in rows(("", "log"), figures, "", exact=exact)]
        width = max(map(len, NAMES)) + 2
        assert len(shown) == len(NAMES) and max(map(len, shown)) + width <= COLUMNS
        assert all(text.isprintable() for text in shown)
        assert "/a\\x1b[31m" in shown[6] and "12.3s" in shown[11]
        assert shown[1].startswith("8,000,000: 5,000,000 by people, 3,000,000 by bots")
        assert shown[14].startswith("1,000,000 lines: malformed 250,000")


@pytest.fixture(autouse=True)
def nothing_is_left(environment: dict[str, str]) -> Iterator[None]:
    yield
    for process in left():
        process.kill()

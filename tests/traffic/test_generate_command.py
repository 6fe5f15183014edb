"""`tidemark generate` as a user runs it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from tests import processes
from tidemark.traffic.schedule import paced
from tidemark.traffic.stream import Block

COMMAND = [sys.executable, "-m", "tidemark", "generate"]
FIXED = ["--seed", "3", "--start-time", "2026-05-17T08:30:00", "--rate", "100", "--visitors", "500"]


def generate(*options: str | Path) -> subprocess.CompletedProcess[bytes]:
    return processes.run([*COMMAND, *map(str, options)], capture_output=True, timeout=60, check=False)


def test_a_file_a_compressed_file_and_standard_output_hold_the_same_lines(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.log", tmp_path / "a.log.gz"
    for output in (plain, packed):
        done = generate(*FIXED, "--seconds", "20", "-o", output)
        assert done.returncode == 0, done.stderr
        assert b"2,000 lines in all" in done.stderr
    shown = generate(*FIXED, "--seconds", "20", "-o", "-").stdout
    assert shown == plain.read_bytes() == gzip.decompress(packed.read_bytes())
    assert shown.count(b"\n") == 2000
    assert b"[17/May/2026:08:30:00 +0000]" in shown.split(b"\n")[0]
    assert b"[17/May/2026:08:30:19 +0000]" in shown.split(b"\n")[-2]
    again = tmp_path / "b.log.gz"
    generate(*FIXED, "--seconds", "20", "-o", again)
    assert again.read_bytes() == packed.read_bytes()


def test_truth_beside_the_file(tmp_path: Path) -> None:
    log, truth = tmp_path / "a.log", tmp_path / "truth.json"
    done = generate(
        *FIXED, "--seconds", "20", "--malformed", "0.1", "--site", "shop", "-o", log, "--truth", truth
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads(truth.read_bytes())
    assert expected["lines"] == log.read_bytes().count(b"\n") == 2000
    assert {window["site"] for window in expected["windows"]} == {"shop"}


def test_a_start_time_with_an_offset_is_written_in_utc() -> None:
    shown = generate(
        "--seconds", "1", "--rate", "1", "--start-time", "2026-05-17T01:00:00+02:00", "-o", "-"
    ).stdout
    assert b"[16/May/2026:23:00:00 +0000]" in shown


def test_without_a_seed_each_run_differs() -> None:
    options = ("--seconds", "5", "--start-time", "2026-05-17T08:30:00", "-o", "-")
    assert generate(*options).stdout != generate(*options).stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = " ".join([*COMMAND, "--seconds", "600", "-o", "-"])
    script = f"{command} | head -n 3 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr and b"Broken" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_after_whole_lines(tmp_path: Path, number: int) -> None:
    log, truth = tmp_path / "a.log", tmp_path / "truth.json"
    options = [*FIXED, "-o", str(log), "--truth", str(truth)]
    with processes.Popen([*COMMAND, *options], stderr=subprocess.PIPE) as running:
        deadline = time.monotonic() + 30
        while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(running.pid, number)
        _, output = running.communicate(timeout=30)
    assert running.returncode == 0, output
    written = log.read_bytes()
    assert written.endswith(b"\n")
    assert json.loads(truth.read_bytes())["lines"] == written.count(b"\n") > 0


def test_a_named_pipe_waits_for_its_reader_or_the_first_signal(tmp_path: Path) -> None:
    pipe, truth = tmp_path / "pipe", tmp_path / "truth.json"
    os.mkfifo(pipe)
    options = [*FIXED, "--seconds", "20", "-o", str(pipe), "--truth", str(truth)]
    with processes.Popen([*COMMAND, *options], stderr=subprocess.PIPE) as running:
        assert pipe.read_bytes() == generate(*FIXED, "--seconds", "20", "-o", "-").stdout
        assert running.wait(30) == 0
    with processes.Popen([*COMMAND, *options], stderr=subprocess.PIPE) as running:
        time.sleep(3)
        os.kill(running.pid, signal.SIGINT)
        try:
            _, output = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0 and b"0 lines in all" in output
    assert json.loads(truth.read_bytes())["lines"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--start-time", "yesterday", "-o", "-"], "--start-time 'yesterday' is not an ISO 8601 time"),
        (["--late", "1.5", "-o", "-"], "late is 1.5"),
        (["--rate", "0", "-o", "-"], "rate is 0"),
        (["--speed", "0", "-o", "-"], "speed is 0"),
        (["--speed", "inf", "-o", "-"], "speed is inf"),
        (["--site", "a\nb", "-o", "-"], "'a\\nb' is not a site name"),
        (["--seconds", "1", "-o", "/no/such/place/a.log"], "cannot write /no/such/place/a.log: No such file"),
        (
            ["--seconds", "1", "-o", "-", "--truth", "/no/such/place/t.json"],
            "cannot write /no/such/place/t.json",
        ),
        (["--bootstrap-servers", "127.0.0.1:1"], "Kafka at 127.0.0.1:1 cannot be reached"),
        (["--format", "xml"], "Invalid value for '--format'"),
    ],
)
def test_errors_are_clear(options: list[str], message: str) -> None:
    done = generate(*options)
    assert done.returncode != 0
    text = done.stderr.decode()
    assert message in text
    assert "Traceback" not in text


def test_help_names_every_option() -> None:
    text = generate("--help").stdout.decode()
    for option in (
        "--rate", "--seconds", "--start-time", "--speed", "--seed", "--site", "--visitors", "--late",
        "--late-by", "--malformed", "--format", "--request-time", "--outage",
        "--silence", "--rhythm", "--output", "--truth", "--home",
        "--bootstrap-servers",
    ):  # fmt: skip
        assert option in text


def test_pacing_keeps_to_the_schedule_and_catches_up() -> None:
    def generated() -> list[Block]:
        return [Block(100.0 + second, 1.0, [b"%d" % i for i in range(100)], []) for second in range(4)]

    began, sent, stop = time.monotonic(), 0, Event()
    for block, behind in paced(iter(generated()), 100.0, speed=4.0, stop=stop):
        due = 1 + int((time.monotonic() - began) * 400)
        sent += len(block.lines)
        assert sent <= due, "nothing is sent before it is due"
        assert behind >= 0
        if sent < 150:
            time.sleep(0.3)  # a stall: what is due meanwhile comes at once, nothing is left out
    assert sent == 400
    assert time.monotonic() - began >= 0.99


def test_pacing_ends_when_stopped() -> None:
    stop = Event()
    endless = (Block(float(second), 1.0, [b"x"] * 10, []) for second in range(10**9))
    taken = 0
    for block, _ in paced(endless, 0.0, speed=50.0, stop=stop):
        taken += len(block.lines)
        if taken > 100:
            stop.set()
    assert 100 < taken < 1000


def test_live_lines_carry_the_time_of_now() -> None:
    shown = generate("--seconds", "1", "--rate", "1", "-o", "-").stdout.decode()
    at = datetime.strptime(shown.split("[")[1].split("]")[0], "%d/%b/%Y:%H:%M:%S %z")
    assert abs((datetime.now(UTC) - at).total_seconds()) < 30


def test_lines_of_an_own_format(tmp_path: Path) -> None:
    layout = "$time;$client_ip;$request;$status;$bytes;$duration_ms;$user_agent"
    (tmp_path / "tidemark.toml").write_text(f"[formats.mine]\nlayout = '{layout}'\n", encoding="utf-8")
    shown = generate(*FIXED, "--seconds", "1", "--home", tmp_path, "--format", "mine", "-o", "-").stdout
    lines = shown.decode().splitlines()
    assert len(lines) == 100
    result = [line.split(";") for line in lines]
    assert {parts[0] for parts in result} == {"2026-05-17T08:30:00.000000Z"}
    assert {parts[3] for parts in result} >= {"200"} and all(parts[5].isdigit() for parts in result)
    unknown = generate("--home", tmp_path, "--format", "other", "-o", "-")
    assert unknown.returncode == 2 and b"'other' is not one of combined" in unknown.stderr

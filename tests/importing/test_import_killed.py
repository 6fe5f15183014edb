"""Exactly once when the importer, or the broker under it, dies at any moment."""

from __future__ import annotations

import lzma
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.errors import KafkaError
from tidemark.importing.importer import Options, import_files
from tidemark.kafka import client as kafka
from tidemark.local import broker as embedded
from tidemark.settings import Settings

Lines = Callable[[], list[bytes]]
Numbered = Callable[..., list[bytes]]
Write = Callable[..., Path]
Read = Callable[[Settings], list[tuple[bytes, dict[str, bytes]]]]
Start = Callable[..., "subprocess.Popen[bytes]"]

# As a file: its tests mostly wait, and begin early beside others that compute.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_again_and_again(
    tidemark: Start,
    settings: Settings,
    lines: Lines,
    numbered: Numbered,
    write: Write,
    tmp_path: Path,
    seed: int,
) -> None:
    random_source = random.Random(seed)
    content = numbered(300_000)
    one = write(tmp_path / "one.log", content[:200_000])
    two = write(tmp_path / "two.log", content[200_000:])
    admin = kafka.admin_client(settings.kafka)

    def written(committed: bool) -> int:
        ends = kafka.end_offsets(settings.kafka, settings.kafka.topic, committed=committed, admin=admin)
        return sum(ends.values())

    seen = []
    for number in range(6):
        # In the midst of its first transaction or, after a commit, of a later one. The first two kills strike at once,
        # because a fast machine needs less than half a second for the rest.
        committed = number % 2 == 1
        before = written(committed)
        process = tidemark(one, two)
        while written(committed) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random_source.uniform(0, 0.4) if number > 1 else 0)
        process.kill()
        process.communicate()
        if process.returncode == -signal.SIGKILL:
            seen.append(written(True))

    last = tidemark(one, two)
    out, err = last.communicate(timeout=120)

    assert last.returncode == 0, err
    assert b"2 files" in out
    assert lines() == sorted(content)
    # The kills must have struck in the middle for this to mean anything.
    assert any(0 < end < len(content) for end in seen), seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_it_says_how_far_it_got_and_goes_on_from_there(
    tidemark: Start,
    settings: Settings,
    lines: Lines,
    numbered: Numbered,
    write: Write,
    tmp_path: Path,
    number: int,
) -> None:
    content = numbered(300_000)
    path = write(tmp_path / "access.log", content)
    admin = kafka.admin_client(settings.kafka)
    process = tidemark(path)
    while not any(kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin).values()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.startswith(b"stopped; ") and b"Traceback" not in err

    again = tidemark(path)
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert lines() == sorted(content)


def test_broker_killed_during_an_import(
    home: Settings, read: Read, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    started = embedded.start(home)
    settings = home.changed(bootstrap_servers=started.bootstrap_servers)
    content = numbered(400_000)
    path = write(tmp_path / "access.log", content)
    messages: list[str] = []
    killed = threading.Event()
    revived: list[threading.Thread] = []

    def kill_once(_: int) -> None:
        if not killed.is_set() and any(kafka.end_offsets(settings.kafka, settings.kafka.topic).values()):
            killed.set()
            running = embedded.status(home)
            assert running is not None
            os.kill(running.pid, signal.SIGKILL)
            revived.append(threading.Timer(3, embedded.start, [home]))
            revived[0].start()

    try:
        report = import_files([str(path)], Options(settings.kafka, say=messages.append, advance=kill_once))
        assert killed.is_set() and messages
        assert report.added == len(content)
        assert import_files([str(path)], Options(settings.kafka)).added == 0
        assert sorted(value for value, _ in read(settings)) == sorted(content)
    finally:
        for thread in revived:
            thread.join()
        embedded.stop(home)


def test_broker_that_stays_down_is_one_error_and_the_next_import_goes_on(
    home: Settings, read: Read, numbered: Numbered, write: Write, tmp_path: Path
) -> None:
    started = embedded.start(home)
    settings = home.changed(bootstrap_servers=started.bootstrap_servers)
    content = numbered(250_000)
    path = write(tmp_path / "access.log", content)

    def kill_broker(_: int) -> None:
        running = embedded.status(home)
        if running and any(kafka.end_offsets(settings.kafka, settings.kafka.topic).values()):
            os.kill(running.pid, signal.SIGKILL)
            while embedded.status(home):
                time.sleep(0.05)

    try:
        with pytest.raises(KafkaError, match="stopped answering"):
            import_files(
                [str(path)], Options(settings.kafka, say=lambda _: None, advance=kill_broker, patience=4)
            )
        embedded.start(home)
        import_files([str(path)], Options(settings.kafka))
        assert sorted(value for value, _ in read(settings)) == sorted(content)
    finally:
        embedded.stop(home)


def test_killed_amid_the_parts_of_compressed_container_logs(
    tidemark: Start, settings: Settings, lines: Lines, tmp_path: Path
) -> None:
    """Of every ten lines one is in three parts, between which a line of the other stream stands."""
    time_of, count = "2026-11-21T10:00:00.{:09}Z", 150_000
    written, expected = [], []
    for number in range(count):
        head = time_of.format(number)
        if number % 10:
            expected.append(f"{head} stdout F {number}")
            written.append(expected[-1])
        else:
            other = f"{head} stderr F {number}"
            written += [
                f"{head} stdout P {number}-",
                f"{head} stdout P -",
                other,
                f"{head} stdout F -{number}",
            ]
            expected += [f"{head} stdout F {number}---{number}", other]
    path = tmp_path / "0.log.xz"
    path.write_bytes(lzma.compress("".join(f"{line}\n" for line in written).encode(), preset=0))
    admin = kafka.admin_client(settings.kafka)
    seen = 0
    for _ in range(3):
        process = tidemark(path)
        # At once after a commit, so that the next import begins in the middle.
        while sum(kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin).values()) == seen:
            if process.poll() is not None:
                break
            time.sleep(0.01)
        process.kill()
        process.communicate()
        seen = sum(kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin).values())
    assert seen
    last = tidemark(path)
    _, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    assert lines() == sorted(line.encode() for line in expected)


def test_killed_while_it_follows_a_growing_container_log(
    tidemark: Start, settings: Settings, lines: Lines, tmp_path: Path
) -> None:
    path, expected = tmp_path / "0.log", []
    head = "2026-11-21T10:00:00.1Z stdout"
    path.touch()
    admin = kafka.admin_client(settings.kafka)

    def committed() -> int:
        return sum(kafka.end_offsets(settings.kafka, settings.kafka.topic, admin=admin).values())

    for turn in range(4):
        process, before = tidemark(path, "--follow"), committed()
        # Killed with a first part read, of which the rest comes later.
        with path.open("a") as file:
            file.write(f"{head} F -{turn - 1}\n" if turn else "")
            file.writelines(f"{head} P {turn}\n{head} F .{number}\n" for number in range(500))
            file.write(f"{head} P {turn}\n")
        expected += [f"{head} F {turn}.{number}" for number in range(500)] + [f"{head} F {turn}-{turn}"]
        deadline = time.monotonic() + 60
        while committed() <= before + 400 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert committed() > before
        process.kill()
        process.communicate()
    with path.open("a") as file:
        file.write(f"{head} F -3\n")
    last = tidemark(path)
    _, err = last.communicate(timeout=60)
    assert last.returncode == 0, err
    assert lines() == sorted(line.encode() for line in expected)

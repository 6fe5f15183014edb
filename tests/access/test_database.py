"""The database of people, sessions, keys and shares, after a kill and beside other processes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tidemark.access import database
from tidemark.access.door import Door
from tidemark.errors import InputError

# Has written a part of its rows into the file, as in the middle of a commit.
KILLED = """
import os, signal, sqlite3, sys
writer = sqlite3.connect(sys.argv[1])
writer.execute("PRAGMA cache_size = 1")
for number in range(300):
    writer.execute("INSERT INTO sessions VALUES (?, ?, 'password', 1e12)", (os.urandom(32), "x" * 400))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_readers_go_on_after_a_writer_was_killed(tmp_path: Path) -> None:
    door = Door(tmp_path)
    key = door.keys.add("robot", "viewer", (), None)
    done = subprocess.run([sys.executable, "-c", KILLED, str(door.database.path)], check=False)
    assert done.returncode == -signal.SIGKILL and Path(f"{door.database.path}-journal").exists()
    assert [each.name for each in door.keys.all()] == ["robot"]
    assert door.keys.of(key) and not door.database.rows("SELECT * FROM sessions")


def test_only_a_broken_file_is_to_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LOCK_SECONDS", 0.1)
    door = Door(tmp_path)
    door.keys.add("robot", "viewer", (), None)
    with closing(sqlite3.connect(door.database.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for use in (door.keys.all, lambda: door.sessions.begin("ana", "password")):
            with pytest.raises(InputError, match=r"locked.*nobody locks it"):
                use()
    door.database.path.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="remove the file"):
        door.keys.all()

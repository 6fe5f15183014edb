"""Adds and removes notes by the command `tidemark note`, where the home and Tidemark are on this machine."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tidemark.figures.reader import Reader

from .. import data, who
from .edit import editable

_SECONDS = 60


def home_to_write(reader: Reader) -> Path | None:
    """The home, if the dashboard may write to it, as to its settings."""
    home = data.home(reader)
    return home if editable(home) else None


def add(home: Path, text: str, at: datetime, site: str) -> str:
    """Adds a note of a site (empty: all). Returns why it is none, empty if it is one."""
    if not who.asking().right.has_site(site or None):
        return "Choose a site: you may note something of your own sites only."
    time = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return _note(home, "--at", time, f"--site={site}", "--", text)


def remove(home: Path, key: str) -> str:
    """Removes a note. Returns why it was not, empty if it was."""
    return _note(home, f"--remove={key}")


def _note(home: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "tidemark", "note", "--home", str(home), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        who.record("note changed")
    messages = done.stderr.strip().splitlines() or ["The command failed."]
    return "" if done.returncode == 0 else messages[-1]

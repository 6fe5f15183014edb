"""The pulse of a page. Its browser asks for the states of the tables that it shows, and has the panels drawn again
whose tables have another one. So a viewer costs little while nothing changes, and a page that is not seen nothing.
"""

from __future__ import annotations

import hmac
import math
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidemark.access.asking import asking_of
from tidemark.figures.declared import FILE
from tidemark.figures.permitted import Permitted
from tidemark.figures.reader import Reader, ReadError, Version

from . import data

# Viewers share an answer about a table for this long, in seconds.
FRESH = 1.0
# Cores that the refreshes of all viewers may take together. Where the process takes more, every panel waits longer.
CORES = 0.35
LONGEST = 20.0
_PACED_SECONDS = 5.0
# Some panels read the settings file, which is polled like a table.
SETTINGS = "settings"
UNREADABLE = "unreadable"
_DIRECTORY = Path(__file__).parent
_panel = st.components.v2.component(
    "tidemark_pulse", js=(_DIRECTORY / "pulse.js").read_text(encoding="utf-8"), isolate_styles=False
)
_ages = st.components.v2.component(
    "tidemark_ages",
    html="<p></p>",
    js=(_DIRECTORY / "ages.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


@dataclass
class Pulse:
    """The states of tables as texts, which change whenever the tables do. It answers only about tables that a panel has
    shown, so that it remembers no others, and that whoever asks may see."""

    _states: dict[str, tuple[float, str]] = field(default_factory=dict)
    _pace: float = 1.0
    # The clock and the CPU time when the pace was set.
    _paced: tuple[float, float] = field(default_factory=lambda: (time.monotonic(), time.process_time()))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, tables: Iterable[str]) -> None:
        """Takes tables that a panel shows."""
        with self._lock:
            for table in tables:
                self._states.setdefault(table, (0.0, ""))

    def states(self, reader: Reader, tables: Iterable[str]) -> dict[str, str]:
        """The states of those of the tables that panels show and the reader may see."""
        shown = [table for table in tables if table in self._states]
        return {table: self._state(reader, table) for table in shown if is_visible(reader, table)}

    def pace(self) -> float:
        """How many times as long as usual panels have to wait, by the CPU time that this process has taken."""
        with self._lock:
            clock, used = time.monotonic(), time.process_time()
            seconds = clock - self._paced[0]
            if seconds >= _PACED_SECONDS:
                self._pace = paced(self._pace, (used - self._paced[1]) / seconds)
                self._paced = (clock, used)
            return self._pace

    def _state(self, reader: Reader, table: str) -> str:
        at, known = self._states[table]
        if time.monotonic() - at < FRESH:
            return known
        current = state(reader, table)
        self._states[table] = (time.monotonic(), current)
        return current


@st.cache_resource(show_spinner=False)
def shared_pulse() -> Pulse:
    """The one pulse of this process."""
    return Pulse()


def state(reader: Reader, table: str) -> str:
    """The present state of a table, or of the settings file."""
    if table == SETTINGS:
        home = data.home(reader)
        path = None if home is None else home / FILE
        return str(path.stat().st_mtime_ns) if path is not None and path.exists() else ""
    try:
        return of_version(reader.version(table))
    except ReadError:
        return UNREADABLE


def is_visible(reader: Reader, table: str) -> bool:
    """Whether the reader may see a table. A table without versions has no secrets."""
    try:
        return table == SETTINGS or not isinstance(reader, Permitted) or reader.sees(table)
    except ReadError:
        return True


def of_version(version: Version | None) -> str:
    """The state of a table at a version; a table that was made anew may have the same number. It does not tell number
    and time, from which a viewer could learn how much traffic other sites have."""
    if version is None:
        return ""
    text = f"{version.number} {version.committed_at.timestamp():.3f}"
    return hmac.digest(_secret(), text.encode(), "sha256")[:8].hex()


@cache
def _secret() -> bytes:
    return secrets.token_bytes(32)


def paced(pace: float, cores: float) -> float:
    """The next pace for a process that uses this many cores. The square root prevents oscillation."""
    return min(max(pace * math.sqrt(cores / CORES), 1.0), LONGEST)


def follow(
    reader: Reader,
    panel: str,
    tables: Iterable[str],
    seen: Mapping[str, Version | None],
    every: float,
    turn: int,
) -> None:
    """Has the fragment that calls it run again once a table has another state than its version in `seen`, or than now,
    and with the clock's next multiple of `turn` seconds; but not within `every` seconds."""
    now = time.time()
    names = {*tables, *seen, SETTINGS}
    shared_pulse().show(names)
    states = {
        name: of_version(seen[name]) if name in seen else state(reader, name)
        for name in names
        if is_visible(reader, name)
    }
    _panel(
        key=f"pulse-{panel}",
        data={
            "panel": panel,
            "tables": states,
            "every": every,
            "until": (now // turn + 1) * turn,
            # So that the browser takes notice of every run.
            "at": now,
        },
        on_due_change=_drawn,
    )


def _drawn() -> None:
    """The fragment runs by itself."""


def line(key: str, parts: Iterable[tuple[str, float | None, str]]) -> None:
    """A line of text whose parts each have the age of a moment (epoch seconds) between two texts, or only these."""
    _ages(key=key, data={"now": time.time(), "parts": list(parts)})


async def answer(request: Request) -> Response:
    """The states of the tables in the address, the server's time, and the pace of all pages."""
    tables, right = request.query_params.getlist("table"), asking_of(request.scope).right
    states = await run_in_threadpool(lambda: shared_pulse().states(data.shared_reader(right), tables))
    content = {"now": time.time(), "pace": shared_pulse().pace(), "tables": states}
    return JSONResponse(content, headers={"cache-control": "no-store"})

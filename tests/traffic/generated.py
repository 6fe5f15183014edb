"""Generated lines one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidemark.traffic.stream import Outcome, Traffic, blocks


class Line(NamedTuple):
    """One log line without its line end, and its expected outcome."""

    value: bytes
    outcome: Outcome


def generate(traffic: Traffic) -> Iterator[Line]:
    """The lines of `traffic` one by one, in order of arrival."""
    for block in blocks(traffic):
        yield from map(Line, block.lines, block.outcomes)

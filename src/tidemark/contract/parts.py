"""Long lines that a container runtime has split: the parts of a line become one line again.

Docker's json-file driver splits at 16 KiB. The entry of a part has exactly so many bytes in `log` and no line feed at
their end, which the last entry of the line has (moby, `daemon/logger/copier.go` and `jsonfilelog`). Runtimes of
Kubernetes write `P` for a part and `F` for the last one (CRI's log format). Parts of one stream follow each other;
entries of the other stream may stand between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

# The last part of a line is among so many lines after the first one.
MOST_LINES = 1_000
_DOCKER_BYTES = 16 * 1024
# No runtime splits a shorter line: containerd does at 16 KiB, CRI-O at 8 KiB.
_LEAST_CRI_BYTES = 4 * 1024
_WINDOW_BYTES = _DOCKER_BYTES // 2
_CRI = re.compile(rb"(\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) )([PF]) ")
_DOCKER_BEGIN = b'{"log":'
_DOCKER = re.compile(rb'(\{"log": *")([^"\\]*(?:\\.[^"\\]*)*)(".*?"stream": *"(stdout|stderr)".*)', re.DOTALL)
_REPLACED = "\ufffd".encode()
_LINE_FEED = rb"\n"  # as JSON has it

Rest = Literal["wait", "leave", "complete"]


@dataclass(frozen=True)
class Joined:
    """`lines`, and for each the number of its line among the given ones, for joined parts that of the first; the last
    `waiting` of the given lines are not among them."""

    lines: list[bytes]
    numbers: list[int]
    waiting: int


def may_have_parts(text: bytes) -> bool:
    """A cheap test of lines that end with a line feed: false if no line in `text` is a part."""
    # A line of 16 KiB covers one of these windows.
    ends = range(_WINDOW_BYTES, len(text) + 1, _WINDOW_BYTES)
    return b" P " in text or any(text.find(b"\n", end - _WINDOW_BYTES, end) < 0 for end in ends)


def is_whole(line: bytes) -> bool:
    """Whether a line has the form of a part, but is too short for one: its container ended without a line feed."""
    match = _CRI.match(line)
    return match is not None and match[3] == b"P" and len(line) - match.end() < _LEAST_CRI_BYTES


def join(lines: Sequence[bytes], most_bytes: int, rest: Rest, senders: Sequence[Hashable] = ()) -> Joined:
    """Joins the parts of lines, each in the envelope of its first part.

    From the first part of a line that has no last part yet, lines either "wait", or parts are left as they are, or the
    line is taken as complete. Parts with more than `most_bytes` from the first to the last, or MOST_LINES, are left as
    they are. Parts of different `senders` (one for each line) belong to different lines.
    """
    items: list[_Item] = []
    opened: dict[Hashable, _Item] = {}
    first_line = first_item = size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if opened and (size > most_bytes or number - first_line > MOST_LINES):
            opened.clear()
        part = _part_of(line, any_entry=bool(opened)) if len(line) <= most_bytes else None
        key = part and (part.kind, part.stream, senders[number] if senders else None)
        item = opened.get(key)
        if part and item:
            item.add(line, part)
            if item.ended:
                del opened[key]
            continue
        item = _Item(number, [line])
        items.append(item)
        if part and not part.last:
            if not opened:
                first_line, first_item, size = number, len(items) - 1, len(line) + 1
            item.parts.append(part)
            opened[key] = item
    waiting = 0
    if opened and rest == "wait":
        waiting = len(lines) - first_line
        del items[first_item:]
    for item in opened.values():
        item.ended = rest == "complete"
    joined = [(item.number, line) for item in items for line in item.result()]
    return Joined([line for _, line in joined], [number for number, _ in joined], waiting)


@dataclass(frozen=True)
class _Part:
    """An entry of a runtime: `content` is its part of a line, between `head` and `tail`."""

    kind: Literal["docker", "cri"]
    stream: bytes
    last: bool
    head: bytes
    content: bytes
    tail: bytes


@dataclass
class _Item:
    """A line, or the parts of one; `number` is that of its first part, `ended`: all parts are there."""

    number: int
    lines: list[bytes]
    parts: list[_Part] = field(default_factory=list)
    ended: bool = False

    def add(self, line: bytes, part: _Part) -> None:
        self.lines.append(line)
        self.parts.append(part)
        self.ended = part.last

    def result(self) -> list[bytes]:
        if not self.ended:
            return self.lines
        first, last = self.parts[0], self.parts[-1]
        end = _LINE_FEED if last.kind == "docker" and not last.last else b""
        return [b"".join([first.head, *(part.content for part in self.parts), end, first.tail])]


def _part_of(line: bytes, *, any_entry: bool) -> _Part | None:
    """The entry of a runtime; without `any_entry` perhaps only if it is a part of a line with more parts."""
    if line.startswith(_DOCKER_BEGIN):
        return _docker(line) if any_entry or len(line) >= _DOCKER_BYTES else None
    match = _CRI.match(line)
    if not match:
        return None
    last, content = match[3] == b"F", line[match.end() :]
    return _Part(
        "cri", match[2], last, match[1] + b"F ", content if last else content.removesuffix(b"\r"), b""
    )


def _docker(line: bytes) -> _Part | None:
    match = _DOCKER.match(line)
    if not match:
        return None
    head, content, tail, stream = match.groups()
    try:
        text = json.loads(b'"' + content + b'"', strict=False)
    except ValueError:
        return None
    raw = text.encode("utf-8", "surrogatepass")
    # Each byte that was no UTF-8 has become one U+FFFD, of three bytes.
    split = len(raw) - 2 * raw.count(_REPLACED) <= _DOCKER_BYTES <= len(raw)
    return _Part("docker", stream, text.endswith("\n") or not split, head, content, tail)

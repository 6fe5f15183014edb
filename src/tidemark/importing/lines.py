"""Splits the content of a file into lines, in bounded memory, resumable at any line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from tidemark.contract.parts import Rest, is_whole, join, may_have_parts
from tidemark.importing.text import HEAD_BYTES, HOLE, HOLE_BYTES, PLAIN, Text

MAX_LINE_BYTES = 8 * 1024 * 1024
PREFIX_BYTES = HEAD_BYTES
TAIL_BYTES = 4 * 1024
_ANY_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass
class Block:
    """Records in the order of the file: whole lines, and parts of lines that are too long for one record.

    A part has a `chunk` header: "i/n" on the last part, "i/*" on the others, when n is unknown. `size`: bytes of the
    file in these records and left out before them. `fields`: the names of the columns of the lines, if the file names
    them. `converted`: the lines may differ from the bytes between line feeds.
    """

    lines: list[bytes] = field(default_factory=list)
    parts: list[tuple[bytes, str]] = field(default_factory=list)
    size: int = 0
    fields: str = ""
    converted: bool = False


class LineSplitter:
    """Splits a stream of bytes into lines of UTF-8; its attributes describe the records returned so far.

    offset: bytes of the stream in records; lines: their number of lines;
    chunk: parts returned of an unfinished long line; unended: the last line had no line
    feed; start: NUL bytes at the beginning of the stream; prefix: the first PREFIX_BYTES after them; tail: the last
    TAIL_BYTES before `offset`; nuls: NUL bytes that this splitter has left out.

    One carriage return before the line feed belongs to the line end. A mark of the encoding at the beginning is left
    out, as are NUL bytes at the beginning of a line and holes; any other byte is content. The parts of a line that a
    container runtime has split are one line, which is unfinished until its last part is there.
    The records do not depend on the sizes of the fed blocks.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES, text: Text = PLAIN) -> None:
        self.offset = 0
        self.lines = 0
        self.chunk = 0
        self.unended = False
        self.start = 0
        self.prefix = b""
        self.tail = b""
        self.nuls = 0
        self.text = text
        self._plain = text == PLAIN
        self._any_end = text.line_end == "\r"
        self._unit = text.unit
        # UTF-16 may take half as much again in UTF-8.
        self._limit = limit if self._unit == 1 else max(limit // 8, 1) * 4
        self._carry = b""
        self._last_nuls = 0  # Behind the carry: a writer that preallocates may yet overwrite them.
        self._mark, self._return = "\ufeff".encode(text.encoding), "\r".encode(text.encoding)
        ends = ("\r\n", "\n", "\r") if self._any_end else ("\r\n", "\n")
        self.ends = tuple(end.encode(text.encoding) for end in ends)

    @property
    def pending(self) -> int:
        """Bytes that wait for their line feed."""
        return len(self._carry) + self._last_nuls

    @property
    def ends_in_nuls(self) -> bool:
        """Whether NUL bytes at the end of the stream so far wait for what follows."""
        return self._last_nuls > 0

    @property
    def unfinished(self) -> bool:
        """Whether bytes of an unfinished last line wait."""
        return bool(self._carry) and not self.unended

    def feed(self, data: bytes) -> Block:
        """The records that `data` completes."""
        block = Block(converted=not self._plain)
        if self._last_nuls or data[-1:] == b"\0":
            data = self._before_last_nuls(data, block)
        if not data:
            return block
        text = self._carry + data if self._carry else data
        if not self.offset or self.unended or self._any_end:
            begun = self._without_beginning(text, block)
            if begun is None:
                return block
            text = begun
        at = 0
        for hole in HOLE.finditer(text) if bytes(HOLE_BYTES) in text else ():
            begin, end = hole.start() + -hole.start() % self._unit, hole.end() - hole.end() % self._unit
            self._take(text[at:begin], block, "leave")
            self._leave_out(end - begin, block)
            at = end
        self._take(text[at:] if at else text, block, "wait")
        return block

    def finish(self) -> Block:
        """The last line of a stream that ended without a line feed."""
        block, text = Block(converted=not self._plain), self._carry
        if self.unended:
            self._consume(text, len(text), block)
            self._carry = b""
        elif text:
            self.unended = bool(self._split(text)[1])
            self._take(text, block, "complete")
        return block

    def finish_whole(self) -> Block:
        """The last line of a stream that may grow, if it is whole although it is marked as a part."""
        block, text = Block(converted=not self._plain), self._carry
        if self._plain and text.count(b"\n") == 1 and text.endswith(b"\n") and is_whole(text):
            self._take(text, block, "complete")
        return block

    def forget_last_nuls(self, most: int) -> int:
        """Forgets the NUL bytes at the end of the stream, unless they are more than `most`. Returns their number; what
        is fed next has to begin with the bytes that are now in their place."""
        nuls = self._last_nuls if self._last_nuls <= most else 0
        self._last_nuls -= nuls
        return nuls

    def release(self) -> Block:
        """The lines that wait for the rest of another one, whose parts stay as they are. An unfinished last line still
        waits."""
        block, text = Block(converted=not self._plain), self._carry
        last = self._split(text)[1]
        if len(last) < len(text):
            self._take(text[: len(text) - len(last)], block, "leave")
            self._carry = last
        return block

    def _before_last_nuls(self, data: bytes, block: Block) -> bytes:
        """Adds NUL bytes at the end of the stream so far to those that wait. Returns the rest, with those that no
        longer wait; many of them are a hole."""
        content = data.rstrip(b"\0")
        if content or not self._last_nuls:
            # The last character may have some of them.
            lacking = -(self.pending + len(content)) % self._unit
            content = data[: len(content) + lacking]
        nuls, self._last_nuls = self._last_nuls, len(data) - len(content)
        if not content:
            self._last_nuls += nuls
            return b""
        if nuls < HOLE_BYTES:
            return bytes(nuls) + content
        begun = (len(self._carry) + nuls) % self._unit  # The first character may have some, too.
        self._take(self._carry, block, "leave")
        self.unended = False
        self._leave_out(nuls - begun, block)
        return bytes(begun) + content

    def _without_beginning(self, text: bytes, block: Block) -> bytes | None:
        """The text without a mark of the encoding, and without the end of the line before it; None if it must wait
        for more bytes."""
        ends: tuple[bytes, ...] = ()
        if not self.offset:
            ends = (self._mark,)
        elif self.unended:
            ends = self.ends  # The stream has grown after its last line was taken as complete.
        elif self._any_end and self.tail[-1:] == b"\r":
            ends = (b"\n",)
        line_end = next((end for end in ends if text.startswith(end)), b"")
        if not line_end and any(end.startswith(text) for end in ends):
            self._carry = text
            return None
        self.unended = False
        self._carry = b""
        self._consume(line_end, len(line_end), block)
        return text[len(line_end) :]

    def _take(self, text: bytes, block: Block, rest: Rest) -> None:
        """Adds the records of `text`, and keeps what has to wait. Unless it may, the text ends a line."""
        lines, last = self._split(text)
        if rest != "wait" and (last or (self.chunk and not lines)):
            lines.append(last)
            last = b""
        held = 0
        if self._plain and lines and may_have_parts(text):
            # The first one may be the rest of a long line.
            whole = lines[bool(self.chunk) :]
            long = len(last) > self._limit + 1
            joined = join(whole, self._limit, "leave" if long else rest)
            held = sum(len(line) + 1 for line in whole[len(whole) - joined.waiting :])
            lines[bool(self.chunk) :] = joined.lines
        if self._plain and not self.chunk and len(text) <= self._limit and b"\0" not in text:
            self.lines += len(lines)
            block.lines += [_strip(line) for line in lines] if b"\r" in text else lines
        else:
            block.converted = True
            for line in lines:
                self._whole(line, block)
        if not held and not self.chunk:
            last = self._without_nuls(last)
        # Two characters more than the limit, so that content certainly follows a part.
        while len(last) >= self._limit + 2 * self._unit:
            self._part(last[: self._limit], block, last=False)
            last = last[self._limit :]
        taken = len(text) - len(last) - held
        self._consume(text, taken, block)
        self._carry = text[taken:]

    def _split(self, text: bytes) -> tuple[list[bytes], bytes]:
        """The lines that end in the text, and the rest."""
        if self._unit > 1:
            kind = f"{'>' if self.text.encoding.endswith('be') else '<'}u{self._unit}"
            units = np.frombuffer(text, kind, len(text) // self._unit)
            ends = np.flatnonzero(units == ord("\n")) * self._unit
            begins = [0, *(ends + self._unit).tolist()]
            lines = [text[begin:end] for begin, end in zip(begins, ends.tolist(), strict=False)]
            return lines, text[begins[-1] :]
        lines = _ANY_LINE_END.split(text) if self._any_end else text.split(b"\n")
        last = lines.pop()
        return lines, last

    def _whole(self, line: bytes, block: Block) -> None:
        """Adds a complete line, or the rest of one, which may be too long."""
        if not self.chunk:
            line = self._without_nuls(line)
        line = line.removesuffix(self._return)
        self.lines += 1
        if not self.chunk and len(line) <= self._limit:
            block.lines.append(self._decoded(line))
            return
        while len(line) > self._limit:
            self._part(line[: self._limit], block, last=False)
            line = line[self._limit :]
        self._part(line, block, last=True)

    def _part(self, data: bytes, block: Block, *, last: bool) -> None:
        self.chunk += 1
        block.parts.append((self._decoded(data), f"{self.chunk}/{self.chunk if last else '*'}"))
        if last:
            self.chunk = 0

    def _decoded(self, data: bytes) -> bytes:
        return data if self._unit == 1 else data.decode(self.text.encoding, "replace").encode()

    def _without_nuls(self, line: bytes) -> bytes:
        """A line without NUL bytes at its beginning."""
        nuls = len(line) - len(line.lstrip(b"\0"))
        nuls -= nuls % self._unit
        self.nuls += nuls
        return line[nuls:]

    def _leave_out(self, nuls: int, block: Block) -> None:
        self.nuls += nuls
        block.converted = True
        while nuls:
            some = min(nuls, MAX_LINE_BYTES)
            self._consume(bytes(some), some, block)
            nuls -= some

    def _consume(self, text: bytes, size: int, block: Block) -> None:
        """Counts the first `size` bytes of `text` as returned."""
        self.offset += size
        block.size += size
        if len(self.prefix) < PREFIX_BYTES:
            content = text[:size] if self.prefix else text[:size].lstrip(b"\0")
            self.start += 0 if self.prefix else size - len(content)
            self.prefix += content[: PREFIX_BYTES - len(self.prefix)]
        self.tail = (self.tail + text[max(0, size - TAIL_BYTES) : size])[-TAIL_BYTES:]


def _strip(line: bytes) -> bytes:
    return line[:-1] if line[-1:] == b"\r" else line

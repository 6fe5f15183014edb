"""Splits bytes into lines at line feeds, in bounded memory, resumable at any line."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_LINE_BYTES = 8 * 1024 * 1024
PREFIX_BYTES = 64 * 1024
TAIL_BYTES = 4 * 1024


@dataclass
class Block:
    """Records in the order of the file: whole lines, and parts of lines that are too long for one record.

    A part has a `chunk` header: "i/n" on the last part, "i/*" on the others, when n is unknown. `fields`: the names
    of the columns of the lines, if the file names them.
    """

    lines: list[bytes] = field(default_factory=list)
    parts: list[tuple[bytes, str]] = field(default_factory=list)
    size: int = 0
    fields: str = ""


class LineSplitter:
    """Splits a stream of bytes into lines; its attributes describe the records returned so far.

    offset: bytes of the stream in records; lines: their number of lines;
    chunk: parts returned of an unfinished long line; unended: the last line had no line
    feed; prefix, tail: the first PREFIX_BYTES and last TAIL_BYTES before `offset`.

    One carriage return before the line feed belongs to the line end; any other byte is content.
    The records do not depend on the sizes of the fed blocks.
    """

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self.offset = 0
        self.lines = 0
        self.chunk = 0
        self.unended = False
        self.prefix = b""
        self.tail = b""
        self._limit = limit
        self._carry = b""

    @property
    def pending(self) -> int:
        """Bytes that wait for their line feed."""
        return len(self._carry)

    @property
    def unfinished(self) -> bool:
        """Whether bytes of an unfinished last line wait."""
        return bool(self._carry) and not self.unended

    def feed(self, data: bytes) -> Block:
        """The records that `data` completes."""
        text = self._carry + data if self._carry else data
        block = Block()
        if self.unended and text:
            # The stream has grown after its last line was taken as complete.
            ending = 1 if text[:1] == b"\n" else 2 if text[:2] == b"\r\n" else 0
            if ending == 0 and text == b"\r":
                self._carry = text
                return block
            self.unended = False
            self._consume(text[:ending], block)
            text = text[ending:]
        if b"\n" not in data:
            rest = text
        elif self.chunk or len(text) > self._limit:
            *lines, rest = text.split(b"\n")
            for line in lines:
                self._whole(line, block)
            self.lines += len(lines)
        else:
            lines = text.split(b"\n")
            rest = lines.pop()
            self.lines += len(lines)
            block.lines = [_strip(line) for line in lines] if b"\r" in text else lines
        # Two bytes more than the limit, so that content certainly follows a part.
        while len(rest) > self._limit + 1:
            self._part(rest[: self._limit], block, last=False)
            rest = rest[self._limit :]
        self._consume(text[: len(text) - len(rest)], block)
        self._carry = rest
        return block

    def finish(self) -> Block:
        """The last line of a stream that ended without a line feed."""
        block, text = Block(), self._carry
        if not text:
            return block
        if self.unended:
            self._consume(text, block)
        else:
            self._whole(text, block)
            self.lines += 1
            self.unended = True
            self._consume(text, block)
        self._carry = b""
        return block

    def _whole(self, line: bytes, block: Block) -> None:
        """Adds a complete line, or the rest of one, which may be too long."""
        line = _strip(line)
        if not self.chunk and len(line) <= self._limit:
            block.lines.append(line)
            return
        while len(line) > self._limit:
            self._part(line[: self._limit], block, last=False)
            line = line[self._limit :]
        self._part(line, block, last=True)

    def _part(self, data: bytes, block: Block, *, last: bool) -> None:
        self.chunk += 1
        block.parts.append((data, f"{self.chunk}/{self.chunk if last else '*'}"))
        if last:
            self.chunk = 0

    def _consume(self, text: bytes, block: Block) -> None:
        self.offset += len(text)
        block.size += len(text)
        if len(self.prefix) < PREFIX_BYTES:
            self.prefix += text[: PREFIX_BYTES - len(self.prefix)]
        self.tail = (self.tail + text[-TAIL_BYTES:])[-TAIL_BYTES:]


def _strip(line: bytes) -> bytes:
    return line[:-1] if line[-1:] == b"\r" else line

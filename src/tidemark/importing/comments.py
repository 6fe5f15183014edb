"""Comments in log files: left out, except that W3C logs name the columns of the following lines in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidemark.importing.lines import Block

_MARK = b"\n#"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS = b"#fields:"


class Comments:
    """Takes comments, lines that begin with `#`, out of a file's blocks. `fields`: the names of the columns as the last
    `#Fields` named them, empty if none did; `count`: the number of comments so far."""

    def __init__(self, fields: str = "", count: int = 0) -> None:
        self.fields = fields
        self.count = count

    def without(self, block: Block, data: bytes) -> Iterator[Block]:
        """The block's lines without comments, as blocks of lines with the same columns; `data` are the bytes that were
        read for it."""
        # The quick tests first: most logs have neither a # nor bytes that are no ASCII.
        marked = (b"#" in data and _MARK in data) or (not data.isascii() and _BYTE_ORDER_MARK in data)
        if not block.lines or not (marked or block.converted or _is_comment(block.lines[0])):
            block.fields = self.fields
            yield block
            return
        part = replace(block, lines=[], parts=[], fields=self.fields)
        for line in block.lines:
            if not _is_comment(line):
                part.lines.append(line)
                continue
            self.count += 1
            text = line.removeprefix(_BYTE_ORDER_MARK)
            if text[: len(_FIELDS)].lower() == _FIELDS:
                self.fields = " ".join(text[len(_FIELDS) :].decode("utf-8", "replace").split())
                yield part
                part = Block(fields=self.fields)
        part.parts = block.parts
        yield part


def _is_comment(line: bytes) -> bool:
    return line[:1] == b"#" or (line[:1] == b"\xef" and line.startswith(_BYTE_ORDER_MARK + b"#"))

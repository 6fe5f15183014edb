"""Comments in log files: left out, except that W3C logs name the columns of the following lines in one, and their day
in another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from tidemark.importing.lines import Block
from tidemark.parse import w3c

_MARK = b"\n#"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FIELDS, _DATE = b"#fields:", b"#date:"
# As programs write it, and as in the example of the W3C's draft.
_DAYS = ("%Y-%m-%d", "%d-%b-%Y")


class Comments:
    """Takes comments, lines that begin with `#`, out of a file's blocks. `fields`: the names of the columns as the last
    `#Fields` named them, and `date=` with the day of the last `#Date`, empty if there was neither; `count`: the number
    of comments so far."""

    def __init__(self, fields: str = "", count: int = 0) -> None:
        self.fields = fields
        self.count = count

    def without(self, block: Block, data: bytes) -> Iterator[Block]:
        """The block's lines without comments, as blocks of lines with the same columns; `data` are the bytes that were
        read for it."""
        # The quick tests first: most logs have neither a # nor bytes that are no ASCII.
        marked = (b"#" in data and _MARK in data) or (not data.isascii() and _BYTE_ORDER_MARK in data)
        if not block.lines or not (marked or block.converted or _is_comment(block.lines[0])):
            block.fields = w3c.header_of(self.fields)
            yield block
            return
        part = replace(block, lines=[], parts=[], fields=w3c.header_of(self.fields))
        for line in block.lines:
            if not _is_comment(line):
                part.lines.append(line)
                continue
            self.count += 1
            text = line.removeprefix(_BYTE_ORDER_MARK)
            self.fields = _after(self.fields, text)
            if (header := w3c.header_of(self.fields)) != part.fields:
                yield part
                part = Block(fields=header)
        part.parts = block.parts
        yield part


def _after(fields: str, comment: bytes) -> str:
    """`Comments.fields` after one more comment."""
    names, day = w3c.columns_of_header(fields)
    kind, colon, value = comment.partition(b":")
    words = value.decode("utf-8", "replace").split()
    if (kind + colon).lower() == _FIELDS:
        names = words
    elif (kind + colon).lower() == _DATE and words:
        day = _day(words[0]) or day
    return " ".join([*names, w3c.DAY + day] if day else names)


def _day(text: str) -> str | None:
    for form in _DAYS:
        with suppress(ValueError):
            return f"{datetime.strptime(text, form):%Y-%m-%d}"
    return None


def _is_comment(line: bytes) -> bool:
    return line[:1] == b"#" or (line[:1] == b"\xef" and line.startswith(_BYTE_ORDER_MARK + b"#"))

"""Splitting bytes into lines, compared with bytes.split."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidemark.importing.comments import Comments
from tidemark.importing.lines import Block, LineSplitter

CONTENT = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc", b"\0", b"\xff\xfe", b"defghijk"])
).map(b"".join)


def split_at(content: bytes, bounds: list[int]) -> list[bytes]:
    at = sorted({end % (len(content) + 1) for end in bounds} | {0, len(content)})
    return [content[a:b] for a, b in itertools.pairwise(at)]


def expected(content: bytes) -> list[bytes]:
    lines = content.rstrip(b"\0").split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.lstrip(b"\0").removesuffix(b"\r") for line in lines]


def split(parts: list[bytes], splitter: LineSplitter) -> list[Block]:
    return [*(splitter.feed(part) for part in parts), splitter.finish()]


@given(CONTENT, st.lists(st.integers(0, 1000)))
def test_any_split_gives_the_lines_of_split(content: bytes, bounds: list[int]) -> None:
    splitter = LineSplitter()
    blocks = split(split_at(content, bounds), splitter)

    assert [line for block in blocks for line in block.lines] == expected(content)
    read = content.rstrip(b"\0")  # What is written next may replace the NUL bytes at the end.
    assert sum(block.size for block in blocks) == splitter.offset == len(read)
    assert splitter.lines == len(expected(content))
    assert splitter.start == len(read) - len(read.lstrip(b"\0"))
    assert splitter.prefix == read.lstrip(b"\0")[: 64 * 1024]
    assert splitter.tail == read[-4096:]


@given(CONTENT, st.lists(st.integers(0, 1000)), st.integers(2, 9))
def test_long_lines_come_in_parts_that_join_again(content: bytes, bounds: list[int], limit: int) -> None:
    splitter = LineSplitter(limit)
    blocks = split(split_at(content, bounds), splitter)

    joined, unfinished = [], b""
    for data, chunk in [part for block in blocks for part in block.parts]:
        number, of = chunk.split("/")
        assert len(data) <= limit
        unfinished += data
        if of != "*":
            assert number == of
            joined.append(unfinished)
            unfinished = b""
    assert unfinished == b""
    assert joined == [line for line in expected(content) if len(line) > limit]
    assert [line for b in blocks for line in b.lines] == [
        line for line in expected(content) if len(line) <= limit
    ]


@given(CONTENT, st.lists(st.integers(0, 1000)), st.lists(st.integers(0, 1000)), st.integers(2, 9))
def test_the_split_makes_no_difference_to_parts(
    content: bytes, one: list[int], other: list[int], limit: int
) -> None:
    def parts(bounds: list[int]) -> list[tuple[bytes, str]]:
        return [
            part for block in split(split_at(content, bounds), LineSplitter(limit)) for part in block.parts
        ]

    assert parts(one) == parts(other)


@given(CONTENT, st.integers(0, 1000), st.lists(st.integers(0, 1000)), st.integers(2, 9))
def test_resuming_at_any_offset_gives_the_same_records(
    content: bytes, at: int, bounds: list[int], limit: int
) -> None:
    first = LineSplitter(limit)
    before = first.feed(content[: at % (len(content) + 1)])

    second = LineSplitter(limit)
    second.offset, second.lines, second.chunk = first.offset, first.lines, first.chunk
    after = split(split_at(content[first.offset :], bounds), second)

    whole = split([content], LineSplitter(limit))
    for kind in ("lines", "parts"):
        assert getattr(before, kind) + [r for b in after for r in getattr(b, kind)] == [
            r for b in whole for r in getattr(b, kind)
        ]


def test_a_last_line_that_gets_its_line_feed_later_is_not_followed_by_an_empty_one() -> None:
    for ending in ([b"\n"], [b"\r\n"], [b"\r", b"\n"]):
        splitter = LineSplitter()
        assert split([b"one\ntwo"], splitter)[1].lines == [b"two"]
        blocks = split([*ending, b"three\n"], splitter)
        assert [line for block in blocks for line in block.lines] == [b"three"]
        assert splitter.lines == 3


COMMENTED = st.lists(
    st.sampled_from([
        b"a", b"#", b"#Fields: c-ip  time", b"#Fields:time date", b"#FIELDS:x", b"#Date: 2026-11-21 10:00",
        b"#date:01-Dec-2026", b"#Date: soon", b"#Remark", b"b#c", b"", b"\xef\xbb\xbf#x",
    ])
).map(b"\n".join)  # fmt: skip


@given(COMMENTED, st.lists(st.integers(0, 1000)), st.booleans())
def test_comments_are_left_out_wherever_the_content_is_split(
    content: bytes, bounds: list[int], resumed: bool
) -> None:
    splitter, comments, result, size = LineSplitter(), Comments(), [], 0
    for data in [*split_at(content, bounds), b""]:
        block = splitter.feed(data) if data else splitter.finish()
        for part in comments.without(block, data):
            result += [(line, part.fields) for line in part.lines]
            size += part.size
        if resumed:
            comments = Comments(comments.fields, comments.count)

    wanted, fields, day, count = [], "", "", 0
    for line in expected(content):
        text = line.removeprefix(b"\xef\xbb\xbf")
        if text.startswith(b"#"):
            count += 1
            fields = " ".join(text[8:].decode().split()) if text.lower().startswith(b"#fields:") else fields
            if b"2026" in text:
                day = " date=2026-11-21" if b"21" in text else " date=2026-12-01"
        else:
            wanted.append((line, fields + day if fields == "c-ip time" else fields))
    assert (result, comments.count, size) == (wanted, count, len(content))
    assert comments.fields == (fields + day).strip()

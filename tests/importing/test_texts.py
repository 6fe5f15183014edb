"""Texts in other encodings, with other line ends, with holes, and with lines that a container runtime has split."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemark.contract.parts import MOST_LINES, join
from tidemark.importing.lines import LineSplitter
from tidemark.importing.text import HOLE_BYTES, PLAIN, Head, Text

Records = tuple[list[bytes], list[tuple[bytes, str]]]
ENCODINGS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
TEXTS = (PLAIN, Text(line_end="\r"), *map(Text, ENCODINGS))
BOUNDS = st.lists(st.integers(0, 10_000), max_size=6)
LINE = '192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "GET /%d HTTP/1.1" 200 512'


def docker(log: str, stream: str = "stdout") -> str:
    return json.dumps({"log": log, "stream": stream, "time": "2026-11-21T10:00:00.1Z"}, separators=(",", ":"))


def cri(tag: str, content: str, stream: str = "stdout") -> str:
    return f"2026-11-21T10:00:00.123456789Z {stream} {tag} {content}"


CHARACTERS = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\r",
        "a",
        "bc",
        "é",
        "\u0a0a",
        "\u0100",
        "\U0001f600",
        "\0",
        "\0" * (HOLE_BYTES + 9),
        "\ufeff",
    ]
)
ENTRIES = st.sampled_from(
    [cri(tag, text, stream) for tag in "PF" for text in ("a", "b P c") for stream in ("stdout", "stderr")]
    + [docker("x" * 16384), docker("y\n"), docker("z" * 16384, "stderr"), docker("w\n", "stderr"), "other"]
)  # fmt: skip


@st.composite
def contents(draw: st.DrawFn) -> tuple[Text, bytes]:
    text = draw(st.sampled_from(TEXTS))
    return text, "".join(draw(st.lists(CHARACTERS, max_size=25))).encode(text.encoding)


@st.composite
def container_logs(draw: st.DrawFn) -> tuple[Text, bytes]:
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(st.lists(ENTRIES, max_size=12))
    return PLAIN, end.join([*lines, *draw(st.sampled_from([[""], []]))]).encode()


def split(parts: Sequence[bytes], text: Text, limit: int, *, resumed: bool = False) -> Records:
    """The records of a content that is fed in parts; with `resumed`, an import ends behind each of them."""
    splitter, content = LineSplitter(limit, text), b"".join(parts)
    lines, long, read = [], [], 0
    for part in parts:
        read += len(part)
        block = splitter.feed(part)
        lines, long = lines + block.lines, long + block.parts
        if resumed:
            last, splitter = splitter, LineSplitter(limit, text)
            for name in ("offset", "lines", "chunk", "unended", "start", "prefix", "tail"):
                setattr(splitter, name, getattr(last, name))
            block = splitter.feed(content[last.offset : read])
            assert (block.lines, block.parts) == ([], []), "a record that was returned comes again"
    block = splitter.finish()
    assert splitter.lines == len(lines + block.lines) + sum(
        "*" not in number for _, number in long + block.parts
    )
    return lines + block.lines, long + block.parts


@settings(max_examples=400, deadline=None)
@given(st.one_of(contents(), container_logs()), BOUNDS, st.sampled_from([5, 40, 100, 50_000]), st.booleans())
@example((PLAIN, b"a" + bytes(600) + b"b\n"), [1, 300, 601], 40, True)
@example((Text("utf-16-be"), "a\nb".encode("utf-16-be")), [1, 2, 3, 4, 5], 40, True)
def test_records_depend_neither_on_the_blocks_nor_on_the_ends_of_imports(
    content: tuple[Text, bytes], bounds: list[int], limit: int, resumed: bool
) -> None:
    text, data = content
    at = sorted({place % (len(data) + 1) for place in bounds} | {0, len(data)})
    parts = [data[begin:end] for begin, end in itertools.pairwise(at)]
    assert split(parts, text, limit, resumed=resumed) == split([data], text, limit)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_text_in_utf16_and_utf32_is_read_as_utf8(encoding: str, mark: str) -> None:
    lines = [LINE % 1, "é \u0a0a\u0100 \U0001f600", "", LINE % 2]
    data = (mark + "\r\n".join(lines) + "\n").encode(encoding)
    if not mark and "32" in encoding:
        return  # UTF-32 needs its mark.
    head = Head(len(data) - len(data.lstrip(b"\0")), data.lstrip(b"\0"))
    assert head.text == Text(encoding) and not head.binary and head.has_line
    assert split([data], head.text, 10_000) == ([line.encode() for line in lines], [])


def test_carriage_returns_end_lines_where_there_is_no_line_feed_in_the_head() -> None:
    assert Head(0, b"a\rb\r").text == Text(line_end="\r")
    for data in (b"a\r", b"a\r\nb\rc", b"a\rb\n", b""):
        assert Head(0, data).text == PLAIN
    # Line feeds that come later end lines, too.
    assert split([b"a\rb\r\rc\r\nd\n"], Text(line_end="\r"), 100)[0] == [b"a", b"b", b"", b"c", b"d"]


@pytest.mark.parametrize("text", [PLAIN, *map(Text, ENCODINGS)])
def test_holes_end_a_line_and_are_counted(text: Text) -> None:
    def encoded(line: str) -> bytes:
        return line.encode(text.encoding)

    hole = bytes(2_000_000)  # In the middle of a line, as a crash leaves it, and at the end of the file.
    splitter = LineSplitter(1000, text)
    lines = (
        splitter.feed(hole + encoded("one\ntw") + hole).lines + splitter.feed(encoded("three\n") + hole).lines
    )
    assert lines == [b"one", b"tw", b"three"]
    assert abs(splitter.nuls - 2 * len(hole)) < 4  # NUL bytes of the characters beside them
    assert splitter.feed(encoded("four\n")).lines == [b"four"]


def test_few_nul_bytes_within_a_line_are_content() -> None:
    handshake = b'192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] "\x16\x03\x01' + bytes(200) + b'" 400 157'
    assert split([handshake + b"\n"], PLAIN, 1000)[0] == [handshake]


def test_a_mark_is_left_out() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"\xef\xbb").lines == []
    assert splitter.feed(b"\xbfone\n\xef\xbb\xbftwo\n").lines == [b"one", b"\xef\xbb\xbftwo"]
    assert splitter.offset == 14


@pytest.mark.parametrize(
    "data",
    [
        b"192.0.2.7 - - [21/Nov/2026:10:00:00 +0000] \"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03" + bytes(range(256)) * 2,
        "ÿ Grüße von einem Server".encode("latin-1") * 9,
        "Лог на русском языке\n".encode("cp1251") * 9,
        b"\x1b[32mINFO\x1b[0m started\n\x1b[31mx\x1b[0m\n",
        b"MZ is how this line begins\n",
        b"a\0b\n",
        b"an IIS log\r\n" + bytes(65_000),
        b"",
    ],
)  # fmt: skip
def test_lines_with_odd_bytes_are_text(data: bytes) -> None:
    assert Head(0, data).binary == ""


def joined(*lines: str, most: int = 100_000) -> list[str]:
    return [line.decode() for line in join([line.encode() for line in lines], most, "leave").lines]


def test_parts_of_a_line_become_one_line_in_its_envelope() -> None:
    long, rest = "é" * 8192, '\\"/\n'
    assert joined(docker(long), docker(long), docker("b\n", "stderr"), docker(rest), "x") == [
        docker(long + long + rest), docker("b\n", "stderr"), "x",
    ]  # fmt: skip
    assert joined(cri("P", "a "), cri("P", "b", "stderr"), cri("P", ""), cri("F", "c"), cri("F", "d", "stderr")) == [
        cri("F", "a c"), cri("F", "bd", "stderr"),
    ]  # fmt: skip
    # A byte that was no UTF-8 became U+FFFD.
    assert joined(docker("\ufffd" + "a" * 16383), docker("b\n")) == [docker("\ufffd" + "a" * 16383 + "b\n")]


def test_lines_that_only_resemble_parts_stay_as_they_are() -> None:
    lines = (
        docker("a" * 16385), docker("b"), docker("c" * 16384 + "\n"), docker("d" * 16383), docker("e\n"),
        json.dumps({"log": "f" * 16384}), json.dumps({"log": "g\n"}), f'{LINE} stdout P ', cri("F", "h"), cri("X", "i"),
    )  # fmt: skip
    assert joined(*lines) == list(lines)


def test_parts_without_a_rest_wait_or_are_complete_or_stay() -> None:
    first, second, other = cri("P", "a").encode(), cri("P", "b").encode(), cri("F", "c", "stderr").encode()
    lines = [b"x", first, other, second]
    waiting = join(lines, 1000, "wait")
    assert (waiting.lines, waiting.numbers, waiting.waiting) == ([b"x"], [0], 3)
    assert join(lines, 1000, "leave").lines == [b"x", first, second, other]
    assert join(lines, 1000, "complete").lines == [b"x", cri("F", "ab").encode(), other]
    part = docker("a" * 16384).encode()
    assert join([part], 100_000, "complete").lines == [docker("a" * 16384 + "\n").encode()]


def test_parts_are_joined_within_limits_of_bytes_and_lines() -> None:
    first, last = cri("P", "a"), cri("F", "b")
    assert len(joined(first, *["x"] * (MOST_LINES - 1), last)) == MOST_LINES
    assert len(joined(first, *["x"] * MOST_LINES, last)) == MOST_LINES + 2
    assert joined(first, last, most=len(first + last) + 2) == [cri("F", "ab")]
    assert joined(first, last, most=len(first + last) + 1) == [first, last]


def test_parts_of_different_senders_are_of_different_lines() -> None:
    lines = [cri("P", "a").encode(), cri("P", "b").encode(), cri("F", "c").encode(), cri("F", "d").encode()]
    result = join(lines, 1000, "leave", senders=["one", "two", "one", "two"])
    assert (result.lines, result.numbers) == ([cri("F", "ac").encode(), cri("F", "bd").encode()], [0, 1])


def test_lines_that_wait_for_a_part_are_released_where_a_stream_is_stopped() -> None:
    splitter = LineSplitter()
    lines = [cri("P", "a"), cri("F", "b", "stderr")]
    assert splitter.feed(("\n".join(lines) + "\nunfinished").encode()).lines == []
    assert splitter.release().lines == [line.encode() for line in lines]
    assert splitter.unfinished and splitter.pending == len("unfinished")
    assert splitter.release().lines == []


def test_a_last_part_that_no_runtime_splits_is_a_whole_line() -> None:
    head = b"2026-11-21T10:00:00.1Z stdout "
    whole, part = head + b"P GET /a\n", head + b"P " + b"a" * 8_192 + b"\n"
    splitter = LineSplitter()
    assert splitter.feed(whole).lines == []
    assert splitter.finish_whole().lines == [head + b"F GET /a"]
    assert (splitter.pending, splitter.offset, splitter.lines) == (0, len(whole), 1)
    assert splitter.feed(head + b"F GET /b\n").lines == [head + b"F GET /b"]
    for waiting in (part, part + whole, b"no line feed"):
        splitter = LineSplitter()
        assert splitter.feed(waiting).lines == splitter.finish_whole().lines == []
        assert splitter.pending == len(waiting)

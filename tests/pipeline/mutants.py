"""Damaged lines: realistic ones with changes in their structure, and raw bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tidemark.parse.formats import FORMATS
from tidemark.traffic.lines import APACHE, lines_of
from tidemark.traffic.stream import Traffic, blocks

Mutation = Callable[[bytes, random.Random], bytes]
_SEPARATORS = (
    b" ",
    b'"',
    b"[",
    b"]",
    b"\\",
    b'\\"',
    b"\\\\",
    b"-",
    b"/",
    b"?",
    b":",
    b"+",
    b"\t",
    b"  ",
    b"%",
    b"'",
)
_ODD_TIMES = (
    b"30/Feb/2026:10:00:00 +0000", b"31/Dec/2026:23:59:60 +0000", b"01/Jan/0000:00:00:00 +0000",
    b"31/Dec/9999:23:59:59 -1200", b"31/Dec/1969:23:59:59 +0000", b"29/Feb/2024:00:00:00 +1400",
    b"21/may/2026:10:00:00 +0000", b"21/May/2026:10:00:00", b"21/May/2026 10:00:00 +0000", b"-", b"",
    b"21/May/2026:24:00:00 +0000", b"21/May/2026:10:00:00 +9999", b"99/Foo/2026:99:99:99 +0000",
    "٢١/May/2026:10:00:00 +0000".encode(),
)  # fmt: skip
_ODD_NUMBERS = (
    b"-", b"0", b"-1", b"00", b"99", b"600", b"999", b"2147483648", b"9223372036854775808", b"1e3", b"0x1f",
    b"NaN", "٣٠٤".encode(), b"1" * 40, b"200.0", b"+200", b"",
)  # fmt: skip
_ODD_HOSTS = (
    b"::1", b"fe80::1%eth0", b"2001:db8::", b"::ffff:1.2.3.4", b"1.2.3", b"256.1.1.1", b"01.02.03.04", b"localhost",
    b"1.2.3.4:80", b"[::1]", b"[::1]:443", b"unknown", b"1.2.3.4, 5.6.7.8", b"", "exämple.org".encode(),
)  # fmt: skip
_ODD_TEXT = (
    b"\x00", b"\x01", b"\x1b[31m", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf",
    "\u202e".encode(), "\ufeff".encode(), "\U0001f600".encode(), "e\u0301".encode(), b"\r", b"\n", b"\\x00", b"\\x",
    b"\\u0000", b"%00", b"%zz", b"=1+1", b"<script>", b"' OR 1=1 --", b"{{7*7}}", b"NULL",
)  # fmt: skip


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """`count` lines: a tenth as they were, a tenth raw bytes, all others changed in one to four places."""
    chance = random.Random(seed)
    stock = _stock(seed)
    for _ in range(count):
        line = chance.choice(stock)
        kind = chance.random()
        if kind < 0.1:
            line = chance.randbytes(chance.choice((0, 1, 3, 20, 150, 400)))
        elif kind < 0.9:
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                line = chance.choice(_MUTATIONS)(line, chance)
        if chance.random() < 0.0002:
            line += chance.choice((b"a", b"\\", b'"', b" ", b"\xff")) * chance.choice(
                (9_000, 70_000, 300_000)
            )
        yield line


def _stock(seed: int) -> Sequence[bytes]:
    traffic = Traffic(start=1_780_000_200, rate=20, seconds=150, seed=seed, visitors=200, malformed=0.05)
    generated_blocks = list(blocks(traffic))
    lines = [line for block in generated_blocks for line in block.lines if len(line) < 10_000]
    hits = [(second, hit) for block in generated_blocks for second, hit, _ in block.outcomes]
    for name in FORMATS:
        share = 1 if name in APACHE else 10
        lines += lines_of(name, hits[::share])
    return lines


def _flip(line: bytes, chance: random.Random) -> bytes:
    if not line:
        return line
    at = chance.randrange(len(line))
    return line[:at] + bytes([line[at] ^ (1 << chance.randrange(8))]) + line[at + 1 :]


def _insert(line: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(line))
    return line[:at] + chance.choice(_SEPARATORS + _ODD_TEXT) + line[at:]


def _without_part(line: bytes, chance: random.Random) -> bytes:
    start = chance.randint(0, len(line))
    return line[:start] + line[chance.randint(start, min(len(line), start + 30)) :]


def _end(line: bytes, chance: random.Random) -> bytes:
    return line[: chance.randint(0, len(line))]


def _swap_words(line: bytes, chance: random.Random) -> bytes:
    words = line.split(b" ")
    one, other = chance.randrange(len(words)), chance.randrange(len(words))
    words[one], words[other] = words[other], words[one]
    return b" ".join(words)


def _double(line: bytes, chance: random.Random) -> bytes:
    parts = line.split(chance.choice((b" ", b'"')))
    at = chance.randrange(len(parts))
    return b'"'.join([*parts[:at], parts[at], *parts[at:]]) if chance.random() < 0.3 else line + b" " + line


def _odd_time(line: bytes, chance: random.Random) -> bytes:
    head, _, tail = line.partition(b"[")
    return head + b"[" + chance.choice(_ODD_TIMES) + b"]" + tail.partition(b"]")[2]


def _odd_number(line: bytes, chance: random.Random) -> bytes:
    words = line.split(b" ")
    numbers = [place for place, word in enumerate(words) if word.isdigit()]
    if numbers:
        words[chance.choice(numbers)] = chance.choice(_ODD_NUMBERS)
    return b" ".join(words)


def _odd_host(line: bytes, chance: random.Random) -> bytes:
    return chance.choice(_ODD_HOSTS) + b" " + line.partition(b" ")[2]


def _odd_field(line: bytes, chance: random.Random) -> bytes:
    parts = line.split(b'"')
    at = chance.randrange(len(parts))
    text = chance.choice(_ODD_TEXT)
    parts[at] = chance.choice((text, b"", parts[at] + text, text * 300, b" " + parts[at] + b" "))
    return b'"'.join(parts)


_MUTATIONS: tuple[Mutation, ...] = (
    _flip, _insert, _without_part, _end, _swap_words, _double, _odd_time, _odd_number, _odd_host, _odd_field,
    _odd_field,
)  # fmt: skip

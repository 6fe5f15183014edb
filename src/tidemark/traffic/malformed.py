"""Lines that must be rejected: each kind damages a good line in one way, for one reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tidemark.traffic.lines import MONTHS
from tidemark.traffic.visitors import weighted_table

# No server writes lines over 64 KiB. Most are just above, some far above.
_TOO_LONG = (70_000, 70_000, 100_000, 200_000, 300_000, 5_000_000)
_TABLE = 8192
_NO_TIMES = (
    b"30/Feb/%d:10:11:12 +0000",
    b"31/Apr/%d:01:02:03 +0000",
    b"32/Jan/%d:10:00:00 +0000",
    b"00/May/%d:10:00:00 +0000",
    b"12/May/%d:25:00:00 +0000",
    b"12/May/%d:10:61:00 +0000",
)


@dataclass(frozen=True)
class Kind:
    """`reason` is the rule that rejects such a line: of all that do, the first in the order
    empty, too_long, malformed, then the rules on fields."""

    name: str
    reason: str
    weight: float
    spoil: Callable[[bytes, Random], bytes]


def _garbage(_line: bytes, random: Random) -> bytes:
    words = (
        b"lorem",
        b"%%%",
        b"{}",
        b"ERROR",
        b"0x7f",
        b"segfault",
        b"at",
        b"null",
        b"[notice]",
        b'"',
        b"<html>",
    )
    return b" ".join(random.choices(words, k=random.randint(1, 12)))


def _binary(_line: bytes, random: Random) -> bytes:
    # 0xff is never valid in UTF-8. No line ends, because they would split the line in a file.
    raw = b"\xff" + random.randbytes(random.randint(8, 200))
    return raw.translate(None, b"\r\n") + b"\xfe"


def _truncated(line: bytes, random: Random) -> bytes:
    # Cut before the status, so that no log format accepts the rest as a line.
    return line[: random.randint(4, line.index(b'"') + 4)].rstrip()


def _empty(_line: bytes, _random: Random) -> bytes:
    return b""


def _too_long(line: bytes, random: Random) -> bytes:
    head, method, rest = line.partition(b'] "')
    verb, _, tail = rest.partition(b" ")
    return head + method + verb + b" /" + b"A" * random.choice(_TOO_LONG) + tail


def _with_time(line: bytes, time: bytes) -> bytes:
    start, end = line.index(b" [") + 2, line.index(b'] "')
    return line[:start] + time + line[end:]


def _impossible_time(line: bytes, random: Random) -> bytes:
    year = random.randint(2015, 2026)
    return _with_time(line, random.choice(_NO_TIMES) % year)


def _future_time(line: bytes, random: Random) -> bytes:
    # So far ahead that it is in the future whenever the line is read.
    day, year = random.randint(1, 28), random.randint(2150, 2250)
    return _with_time(line, f"{day:02}/{random.choice(MONTHS)}/{year}:10:11:12 +0000".encode())


def _numbers(line: bytes) -> tuple[int, int, int]:
    """Positions of the start and end of the status, and of the end of the size."""
    request = line.index(b'] "') + 3
    status = line.index(b'" ', request) + 2
    end = line.index(b" ", status)
    size_end = line.find(b" ", end + 1)
    return status, end, size_end if size_end > 0 else len(line)


def _bad_status(line: bytes, random: Random) -> bytes:
    status, end, _ = _numbers(line)
    return line[:status] + random.choice((b"042", b"99", b"+200", b"0200")) + line[end:]


KINDS = (
    Kind("garbage", "malformed", 10, _garbage),
    Kind("binary", "malformed", 10, _binary),
    Kind("truncated", "malformed", 20, _truncated),
    Kind("empty", "empty", 8, _empty),
    Kind("too long", "too_long", 0.2, _too_long),
    Kind("impossible time", "invalid_time", 12, _impossible_time),
    Kind("future time", "future_time", 8, _future_time),
    Kind("bad status", "invalid_status", 10, _bad_status),
)
# The others find their place in a line by the shape of Apache's formats.
ANY_FORMAT = tuple(kind for kind in KINDS if kind.name in ("garbage", "binary", "empty"))


class Spoiler:
    """Turns good lines into malformed ones of a random kind."""

    def __init__(self, random: Random, kinds: Sequence[Kind] = KINDS) -> None:
        self._random = random
        self._kinds = weighted_table(((kind, kind.weight) for kind in kinds), _TABLE)

    def spoil(self, line: bytes) -> tuple[bytes, str]:
        """A malformed line and the expected reason; `line` is a good one without its line end."""
        kind = self._kinds[int(self._random.random() * _TABLE)]
        return kind.spoil(line, self._random), kind.reason

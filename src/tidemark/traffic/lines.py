"""Formats hits as log lines of any format; times in UTC.

Lines of Apache's own formats consist of constant parts, for speed; those of others by the formats' declarations, which
are imported only for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from tidemark.traffic.robots import Hit
from tidemark.traffic.site import HOST

if TYPE_CHECKING:
    from tidemark.parse.format import Format

_HOST = f"{HOST}:443 ".encode()
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Formatter = Callable[[Sequence[Hit], int], list[bytes]]


def common(hits: Sequence[Hit], second: int) -> list[bytes]:
    """Lines of one epoch second without line ends, as address, user, time, request, status, size."""
    stamp, join = _stamp(second), b"".join
    return [join((visitor.head, stamp, request.text)) for visitor, request, _ in hits]


def combined(hits: Sequence[Hit], second: int) -> list[bytes]:
    """The common format, then referrer and user agent."""
    stamp, join = _stamp(second), b"".join
    return [
        join((visitor.head, stamp, request.text, b' "', referrer, visitor.tail))
        for visitor, request, referrer in hits
    ]


def vhost_combined(hits: Sequence[Hit], second: int) -> list[bytes]:
    """The combined format after the virtual host and its port."""
    return [_HOST + line for line in combined(hits, second)]


def with_request_time(form: Formatter) -> Formatter:
    """The formatter with the request time in seconds after the last field, as nginx's `$request_time`."""

    def timed(hits: Sequence[Hit], second: int) -> list[bytes]:
        return [b"%b %b" % (line, hit[1].seconds) for line, hit in zip(form(hits, second), hits, strict=True)]

    return timed


APACHE: dict[str, Formatter] = {"combined": combined, "common": common, "vhost_combined": vhost_combined}


@dataclass(frozen=True)
class LineFormat:
    """How hits are logged: `lines` of one epoch second; whether these have user agents, and by themselves durations;
    whether their sender must name the format, and the names of the columns that it must send."""

    lines: Formatter
    agents: bool
    timed: bool
    named: bool = False
    column_names: str = ""


@cache
def line_format(name: str) -> LineFormat:
    """How hits are logged in the format of one of the names of `tidemark.parse.formats`."""
    if name in APACHE:
        return LineFormat(APACHE[name], agents=name != "common", timed=False)
    from tidemark.parse.declared import format_of

    return logged_by(format_of(name))


def logged_by(format: Format) -> LineFormat:
    """How hits are logged by a format's declaration."""
    from tidemark.traffic.columns import COLUMNS

    write, columns = written(format), format.template(COLUMNS).columns
    return LineFormat(
        lambda hits, second: write(hits, [second] * len(hits)),
        agents="user_agent" in columns,
        timed="duration_us" in columns,
        named=not format.detected,
        column_names=format.column_names,
    )


def written(format: Format) -> Callable[[Sequence[Hit], Sequence[int]], list[bytes]]:
    """A function that formats hits of these epoch seconds by a format's declaration."""
    import pyarrow as pa

    from tidemark.traffic.columns import COLUMNS, columns_of

    template = format.template(COLUMNS)

    def lines(hits: Sequence[Hit], seconds: Sequence[int]) -> list[bytes]:
        if not hits:
            return []
        result: list[bytes] = template.lines(columns_of(hits, seconds)).cast(pa.binary()).to_pylist()
        return result

    return lines


def lines_of(name: str, hits: Sequence[tuple[int, Hit]]) -> list[bytes]:
    """Lines of a format, of hits with their epoch seconds."""
    if name in APACHE:
        return [line for second, hit in hits for line in APACHE[name]([hit], second)]
    from tidemark.parse.declared import format_of

    return written(format_of(name))([hit for _, hit in hits], [second for second, _ in hits])


def _stamp(second: int) -> bytes:
    at = datetime.fromtimestamp(second, UTC)
    # Not with strftime, whose month names depend on the locale.
    return f'{at.day:02}/{MONTHS[at.month - 1]}/{at:%Y:%H:%M:%S} +0000] "'.encode()

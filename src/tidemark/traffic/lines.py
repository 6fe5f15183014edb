"""Formats hits as log lines: Apache's common, combined, and combined with virtual host; times in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tidemark.traffic.behaviour import Hit
from tidemark.traffic.site import HOST

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HOST = f"{HOST}:443 ".encode()

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


FORMATS: dict[str, Formatter] = {"combined": combined, "common": common, "vhost_combined": vhost_combined}


def _stamp(second: int) -> bytes:
    at = datetime.fromtimestamp(second, UTC)
    # Not with strftime, whose month names depend on the locale.
    return f'{at.day:02}/{_MONTHS[at.month - 1]}/{at:%Y:%H:%M:%S} +0000] "'.encode()

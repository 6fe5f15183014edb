"""Faults of the server: responses that fail, and times without a line."""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.traffic.robots import Hit

Span = tuple[int, int]
"""Seconds after the first line at which a fault begins, and how many it takes."""


def unavailable(hit: Hit) -> Hit:
    """The same request, answered with 503; unchanged if it is not HTTP."""
    visitor, request, referrer = hit
    if request.path is None:
        return hit
    request_text, _, _ = request.text.rpartition(b'" ')
    failed = request._replace(text=request_text + b'" 503 194', page=False, status=503, seconds=b"0.001")
    return visitor, failed, referrer


def within(second: int, spans: Iterable[Span]) -> bool:
    """Whether a second after the first line is in one of these spans."""
    return any(after <= second < after + seconds for after, seconds in spans)

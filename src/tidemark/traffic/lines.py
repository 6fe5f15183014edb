"""Formats hits as log lines of any format; times in UTC. Apache's own ones are made of constant parts, for speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidemark.traffic import shapes
from tidemark.traffic.robots import Hit
from tidemark.traffic.site import HOST

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


def with_request_time(form: Formatter) -> Formatter:
    """The formatter with the request time in seconds behind the last field, as nginx's `$request_time`."""

    def timed(hits: Sequence[Hit], second: int) -> list[bytes]:
        return [b"%b %b" % (line, hit[1].seconds) for line, hit in zip(form(hits, second), hits, strict=True)]

    return timed


APACHE: dict[str, Formatter] = {"combined": combined, "common": common, "vhost_combined": vhost_combined}
FORMATS: dict[str, Formatter] = {
    **APACHE,
    **{name: shapes.text(template) for name, template in shapes.TEMPLATES.items()},
    "caddy_console": shapes.console,
    **{name: shapes.objects(shape) for name, shape in shapes.SHAPES.items()},
}


def _stamp(second: int) -> bytes:
    return f'{shapes.Moment(second).forms["clf"]}] "'.encode()

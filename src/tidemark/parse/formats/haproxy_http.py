"""HAProxy's HTTP log."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import extracted
from tidemark.parse.layout import Layout
from tidemark.parse.trailing import ONE_ADDRESS
from tidemark.parse.values import without_port
from tidemark.parse.writing import Composed

_HOST = r"^(?P<host>(?:[A-Za-z0-9_-]+\.)+[A-Za-z][A-Za-z0-9-]*)(?::\d+)?(?:[|}].*)?$"
# HAProxy captures headers without their names, so others are recognised by their values.
_AGENT = (
    r"(?:^|[|{])(?P<value>[^|{}]*(?:Mozilla/\d|Opera/\d|curl/\d|Wget/\d|python-|(?i:bot|spider|crawler))[^|{}]*)"
    r"(?:[|}]|$)"
)
_FORWARDED = rf"(?:^|[|{{])(?P<value>{ONE_ADDRESS}(?:, ?{ONE_ADDRESS})*)(?:[|}}]|$)"
_REFERRER = r"(?:^|[|{])(?P<value>https?://[^|{}]*)(?:[|}]|$)"


def captured_host(headers: pa.Array) -> pa.Array:
    """The header Host among captured ones, if it is the first; NULL otherwise."""
    return extracted(headers, _HOST, "host")


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    captured = texts.get("headers", pa.nulls(len(texts["client_ip"]), pa.string()))
    agent, forwarded, referrer = (extracted(captured, pattern) for pattern in (_AGENT, _FORWARDED, _REFERRER))
    return texts | {
        "client_ip": without_port(texts["client_ip"]),
        # Where the log was written before the end of the request, both have a plus.
        "bytes": pc.replace_substring_regex(texts["bytes"], r"^\+", ""),
        # The last time is that of the whole request.
        "duration_ms": extracted(texts["durations"], r"/\+?(?P<all>\d+)$", "all"),
        "host": captured_host(captured),
        "user_agent": agent,
        "forwarded": forwarded,
        "referrer": referrer,
    }


FORMAT = Layout(
    name="haproxy_http",
    about="HAProxy's `option httplog` and `httpslog`. Their times have no zone.",
    docs="https://docs.haproxy.org/3.0/configuration.html#8.2.3",
    examples=(
        "203.0.113.7:41342 [21/Nov/2026:10:00:00.123] web~ shop/web1 10/0/30/69/109 200 512 - - ---- 1/1/1/1/0 0/0"
        ' {www.example.org} {} "GET /docs/?page=2 HTTP/1.1"',
        "203.0.113.7:41342 [21/Nov/2026:10:00:00.123] web shop/web1 10/0/30/69/109 200 512 - - ---- 1/1/1/1/0 0/0"
        ' "GET /docs/?page=2 HTTP/1.1"',
    ),
    pattern=r"^(?:[0-9A-Fa-f.:]+|-|unix):\d+ \[\d\d/[A-Z][a-z]{2}/\d{4}:[^\]]*\] [^ ]+ [^ ]+ [0-9+/-]+ ",
    layouts=tuple(
        "$client_ip [$time] $_frontend $_server $durations $status $bytes $_cookie $_cookies $_state $_connections"
        f" $_queues {request}"
        for request in (
            '{$headers} "$request"$_rest',
            '"$request"$_rest',
            # With version and cipher of TLS.
            '{$headers} $_version $_cipher "$request"$_rest',
            '$_version $_cipher "$request"$_rest',
            # Syslog has cut the request.
            '{$headers} "$request',
            '"$request',
        )
    ),
    refine=_refined,
    compose={
        "client_ip": Composed(("client_ip",), lambda texts: texts["client_port"]),
        "durations": Composed(
            ("duration_us",),
            lambda texts: pc.binary_join_element_wise(
                "0/0/0", texts["duration_ms"], texts["duration_ms"], "/"
            ),
        ),
        "headers": Composed(("host",), lambda texts: texts["host"]),
    },
)

"""Heroku's router."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import extracted, flags_of
from tidemark.parse.layout import Layout
from tidemark.parse.text import Lines
from tidemark.parse.values import Read

_KEYS = (
    'method=$method path="$target" host=$host request_id=$_id fwd="$client_ip" dyno=$_dyno connect=$_connect'
    " service=$duration_ms status=$status bytes=$bytes protocol=$_protocol"
)
_FAILED = 'at=$_level code=$_code desc="$_description" '
_ROUTER = r" heroku(?:\[router\]:| router -(?: -)?) "
# Syslog may have the number of the message's bytes in front, and the time a blank in it.
_TIME = rf"^(?:\d+ )?(?:<\d+>\d )?(?P<value>\d{{4}}-\d\d-\d\d[T ][0-9:.]+(?:Z|[+-]\d\d:?\d\d))(?: [^ :]+)?{_ROUTER}"


@dataclass(frozen=True)
class Router(Layout):
    """Lines with other keys than the layouts, or in another order, are read by their keys."""

    def read(self, lines: Lines) -> Read:
        result = super().read(lines)
        timed = flags_of(pc.is_valid(result.columns["event_time"]))
        rows = np.flatnonzero(lines.sound & ~(result.sound & timed))
        if not len(rows):
            return result
        usual = _usual(lines.take(rows).text)
        by_keys = super().read(Lines.of(pc.fill_null(usual, ""), flags_of(pc.is_valid(usual))))
        return result.replaced(rows, by_keys)


def _usual(text: pa.Array) -> pa.Array:
    """The same lines with the keys of the first layout; NULL without a time, a path or a status."""

    def value(pattern: str) -> pa.Array:
        return extracted(text, pattern)

    def of_key(key: str) -> pa.Array:
        return pc.utf8_trim(value(rf'^(?:[^"]|"[^"]*")*? {key}=(?P<value>"[^"]*"|[^ "]*)(?: |$)'), '"')

    time = pc.replace_substring(value(_TIME), " ", "T")
    method, host, client, duration, size = (
        pc.fill_null(of_key(key), "-") for key in ("method", "host", "fwd", "service", "bytes")
    )
    request = pc.binary_join_element_wise("method=", method, ' path="', of_key("path"), '" host=', host, "")
    answer = pc.binary_join_element_wise(duration, " status=", of_key("status"), " bytes=", size, "")
    return pc.binary_join_element_wise(
        time, " heroku[router]: at=info ", request, ' request_id=- fwd="', client,
        '" dyno=- connect=- service=', answer, " protocol=-", "",
    )  # fmt: skip


FORMAT = Router(
    name="heroku",
    about="Heroku's router, as `heroku logs` and drains of syslog write it.",
    docs="https://devcenter.heroku.com/articles/http-routing#heroku-router-log-format",
    examples=(
        '2026-11-21T10:00:00.000000+00:00 heroku[router]: at=info method=GET path="/docs/?page=2" host=www.example.org'
        ' request_id=8601b555-6a83-4c12-8269-97c8e32cdb22 fwd="203.0.113.7" dyno=web.1 connect=1ms service=18ms'
        " status=200 bytes=512 protocol=https",
        "<158>1 2026-11-21T10:00:00.000000+00:00 host heroku router - at=error code=H18"
        ' desc="Server Request Interrupted" method=GET path="/docs/?page=2" host=www.example.org'
        ' request_id=8601b555-6a83-4c12-8269-97c8e32cdb22 fwd="203.0.113.7" dyno=web.1 connect=1ms service=18ms'
        " status=200 bytes=512 protocol=http1.1 tls=true",
    ),
    pattern=_ROUTER + "(?:[a-z]+=[^ ]+ )*?at=[a-z]+ ",
    layouts=tuple(
        head + keys + _KEYS
        for head in ("$time heroku[router]: ", "$_priority $time $_server heroku router - ")
        for keys in ("at=info ", _FAILED)
    ),
)

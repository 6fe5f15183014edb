"""Fields behind the last one of a combined or common line.

Servers are often configured to add some. These are read: a duration, which is the first number with its unit (morgan's
`:response-time ms`) or with decimals (nginx's `$request_time`, in seconds), or the only whole number (Apache's `%D`, in
microseconds); a host; and the header X-Forwarded-For, which is the first field in quotes, or another one with public
addresses.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import extracted, flags_of, matches, where
from tidemark.parse.durations import UNITS, microseconds, with_unit

# The fields in question follow nothing, or one of these names.
_OF_DURATION = r"(?:^| )(?:(?:rt|request_time|req_time|duration|latencySeconds)[=:])?(?P<value>%s)(?: |$)"
# A text in quotes with two decimals is nginx's `$gzip_ratio`, and one of ten digits a time.
_DECIMAL = r'\d{1,8}\.\d+|"\d{1,8}\.(?:\d|\d{3,})s?"'
_SECONDS = _OF_DURATION % _DECIMAL
# Behind a blank, `msec` is rather a name.
_WITH_UNIT = _OF_DURATION % rf"\d+(?:\.\d+)?(?:{UNITS}| [nuµμm]?s)|{_DECIMAL}"
# cPanel writes one of its ports last, behind a letter and the header X-Forwarded-For.
_CPANEL = r'^ *"[a-z-]" "[^"]*" 20[789]\d$'
_HOST = (
    r'(?:^| )(?:(?:host|http_host|server_name|vhost)[=:])?"?'
    r'(?P<value>(?:[\w-]+\.)+[A-Za-z][A-Za-z0-9-]+)(?::\d+)?"?(?: |$)'
)
# The first field in quotes, and what it is: a list of addresses, or the header Forwarded of RFC 7239.
_FIRST_QUOTED = r'^ (?:[\w.-]+[=:])?"(?P<value>[^"]*)"'
_ADDRESSES = r"^(?:unknown|[0-9A-Fa-f:., \[\]\\])*$"
_RFC_7239 = "^(?i:for|by|host|proto)="
# The same elsewhere. The addresses of upstreams have a port, and those of the server are mostly private.
ONE_ADDRESS = (
    r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f:]*::[0-9A-Fa-f:.]*|(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4})"
)
_ELSEWHERE = (
    rf'(?:^| )(?:[\w-]*(?:forwarded|xff|client|real)[\w-]*[=:])?"(?P<value>{ONE_ADDRESS}(?:, ?{ONE_ADDRESS})*)"(?: |$)',
    rf'^[^"]*? (?P<value>{ONE_ADDRESS}(?:, ?{ONE_ADDRESS})*)(?: |$)',
)
# Times in seconds since 1970 have ten digits. One behind the line is at most a day from the line's time.
_LEAST_TIME, _NEAR = 10**9, 86_400
PRIVATE = r"^(?:10\.|127\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|::1$|f[cd])"


def fields(tail: pa.Array, quoted: pa.Array) -> dict[str, pa.Array]:
    """Duration, host and addresses of proxies in the fields after the last one of the format; `quoted` are those from
    the first quote on."""
    numbers = pc.replace_substring(pc.replace_substring_regex(tail, r'"[^"]*"', '"'), " ", "  ")
    numbers = pc.binary_join_element_wise(" ", numbers, " ", "")
    single = flags_of(pc.equal(pc.count_substring_regex(numbers, r" \d+ "), 1))
    single &= ~matches(where(single, tail, None), _CPANEL)
    whole = extracted(where(single, numbers, None), r" (?P<value>\d+) ")
    lettered = pc.any(pc.match_substring(tail, "s")).as_py()  # each unit has this letter
    first = pc.ascii_trim(extracted(tail, _WITH_UNIT if lettered else _SECONDS), '"')
    duration = microseconds(first, 6)
    united = where(flags_of(pc.is_null(duration)), first, None)
    if united.null_count < len(united):
        duration = pc.coalesce(duration, with_unit(united))
    duration = pc.coalesce(duration, microseconds(whole, 0))
    forwarded = extracted(quoted, _FIRST_QUOTED)
    listed = matches(forwarded, _ADDRESSES)
    listed &= matches(forwarded, "[:.]")
    forwarded = where(listed | matches(forwarded, _RFC_7239), forwarded, None)
    # Behind a dash in quotes the header was not sent.
    open_ = flags_of(pc.is_null(forwarded)) & ~flags_of(pc.starts_with(quoted, ' "-"'))
    if open_.any():
        elsewhere = pc.coalesce(*(extracted(where(open_, tail, None), pattern) for pattern in _ELSEWHERE))
        public = open_ & ~matches(elsewhere, PRIVATE)
        forwarded = where(~public, forwarded, elsewhere)
    return {"duration_us": duration, "host": extracted(tail, _HOST), "forwarded": forwarded}


def without_times(duration: pa.Array, time: pa.Array) -> pa.Array:
    """Durations in microseconds without the whole numbers that are the line's own time, in seconds, milliseconds or
    microseconds since 1970."""
    if (pc.max(duration).as_py() or 0) < _LEAST_TIME:
        return duration
    number = pc.fill_null(duration, 0).to_numpy(zero_copy_only=False)
    seconds = pc.fill_null(time.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) / 1e6
    times = np.any([np.abs(number / unit - seconds) < _NEAR for unit in (1, 1e3, 1e6)], axis=0)
    return where(~times, duration, None)

"""From the texts of a log line's fields to the values of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Pieces, flags_of, where
from tidemark.parse.logtime import any_time

# The columns of a line that has the fields of a format.
COLUMNS = {
    "host": pa.string(), "client_ip": pa.string(), "remote_user": pa.string(),
    "event_time": pa.timestamp("us", tz="UTC"), "method": pa.string(), "path": pa.string(), "query": pa.string(),
    "protocol": pa.string(), "status": pa.int32(), "bytes": pa.int64(), "referrer": pa.string(),
    "user_agent": pa.string(), "duration_us": pa.int64(), "edge_country": pa.string(),
}  # fmt: skip

# Besides these, what the site's settings decide about: the addresses of proxies that a request came through, the
# last one behind the others, and whether the time is without a zone.
READ = COLUMNS | {"forwarded": pa.string(), "zoneless": pa.bool_()}

_METHODS = pa.array(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
_METHOD = "^[A-Z][A-Z_-]{1,31}$"
_PROTOCOLS = pa.array(["HTTP/1.1", "HTTP/2.0", "HTTP/1.0", "HTTP/3.0", "HTTP/2", "HTTP/3"])
_PROTOCOL = r"^HTTP/\d(\.\d)?$"
# How many digits the point moves from each unit to microseconds.
_UNITS = {"duration_s": 6, "duration_ms": 3, "duration_us": 0, "duration_ns": -3}
# A number with more digits exceeds every allowed size.
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Read:
    """What a reader made of lines: whether each has the format's fields, and the columns READ, which are NULL for the
    others."""

    sound: Flags
    columns: Mapping[str, pa.Array]

    def kept(self, rows: Flags) -> Read:
        """The same without the lines that are not flagged."""
        sound = self.sound & rows
        if (sound == self.sound).all():
            return self
        return Read(sound, {name: where(sound, column, None) for name, column in self.columns.items()})

    def replaced(self, rows: np.ndarray, by: Read) -> Read:
        """The same with the results of `by`, as far as they are sound, for the lines of these rising numbers."""
        better = np.flatnonzero(by.sound)
        if not len(better):
            return self
        if len(better) == len(self.sound):
            return by
        index = np.arange(len(self.sound))
        index[rows[better]] = len(self.sound) + better
        taken = pa.array(index)
        columns = {
            name: pa.concat_arrays([column, by.columns[name]]).take(taken)
            for name, column in self.columns.items()
        }
        sound = self.sound.copy()
        sound[rows[better]] = True
        return Read(sound, columns)

    @staticmethod
    def nothing(rows: int) -> Read:
        """No line read."""
        return Read(np.zeros(rows, bool), {name: pa.nulls(rows, type) for name, type in READ.items()})


def columns_of(texts: Mapping[str, pa.Array], sound: Flags) -> Read:
    """Columns of the `sound` lines from the texts of fields, which need not all be there:

    host, client_ip (a port is left out), remote_user, time, request (`METHOD target PROTOCOL`) or method, target
    (with or without its scheme and host), query and protocol, status, bytes, referrer, user_agent, duration_s,
    duration_ms, duration_us and duration_ns (the first of them that is there), edge_country (two letters), forwarded.
    """
    rows = len(sound)
    found = {name: where(sound, text, None) for name, text in texts.items()}

    def text(name: str) -> pa.Array:
        return found.get(name, pa.nulls(rows, pa.string()))

    http, method, target, protocol = request_of(text("request"))
    if "method" in found:
        method = pc.coalesce(where(http, method, None), text("method"))
        target = pc.coalesce(where(http, target, None), text("target"), _path_of(text("request")))
        protocol = _protocol(pc.coalesce(where(http, protocol, None), text("protocol")))
        named = one_of(method, _METHODS, _METHOD) | flags_of(pc.is_null(method))
        http = named & _begun(target)
    host, target = _without_host(where(http, target, None))
    parts = Pieces.of(target, "?", 1)
    query = parts.at(1)
    if "query" in found:
        told = pc.utf8_ltrim(present(text("query")), "?")
        query = pc.coalesce(query, where(http, told, None))
    time, zoneless = any_time(text("time"))
    return Read(
        sound,
        {
            "host": pc.coalesce(_host(text("host")), host),
            "client_ip": address(text("client_ip")),
            "remote_user": present(text("remote_user")),
            "event_time": time,
            "method": where(http, method, None),
            "path": parts.at(0),
            "query": query,
            "protocol": where(http, protocol, None),
            "status": status(text("status")),
            "bytes": size(pc.coalesce(text("bytes"), where(sound, pa.repeat("-", rows), None))),
            "referrer": present(text("referrer")),
            "user_agent": present(text("user_agent")),
            "duration_us": first_duration(found, rows),
            "edge_country": _country(text("edge_country")),
            "forwarded": present(text("forwarded")),
            "zoneless": zoneless,
        },
    )


def request_of(request: pa.Array) -> tuple[Flags, pa.Array, pa.Array, pa.Array]:
    """Whether a request is `METHOD target HTTP/n`, and its three parts."""
    first = Pieces.of(request, " ", 1)
    second = Pieces.of(first.at(1), " ", 1, last=True)
    method, target, protocol = first.at(0), second.at(0), second.at(1)
    http = (
        (second.count == 2)
        & one_of(method, _METHODS, _METHOD)
        & one_of(protocol, _PROTOCOLS, _PROTOCOL)
        & _begun(target)
    )
    return http, method, target, protocol


def _begun(text: pa.Array) -> Flags:
    """Whether strings are not empty and begin with no blank; faster than a regular expression."""
    filled = flags_of(pc.greater(pc.binary_length(text), 0))
    return filled & ~flags_of(pc.starts_with(text, " ")) & ~flags_of(pc.starts_with(text, "\t"))


def one_of(text: pa.Array, usual: pa.Array, pattern: str) -> Flags:
    """Looks up the usual values, which is faster than a regular expression."""
    found = flags_of(pc.is_in(text, usual))
    others = ~found & flags_of(pc.is_valid(text))
    if others.any():
        found[others] = flags_of(pc.match_substring_regex(text.filter(pa.array(others)), pattern))
    return found


def status(text: pa.Array) -> pa.Array:
    """A number of three digits."""
    number = flags_of(pc.equal(pc.binary_length(text), 3)) & flags_of(pc.ascii_is_decimal(text))
    return where(number, text, None).cast(pa.int32())


def size(text: pa.Array) -> pa.Array:
    """A number of digits; a dash means 0."""
    digits = pc.ascii_ltrim(text, "0")
    number = flags_of(pc.ascii_is_decimal(text)) & flags_of(
        pc.less_equal(pc.binary_length(digits), _MOST_DIGITS)
    )
    zero = number & flags_of(pc.equal(digits, "")) | flags_of(pc.equal(text, "-"))
    return where(zero, "0", where(number, digits, None)).cast(pa.int64())


def first_duration(texts: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """Microseconds of the first text of each row that says a duration: `duration_s` and its like in other units."""
    found = pa.nulls(rows, pa.int64())
    for unit, digits in _UNITS.items():
        if unit in texts:
            found = pc.coalesce(found, microseconds(texts[unit], digits))
    return found


def summed_seconds(parts: Sequence[pa.Array]) -> pa.Array:
    """The sum of texts in seconds, as text in microseconds; NULL where one says no duration."""
    first, *others = (microseconds(each, 6) for each in parts)
    for each in others:
        first = pc.add(first, each)
    return first.cast(pa.string())


def microseconds(text: pa.Array, digits: int) -> pa.Array:
    """Decimal numbers, shifted by so many digits to the left, rounded half up. NULL for other texts, for negative
    numbers, and for those too large for the result."""
    coded = text.dictionary_encode()
    return _shifted(coded.dictionary, digits).take(coded.indices)


def _shifted(text: pa.Array, digits: int) -> pa.Array:
    most = _MOST_DIGITS - max(digits, 0) - 1
    sound = pc.match_substring_regex(text, rf"^\d{{1,{most}}}(?:\.\d+)?$")
    text = where(flags_of(sound), text, None)
    parts = Pieces.of(text, ".", 1)
    whole, fraction = parts.at(0), pc.fill_null(parts.at(1), "")
    if digits < 0:  # the digits behind the point do not matter
        whole = pc.utf8_lpad(whole, 1 - digits, "0")
        whole, fraction = pc.utf8_slice_codeunits(whole, 0, digits), pc.utf8_slice_codeunits(whole, digits)
        digits = 0
    shifted = pc.utf8_slice_codeunits(pc.utf8_rpad(fraction, digits + 1, "0"), 0, digits + 1)
    number = pc.binary_join_element_wise(whole, shifted, "").cast(pa.int64())
    # One digit more than asked for, which decides how to round.
    return pc.divide(pc.add(number, 5), 10)


def _country(text: pa.Array) -> pa.Array:
    return pc.utf8_upper(where(flags_of(pc.match_substring_regex(text, "^[A-Za-z]{2}$")), text, None))


def present(field: pa.Array) -> pa.Array:
    """Servers write "-" (Apache, nginx) or nothing for a header that was not sent."""
    absent = flags_of(pc.equal(field, "-")) | flags_of(pc.equal(field, ""))
    return where(~absent, field, None)


def address(text: pa.Array) -> pa.Array:
    """An address without the port behind it, without brackets and without the zone of an IPv6 address."""
    ported = flags_of(pc.match_substring_regex(text, r"^\d+\.\d+\.\d+\.\d+:\d+$|^\[|:.*%"))
    if not ported.any():
        return text
    plain = pc.replace_substring_regex(text, r"^\[?([^\]%]*?)(?:%[^\]]*)?\]?(:\d+)?$", r"\1")
    return where(~ported, text, plain)


def _path_of(request: pa.Array) -> pa.Array:
    """A request that is only a path, as some JSON formats write it."""
    return where(flags_of(pc.starts_with(request, "/")), request, None)


def _protocol(text: pa.Array) -> pa.Array:
    """A protocol such as HTTP/1.1, also from its number alone, and in any case; NULL for others."""
    bare = flags_of(pc.match_substring_regex(text, r"^\d(\.\d)?$"))
    text = pc.utf8_upper(where(~bare, text, pc.binary_join_element_wise("HTTP/", text, "")))
    return where(one_of(text, _PROTOCOLS, _PROTOCOL), text, None)


def _without_host(target: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The host of an absolute address, and its path with the query. The host of others is NULL."""
    absolute = flags_of(pc.match_substring_regex(target, r"^(?i)(https?|wss?)://[^/?#]"))
    if not absolute.any():
        return pa.nulls(len(target), pa.string()), target
    parts = Pieces.of(where(absolute, target, None), "/", 3)
    host, rest = parts.at(2), pc.binary_join_element_wise("", pc.coalesce(parts.at(3), ""), "/")
    odd = flags_of(pc.match_substring_regex(host, "[?#]"))
    if odd.any():  # a query right behind the host
        mask = pa.array(odd)
        split = pc.extract_regex(target.filter(mask), r"^[A-Za-z]+://(?P<host>[^/?#]*)(?P<rest>(?s).*)$")
        host = pc.replace_with_mask(host, mask, pc.struct_field(split, "host"))
        behind = pc.binary_join_element_wise("", pc.struct_field(split, "rest"), "/")
        rest = pc.replace_with_mask(rest, mask, behind)
    return _host(host), where(~absolute, target, rest)


def _host(text: pa.Array) -> pa.Array:
    coded = text.dictionary_encode()
    hosts = present(pc.replace_substring_regex(coded.dictionary, r":\d*$", ""))
    return pc.utf8_lower(hosts).take(coded.indices)


def each_distinct(text: pa.Array, change: Any) -> pa.Array:
    """A function of strings, called once per distinct value."""
    coded = text.dictionary_encode()
    made = [None if value is None else change(value) for value in coded.dictionary.to_pylist()]
    return pa.array(made, pa.string()).take(coded.indices)

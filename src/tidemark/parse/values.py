"""From the texts of a log line's fields to the values of columns."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, changed, extracted, flags_at, flags_of, matches, where
from tidemark.parse.durations import first_duration
from tidemark.parse.logtime import any_time
from tidemark.parse.remembered import remembered

# The columns of a line that has the fields of a format.
COLUMNS = {
    "host": pa.string(), "client_ip": pa.string(), "remote_user": pa.string(),
    "event_time": pa.timestamp("us", tz="UTC"), "method": pa.string(), "path": pa.string(), "query": pa.string(),
    "protocol": pa.string(), "status": pa.int32(), "bytes": pa.int64(), "referrer": pa.string(),
    "user_agent": pa.string(), "duration_us": pa.int64(), "edge_country": pa.string(),
}  # fmt: skip

# Besides these: the addresses of proxies that a request came through, the last one after the others, and whether the
# time is without a zone, about which the site's settings decide; and whether the line says its status, or that there
# was none.
READ = COLUMNS | {"forwarded": pa.string(), "zoneless": pa.bool_(), "status_ok": pa.bool_()}

_METHODS = pa.array(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
_METHOD = "^[A-Z][A-Z_-]{1,31}$"
_PROTOCOLS = pa.array(["HTTP/1.1", "HTTP/2.0", "HTTP/1.0", "HTTP/3.0", "HTTP/2", "HTTP/3"])
_PROTOCOL = r"^HTTP/\d(\.\d)?$"
# A request without a version: a path, an address or *, after which the log may have cut the protocol, or written only
# its number, as Hypercorn does, a dash or nothing.
_UNVERSIONED = (
    r"^(?P<method>[A-Z][A-Z_-]{1,31}) (?P<target>\*|(?:/|[a-z][a-z0-9+.-]*://).*?)"
    r"(?: (?:H(?:T(?:T(?:P(?:/(?:\d\.?)?)?)?)?)?|(?P<version>1\.[01]|[23])|-)?)?$"
)
_OTHER_PROTOCOL = r" [A-Za-z]+/\d+(?:\.\d+)?(?: \d{3} (?:\d+|-))?$"
# More than one blank behind the method.
_PADDED = "^([A-Z][A-Z_-]{1,31})  +"
# A number with more digits exceeds every allowed size.
_MOST_DIGITS = 18
# A number of bytes with leading zeros, or a trailing decimal point.
_SIZE = rf"^0*(?P<digits>\d{{1,{_MOST_DIGITS}}})(?:\.0*)?$"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV4 = rf"^{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}$"
_PORT = re.compile(r"^(\d+\.\d+\.\d+\.\d+):\d+$")
_ADDRESS_AROUND = re.compile(r"^\[|\](?::\d*)?$")
_NAME = re.compile(r"(?=.*[A-Za-z])(?!unknown$)[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?=.))*\.?")
# Larger sizes are errors of the log; the sum of the sizes of many lines must not overflow.
MOST_RESPONSE_BYTES = 1 << 40
# How servers write that there was no status; with 0 only for a request, as connections without one have it, too.
_NO_STATUS = pa.array(["-", "000", "-1", ""])
_NO_STATUS_OF_REQUEST = "0"


@dataclass(frozen=True)
class Read:
    """The result of reading lines: whether each has the format's fields, and the columns READ, which are NULL for the
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
        put = flags_at(rows[better], len(self.sound))
        mask, index = pa.array(put), pa.array(better)
        columns = {
            name: pc.replace_with_mask(column, mask, by.columns[name].take(index))
            for name, column in self.columns.items()
        }
        return Read(self.sound | put, columns)

    @staticmethod
    def nothing(rows: int) -> Read:
        """No line read."""
        return Read(np.zeros(rows, bool), {name: pa.nulls(rows, type) for name, type in READ.items()})


def columns_of(texts: Mapping[str, pa.Array], sound: Flags) -> Read:
    """Columns of the `sound` lines from the texts of fields, which need not all be there:

    host, client_ip (also a list, the last of which is the line's own), remote_user, time, request (`METHOD target
    PROTOCOL`) or method, target (with or without its scheme and host), query and protocol, status, bytes, referrer,
    user_agent, duration_s, duration_ms, duration_us and duration_ns (the first of them that is there),
    edge_country (two letters), forwarded.
    """
    rows = len(sound)
    columns = {name: where(sound, text, None) for name, text in texts.items()}

    def text(name: str) -> pa.Array:
        return columns.get(name, pa.nulls(rows, pa.string()))

    http, method, target, protocol = request_of(text("request"))
    if "target" in columns or "method" in columns:
        request_line = where(~http, text("request"), None)
        method = _in_upper_case(pc.coalesce(method, text("method"), _method_in(request_line)))
        target = pc.coalesce(target, present(text("target")), _path_of(request_line))
        protocol = protocol_of(pc.coalesce(protocol, text("protocol")))
        named = one_of(method, _METHODS, _METHOD) | flags_of(pc.is_null(present(method)))
        http = named & _begun(target)
        method, target, protocol = (where(http, each, None) for each in (present(method), target, protocol))
    host, target = _without_host(target)
    path, query = path_and_query(target)
    if "query" in columns:
        query = pc.coalesce(query, where(http, _query(text("query")), None))
    time, zoneless = any_time(text("time"))
    client, before = _last_of_list(text("client_ip"))
    return Read(
        sound,
        {
            "host": pc.coalesce(_host(text("host")), host),
            "client_ip": client,
            "remote_user": present(text("remote_user")),
            "event_time": time,
            "method": method,
            "path": path,
            "query": query,
            "protocol": protocol,
            **statuses(text("status"), method, path),
            "bytes": size(text("bytes"), sound),
            "referrer": present(text("referrer")),
            "user_agent": present(text("user_agent")),
            "duration_us": first_duration(columns, rows),
            "edge_country": _country(text("edge_country")),
            "forwarded": pc.coalesce(present(text("forwarded")), before),
            "zoneless": zoneless,
        },
    )


def request_of(request: pa.Array) -> tuple[Flags, pa.Array, pa.Array, pa.Array]:
    """Whether a request is one of HTTP, and its method, target and protocol; NULL for others, such as the bytes of a
    TLS handshake, `-` or an empty text.

    It is `METHOD target HTTP/n`, where the target may have blanks, also in front; or `METHOD target n`; or `METHOD
    target`, as of HTTP/0.9, and where a log cuts the request.
    """
    first = Parts.of(request, " ", 1)
    second = Parts.of(first.at(1), " ", 1, last=True)
    method, target, protocol = first.at(0), second.at(0), second.at(1)
    target = _without_route_method(method, target)
    http = (
        (second.count == 2)
        & one_of(method, _METHODS, _METHOD)
        & one_of(protocol, _PROTOCOLS, _PROTOCOL)
        & _begun(target)
    )
    if http.all():
        return http, method, target, protocol
    method, target, protocol = (where(http, each, None) for each in (method, target, protocol))
    rows = np.flatnonzero(~http & flags_of(pc.is_valid(request)))
    some = request.take(pa.array(rows))
    if (padded := matches(some, _PADDED)).any():
        which = flags_at(rows[padded], len(http))
        return request_of(
            changed(request, which, lambda some: pc.replace_substring_regex(some, _PADDED, r"\1 "))
        )
    unversioned = matches(some, _UNVERSIONED)
    unversioned &= ~matches(some, _OTHER_PROTOCOL)
    if unversioned.any():
        mask = flags_at(rows[unversioned], len(http))
        parts = pc.extract_regex(some.filter(pa.array(unversioned)), _UNVERSIONED)
        method = pc.replace_with_mask(method, pa.array(mask), pc.struct_field(parts, "method"))
        target = pc.replace_with_mask(target, pa.array(mask), pc.struct_field(parts, "target"))
        protocol = pc.replace_with_mask(
            protocol, pa.array(mask), protocol_of(pc.struct_field(parts, "version"))
        )
        http = http | mask
    return http, method, target, protocol


def _without_route_method(method: pa.Array, target: pa.Array) -> pa.Array:
    """Targets without the method in front of the path: AWS API Gateway writes the key of a route, `GET /docs`."""
    odd = ~flags_of(pc.starts_with(target, "/"))
    if not odd.any():
        return target
    parts = pc.extract_regex(where(odd, target, None), "^(?P<method>[A-Z_-]+) (?P<path>/.*)$")
    routed = pc.struct_field(parts, "method")
    routes = flags_of(pc.equal(routed, method)) | flags_of(pc.equal(routed, "ANY"))
    return where(~routes, target, pc.struct_field(parts, "path"))


def path_and_query(target: pa.Array) -> tuple[pa.Array, pa.Array]:
    """A target's path, and its query, NULL where it is empty."""
    parts = Parts.of(target, "?", 1)
    query = parts.at(1)
    return parts.at(0), where(~flags_of(pc.equal(query, "")), query, None)


def _begun(text: pa.Array) -> Flags:
    """Whether strings are not empty and begin with no blank; faster than a regular expression."""
    filled = flags_of(pc.greater(pc.binary_length(text), 0))
    return filled & ~flags_of(pc.starts_with(text, " ")) & ~flags_of(pc.starts_with(text, "\t"))


def one_of(text: pa.Array, usual: pa.Array, pattern: str) -> Flags:
    """Looks up the usual values, which is faster than a regular expression."""
    usual_ones = flags_of(pc.is_in(text, usual))
    others = ~usual_ones & flags_of(pc.is_valid(text))
    if others.any():
        usual_ones[others] = matches(text.filter(pa.array(others)), pattern)
    return usual_ones


def statuses(text: pa.Array, method: pa.Array, path: pa.Array) -> dict[str, pa.Array]:
    """`status`, a number of three digits from 100 on, which text may follow, NULL where there was none; and
    `status_ok`, whether a text says either. Lines with `method` or `path` are of requests."""
    exact = flags_of(pc.equal(pc.binary_length(text), 3)) & flags_of(pc.ascii_is_decimal(text))
    odd = ~exact & flags_of(pc.is_valid(text))
    none = np.zeros(len(text), bool)
    if odd.any():
        none = flags_of(pc.is_in(text, _NO_STATUS))
        if (zero := flags_of(pc.equal(text, _NO_STATUS_OF_REQUEST))).any():
            none |= zero & (flags_of(pc.is_valid(method)) | flags_of(pc.is_valid(path)))
        number = matches(text, r"^\d{3}(?:\.0+)?(?: .*)?$") & odd
        text, exact = where(~number, text, pc.utf8_slice_codeunits(text, 0, 3)), exact | number
    status = where(exact, text, None).cast(pa.int32())
    number = pc.fill_null(status, -1).to_numpy(zero_copy_only=False)
    above = number >= 100
    return {"status": where(above, status, None), "status_ok": pa.array(above | none | (number == 0))}


def size(text: pa.Array, sound: Flags) -> pa.Array:
    """Bytes, from digits; 0 for any other text, such as a dash. NULL for lines that are not `sound`."""
    usual = flags_of(pc.ascii_is_decimal(text)) & flags_of(
        pc.less_equal(pc.binary_length(text), _MOST_DIGITS)
    )
    value = where(usual, text, "0").cast(pa.int64())
    odd = sound & ~usual & ~flags_of(pc.equal(text, "-")) & flags_of(pc.is_valid(text))
    if odd.any():
        digits = extracted(text.filter(pa.array(odd)), _SIZE, "digits")
        value = pc.replace_with_mask(value, pa.array(odd), pc.fill_null(digits, "0").cast(pa.int64()))
    beyond = flags_of(pc.greater(value, MOST_RESPONSE_BYTES))
    return where(sound, where(~beyond, value, 0) if beyond.any() else value, None)


def _country(text: pa.Array) -> pa.Array:
    return pc.utf8_upper(where(matches(text, "^[A-Za-z]{2}$"), text, None))


def present(field: pa.Array) -> pa.Array:
    """Servers write "-" (Apache, nginx) or nothing for a header that was not sent."""
    absent = flags_of(pc.equal(field, "-")) | flags_of(pc.equal(field, ""))
    return where(~absent, field, None)


def address(text: pa.Array) -> pa.Array:
    """Addresses in canonical form, without brackets, port and zone: IPv6 in lower case and compressed, IPv4 for an
    IPv6 address that maps one. A host name is in lower case. NULL for other texts."""
    coded = text.dictionary_encode()
    odd = ~matches(coded.dictionary, _IPV4)
    if not odd.any():
        return text
    canonical = changed(coded.dictionary, odd, lambda some: each_distinct(some, canonical_address))
    return canonical.take(coded.indices)


@remembered(100_000)
def canonical_address(text: str) -> str | None:
    """One text as `address` has it."""
    plain = _ADDRESS_AROUND.sub("", text).partition("%")[0] if ":" in text else text
    plain = _PORT.sub(r"\1", plain)
    try:
        address = ipaddress.ip_address(plain)
    except ValueError:
        return text.lower() if _NAME.fullmatch(text) else None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def without_port(text: pa.Array) -> pa.Array:
    """Addresses that a port always follows, which may be IPv6 without brackets."""
    return pc.replace_substring_regex(text, r":\d+$", "")


def is_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address in its usual notation."""
    try:
        # Same result as `ipaddress.ip_address`, in a tenth of the time.
        socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def _last_of_list(client: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The last of the addresses where the client's stands, and those in front of it."""
    several = flags_of(pc.match_substring(client, ","))
    if not several.any():
        return client, pa.nulls(len(client), pa.string())
    parts = Parts.of(client, ",", 1, last=True)
    last = pc.utf8_trim_whitespace(parts.at(1))
    return where(several, last, client), where(several, parts.at(0), None)


def _query(text: pa.Array) -> pa.Array:
    """A query that has a field of its own, which may have its question mark and blanks around it."""
    return present(pc.utf8_trim_whitespace(pc.utf8_ltrim(pc.utf8_trim_whitespace(text), "?")))


def _path_of(request: pa.Array) -> pa.Array:
    """A request that is only a path, as some JSON formats write it."""
    return where(flags_of(pc.starts_with(request, "/")), request, None)


def _method_in(request: pa.Array) -> pa.Array:
    """A request that is only a method, as in Fastly's examples."""
    return where(flags_of(pc.is_in(request, _METHODS)), request, None)


def _in_upper_case(method: pa.Array) -> pa.Array:
    """A method that has a field of its own, which frameworks write in any case."""
    odd = flags_of(pc.is_valid(method)) & ~flags_of(pc.is_in(method, _METHODS))
    if not odd.any():
        return method
    upper = pc.ascii_upper(method)
    return where(odd & flags_of(pc.is_in(upper, _METHODS)), upper, method)


def protocol_of(text: pa.Array) -> pa.Array:
    """A protocol such as HTTP/1.1, also from its number alone, and in any case; NULL for others."""
    bare = matches(text, r"^\d(\.\d)?$")
    text = pc.utf8_upper(where(~bare, text, pc.binary_join_element_wise("HTTP/", text, "")))
    return where(one_of(text, _PROTOCOLS, _PROTOCOL), text, None)


def _without_host(target: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The host of an absolute address, and its path with the query. The host of others is NULL."""
    absolute = matches(target, r"^(?i)(https?|wss?)://[^/?#]")
    if not absolute.any():
        return pa.nulls(len(target), pa.string()), target
    parts = Parts.of(where(absolute, target, None), "/", 3)
    host, rest = parts.at(2), pc.binary_join_element_wise("", pc.coalesce(parts.at(3), ""), "/")
    odd = matches(host, "[?#]")
    if odd.any():  # a query right after the host
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


def each_distinct(text: pa.Array, change: Callable[[str], str | None]) -> pa.Array:
    """A function of strings, called once per distinct value."""
    coded = text.dictionary_encode()
    changed = [None if value is None else change(value) for value in coded.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(coded.indices)

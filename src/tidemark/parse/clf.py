r"""Reader of the formats of Apache's `mod_log_config` and nginx: common, combined, and both after a virtual host.

Fields are found by splitting at quotes, which is several times as fast as a regular expression.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, flags_of, matches, where
from tidemark.parse import trailing
from tidemark.parse.layout import Layout
from tidemark.parse.logtime import any_time
from tidemark.parse.text import Lines, has_byte_of
from tidemark.parse.values import (
    Read,
    path_and_query,
    present,
    request_of,
    size,
    statuses,
)

_NO_IDENT = pa.array(["-", "", None])
_STATUS = r"^(?:\d{3}|-)$"

KINDS = ("combined", "common", "vhost_combined")

_ADDRESS = r"^[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+$"
# Trailing fields: words without quotes and brackets, and quoted texts, which may have a name in front: rt="0.003".
_WORD = r"(?: [\w.:,;=/%+*@~|&?#!$-]+)"
_COMMON_TAIL = rf"^ +[^ ]+ [^ ]+{_WORD}+ *$"
_TAIL_END = rf"^{_WORD}*$"
_BETWEEN = rf"^{_WORD}* (?:[\w.-]+[=:])?$"
# Bytes that addresses cannot have, but for the dash.
_NOT_IN_ADDRESSES = ~np.isin(np.arange(256), list(b"0123456789abcdefABCDEF.:-"))
# Enough to tell an address of IPv6 from a time. A dash is in place of an address that is not kept.
_IPV6 = r"::|(?:[^:]*:){7}|^-$"
_NUMBERED = r"^\d+:\d+\."
# Behind an address, a name of a host may be in place of the ident, as lighttpd writes it, or in front of it.
_NUMERIC = r"^(?:\d+(?:\.\d+){3}|[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,})$"
NAME_ALONE = r"(?:[\w-]+\.)+[A-Za-z][\w-]*"
NAME = rf"{NAME_ALONE}(?::\d+)?"
DOMAIN = f"^{NAME}$"
_WITH_PORT = rf"^{NAME_ALONE}:\d+$"
# Words in front of lines that are no hosts: with bytes that hosts cannot have, names of files with a colon, numbers,
# dates and levels of loggers.
_NO_HOST = (
    r'[] "=<>/[(){}|@,;]|[g-z].*:|:.*[g-z]'
    r"|^(?:\d+|\d{4}-\d\d-\d\d.*|trace|debug|info|notice|warn|warning|error)$"
)
_IPV6_HOST = r"^\[[0-9a-f:.]+\]$"


class Clf(Layout):
    """A format of this family. Its layout shows the fields of a line; it is not read by it."""

    def read(self, lines: Lines) -> Read:
        return read(lines, pa.repeat(self.name, len(lines.sound)), tail=True)


def read(lines: Lines, named: pa.Array, *, tail: bool = False) -> Read:
    """The fields of lines of formats named `common`, `combined`, `vhost_combined`, or NULL to detect which; any other
    name is taken for `combined`. With `tail`, of lines with trailing fields, otherwise of lines without."""
    parts = lines.parts
    # The last bracket, because a user name may contain some.
    before = Parts.of(parts.at(0), " [", 1, last=True)
    words = Parts.of(where(before.count == 2, before.at(0), ""), " ", 2)
    vhost, behind = _has_host(words, named)
    # After a leading host, the third word is followed by another.
    rest = Parts.of(where(vhost, words.at(2), None), " ", 1)
    if vhost.any():  # otherwise an address is in place of the ident
        vhost &= (rest.count == 2) | ~flags_of(pc.is_null(named))
    result = Parts.of(pc.ascii_trim(parts.at(2), " "), " ", 2 if tail else None)
    shape = _with_tail(parts, named) if tail else _quoted(parts, named)
    numbers = result.count == 2
    if (sizeless := result.count == 1).any():
        numbers |= sizeless & matches(result.at(0), _STATUS)
    if tail:  # a common line may have words there, another one a duration
        duration = matches(result.at(2), r"^\d+(?:\.\d+)?$")
        hosted = matches(result.at(0), DOMAIN)  # `clf_loose` knows such lines
        numbers |= (result.count == 3) & ((parts.count == 3) | duration) & ~hosted
    sound = np.where(vhost, rest.count == 2, words.count == 3) & numbers & shape
    user = pc.ascii_trim(where(vhost, rest.at(1), words.at(2)), " ")
    in_front = _client_in_front(words, vhost, named)
    host = where(vhost & flags_of(pc.is_null(in_front)), words.at(0), None)
    if behind.any():  # the ident may stand behind the host
        host = where(behind, words.at(1), host)
        user = where(~behind, user, pc.replace_substring_regex(user, "^- ", ""))
    if (more_words := flags_of(pc.ends_with(user, " -"))).any():  # another field, and no user
        user = where(~more_words, user, None)
        sound &= ~more_words | vhost | ~flags_of(pc.ends_with(words.at(1), ","))
    if not sound.any():
        return Read.nothing(len(sound))
    length, third = result.at(1), None
    if tail:  # the duration may be in front of the size
        third = result.at(2)
        timed = matches(length, r"^\d+\.\d+$")
        timed &= matches(third, r"^\d+$")
        length, third = where(~timed, length, third), where(~timed, third, length)

    _, method, target, protocol = request_of(where(sound, parts.at(1), None))
    path, query = path_and_query(lines.restored(target))
    host = present(pc.replace_substring_regex(where(sound, host, None), r":\d*$", ""))
    complete = sound & (parts.count > 3)
    # With `tail`, lines of seven parts have words after the last quote.
    more = _trailing(parts, third, sound & ((parts.count > (6 if tail else 7)) | (result.count == 3)))
    time, zoneless = any_time(_without_end(where(sound, before.at(1), None), "] "))
    columns = {
        "host": pc.utf8_lower(pc.coalesce(lines.restored(host), more["host"])),
        "client_ip": where(sound, where(vhost, words.at(1), words.at(0)), None),
        "remote_user": present(lines.restored(where(sound, user, None))),
        "event_time": time,
        "method": method,
        "path": path,
        "query": query,
        "protocol": protocol,
        **statuses(where(sound, result.at(0), None), method, path),
        "bytes": size(length, sound),
        "referrer": present(lines.restored(where(complete, parts.at(3), None))),
        "user_agent": present(lines.restored(where(complete, parts.at(5), None))),
        "duration_us": trailing.without_times(more["duration_us"], time),
        "edge_country": pa.nulls(len(sound), pa.string()),
        "forwarded": pc.coalesce(in_front, more["forwarded"]),
        "zoneless": zoneless,
    }
    return Read(sound, columns)


def _client_in_front(words: Parts, vhost: Flags, named: pa.Array) -> pa.Array:
    """A public address in front of a private one: it is no virtual host, but that of a client behind a proxy, of a
    header such as X-Forwarded-For. NULL for other lines."""
    if not vhost.any():
        return pa.nulls(len(vhost), pa.string())
    first = where(vhost & flags_of(pc.is_null(named)), words.at(0), None)
    fits = matches(first, _NUMERIC) & ~matches(first, trailing.PRIVATE)
    fits &= matches(words.at(1), trailing.PRIVATE)
    return where(fits, first, None)


def _trailing(parts: Parts, third: pa.Array | None, longer: Flags) -> dict[str, pa.Array]:
    """Duration, host and addresses of proxies in the fields after the last one of the format and the third word behind
    the request, of the flagged lines."""
    size = len(longer)
    rows = np.flatnonzero(longer)
    if not len(rows):
        texts = {name: pa.nulls(size, pa.string()) for name in ("host", "forwarded")}
        return texts | {"duration_us": pa.nulls(size, pa.int64())}
    index = pa.array(rows)
    quoted = Parts(parts.flat, parts.start + 6, np.maximum(parts.count - 6, 0)).take(rows).joined('"')
    tail = quoted
    if third is not None:
        tail = pc.binary_join_element_wise(pc.fill_null(third.take(index), ""), quoted, " ")
    columns = trailing.fields(tail, quoted)
    spread = np.full(size, len(rows))
    spread[rows] = np.arange(len(rows))
    places = pa.array(spread, mask=spread == len(rows))
    return {name: column.take(places) for name, column in columns.items()}


def kind(lines: Lines, read: Read) -> np.ndarray:
    """For each line that was read, the index of its format in KINDS."""
    hosts = flags_of(pc.is_valid(read.columns["host"]))
    rows = np.flatnonzero(hosts)
    if len(rows):  # a host may also be after the last field
        index = pa.array(rows)
        first = Parts.of(lines.parts.at(0).take(index), " ", 1).at(0)
        hosts[rows] = ~flags_of(pc.equal(first, read.columns["client_ip"].take(index)))
    common = np.where(lines.parts.count == 3, KINDS.index("common"), KINDS.index("combined"))
    return np.where(hosts, KINDS.index("vhost_combined"), common)


def doubtful(read: Read) -> Flags:
    """Whether the client's address, the host, the time or the status cannot be one: then a line may be of another
    format, or behind words that are not of it."""
    address = read.columns["client_ip"]
    result = has_byte_of(address, lambda byte: _NOT_IN_ADDRESSES[byte])
    dotted = flags_of(pc.equal(pc.count_substring(address, "."), 3))
    rows = np.flatnonzero(~dotted & flags_of(pc.is_valid(address)))
    if len(rows):  # a time or a number is no address of IPv6
        result[rows] |= ~matches(address.take(pa.array(rows)), _IPV6)
    rows = np.flatnonzero(dotted & flags_of(pc.match_substring(address, ":")))
    if len(rows):  # nor is it an address behind a number
        result[rows] |= matches(address.take(pa.array(rows)), _NUMBERED)
    result |= flags_of(pc.is_null(read.columns["event_time"])) | ~flags_of(read.columns["status_ok"])
    # OVHcloud's CDN writes the status within the quotes of the request: neither is found where they usually are.
    result |= flags_of(pc.and_(pc.is_null(read.columns["status"]), pc.is_null(read.columns["method"])))
    return result | _is_no_host(read.columns["host"])


def _is_no_host(host: pa.Array) -> Flags:
    if host.null_count == len(host):
        return np.zeros(len(host), bool)
    encoded = host.dictionary_encode()  # few hosts have many lines
    names = encoded.dictionary
    no_host = matches(names, _NO_HOST)
    no_host &= ~matches(names, _IPV6_HOST)
    return flags_of(pa.array(no_host).take(encoded.indices))


def _has_host(words: Parts, named: pa.Array) -> tuple[Flags, Flags]:
    """Whether a line starts with a virtual host: by its named format, else if the second word is an address, or if
    four words end with the two dashes of ident and user. And whether the second word is the host, behind an address."""
    first, second = words.at(0), words.at(1)
    unnamed = flags_of(pc.is_null(named))
    given = ~flags_of(pc.is_in(second, _NO_IDENT))
    looks_so = given & matches(second, _ADDRESS)
    behind = np.zeros(len(given), bool)
    if given.any():
        behind = given & unnamed & matches(second, DOMAIN)
        behind &= matches(first, _NUMERIC)
        looks_so |= given & (flags_of(pc.equal(words.at(2), "- -")) | matches(first, _WITH_PORT))
        looks_so &= ~flags_of(pc.match_substring(first, ",")) & ~behind
    return np.where(unnamed, looks_so, flags_of(pc.equal(named, "vhost_combined"))), behind


def _quoted(parts: Parts, named: pa.Array) -> Flags:
    """Whether the parts between the quotes have the shape of a format."""
    extra = parts.count == 9
    quoted = (parts.count == 7) | extra
    common = parts.count == 3
    spaced = flags_of(pc.equal(parts.at(4), " ")) & flags_of(pc.equal(parts.at(parts.count - 1), ""))
    fits: Flags = _named_so(quoted, common, named) & _spaced_inside(parts, quoted) & (~quoted | spaced)
    return fits & (~extra | flags_of(pc.equal(parts.at(6), " "))) if extra.any() else fits


def may_have_tail(parts: Parts) -> Flags:
    """Whether lines have as many quotes as one with trailing fields."""
    possible: Flags = (parts.count == 3) | ((parts.count >= 7) & (parts.count % 2 == 1))
    return possible


def _with_tail(parts: Parts, named: pa.Array) -> Flags:
    """Whether the parts between the quotes have the shape of a format with trailing fields."""
    common = parts.count == 3
    quoted = may_have_tail(parts) & ~common
    place = np.arange(len(parts.flat)) - np.repeat(parts.start, parts.count)
    last = place == np.repeat(parts.count, parts.count) - 1
    unquoted = (place >= 6) & (place % 2 == 0)
    wrong = unquoted & ~np.where(
        last,
        matches(parts.flat, _TAIL_END),
        matches(parts.flat, _BETWEEN),
    )
    faults = np.bincount(
        np.repeat(np.arange(len(parts.count)), parts.count)[wrong], minlength=len(parts.count)
    )
    fits: Flags = (
        _named_so(quoted, common, named)
        & _spaced_inside(parts, quoted)
        & (~quoted | flags_of(pc.equal(parts.at(4), " ")))
        & (~common | matches(parts.at(2), _COMMON_TAIL))
        & (faults == 0)
    )
    return fits


def _named_so(quoted: Flags, common: Flags, named: pa.Array) -> Flags:
    unnamed, is_common = flags_of(pc.is_null(named)), flags_of(pc.equal(named, "common"))
    return np.where(unnamed, quoted | common, np.where(is_common, common, quoted))


def _spaced_inside(parts: Parts, quoted: Flags) -> Flags:
    head, middle = parts.at(0), parts.at(2)
    fits: Flags = (
        flags_of(pc.ends_with(head, "] "))
        & flags_of(pc.starts_with(middle, " "))
        & (~quoted | flags_of(pc.ends_with(middle, " ")))
    )
    return fits


def _without_end(text: pa.Array, end: str) -> pa.Array:
    return pc.binary_slice(text.cast(pa.binary()), 0, -len(end)).cast(pa.string())

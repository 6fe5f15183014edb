"""The client behind proxies, and lines of the combined family that begin with the addresses of proxies.

nginx is often configured to write `$http_x_forwarded_for` in front of `$remote_addr`, or `$proxy_add_x_forwarded_for`
in its place. The address of the line is the last one, that of the connection; `trusted_proxies` decides which of the
others is the client.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, Parts, extracted, flags_of, matches, where
from tidemark.parse.clf import NAME
from tidemark.parse.values import Read, address, is_address

_PLAIN = r"[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+"
_ADDRESS = rf"(?:\\?{_PLAIN}|\[{_PLAIN}\](?::\d+)?)"
_LISTED = rf"(?:{_ADDRESS}|unknown)"
_LIST = rf"{_LISTED}(?: *, *{_LISTED})"
_PATTERN = (
    r'^(?P<host>[^ ,"\[]+ )??'
    rf'(?:"(?P<quoted>-|{_LIST}*)" (?P<first>{_ADDRESS})'
    rf'|"(?:(?P<listed>{_LIST}*?) *, *)?(?P<last>{_LISTED})" (?P<behind>{NAME})'
    rf"|(?P<chain>{_LIST}+) (?P<second>{_ADDRESS})"
    rf"|(?P<own>{_ADDRESS}) [(\[](?P<within>-|{_LIST}*)[)\]]"
    rf"|(?P<others>{_LIST}*?) *, *(?P<third>{_ADDRESS}))"
    r"(?P<rest> [^ ]+ [^\[]*\[.*)$"
)
_BEGIN = rf'^(?:[^ ,"\[]+ )?(?:"(?:-|{_LISTED} *[," ])|{_LISTED} *[,(\[])'
# Before and after an address: IIS writes blanks as `+`.
_AROUND = ' \t+\\"'
# A client can send as long a list as it likes.
_MOST_HOPS = 30
# An element of the header Forwarded (RFC 7239).
_FOR = r'(?i)^(?:.*;)?\s*for="?(?P<for>[^";]*)'


def client_of(own: pa.Array, forwarded: pa.Array, trusted: Callable[[pa.Array], Flags]) -> pa.Array:
    """The client of each request, by the address of the line (NULL: it has none), the list of forwarded addresses, and
    a function that says which addresses are trusted proxies.

    If the line's own address is trusted, the client is the last address of the list that is not; if all are, the first
    one. What is no address ends the list: nobody knows what is in front of it. Without an address of its own, the
    line's list counts.
    """
    believed = trusted(own) | flags_of(pc.is_null(own))
    if not believed.any():
        return own
    coded = where(believed, forwarded, None).dictionary_encode()
    entries = _entries(coded.dictionary, _MOST_HOPS)
    known = flags_of(pc.is_valid(entries.flat))
    passing = trusted(entries.flat) & known
    place = np.arange(len(known))
    row = np.repeat(np.arange(len(entries.count)), entries.count)
    # The last entry of each list that ends it; -1 for none.
    last = np.full(len(entries.count), -1)
    np.maximum.at(last, row[~passing], (place - np.repeat(entries.start, entries.count))[~passing])
    ends = np.maximum(last, 0)
    ends += ~flags_of(pc.is_valid(entries.at(ends))) & (last >= 0)
    return pc.coalesce(entries.at(ends).take(coded.indices), own)


def client_before(own: pa.Array, forwarded: pa.Array, proxies: int) -> pa.Array:
    """The same by the number of proxies that append their client's address to the list."""
    entries = _entries(forwarded, max(proxies, _MOST_HOPS))
    return pc.coalesce(entries.at(np.maximum(entries.count - proxies, 0)), own)


def _entries(lists: pa.Array, most: int) -> Parts:
    """The addresses of lists after the last commas, at most `most`; NULL for other texts."""
    split = Parts.of(lists, ",", most, last=True)
    coded = pc.utf8_trim(split.flat, _AROUND).dictionary_encode()
    texts = coded.dictionary
    named = flags_of(pc.match_substring(texts, "="))
    if named.any():
        texts = where(~named, texts, extracted(texts, _FOR, "for"))
    addresses = address(texts)
    known = [each is not None and is_address(each) for each in addresses.to_pylist()]
    flat = where(np.array(known, bool), addresses, None).take(coded.indices)
    filled = ~flags_of(pc.equal(coded.dictionary, "").take(coded.indices))
    if filled.all():
        return Parts(flat, split.start, split.count)
    # A list may have empty elements.
    row = np.repeat(np.arange(len(split.count)), split.count)
    count = np.bincount(row[filled], minlength=len(split.count))
    return Parts(flat.filter(pa.array(filled)), np.cumsum(count) - count, count)


def without_list(text: pa.Array) -> tuple[Flags, pa.Array, pa.Array]:
    """Which lines begin with a list of addresses, behind a host or not; for these, the lines with the last address in
    place of the list, and the addresses in front of it. The list may also be in quotes in front of a host, or in
    parentheses or brackets behind the address."""
    listed_first = matches(text, _BEGIN)
    if not listed_first.any():
        none = pa.nulls(0, pa.string())
        return listed_first, none, none
    parts = pc.extract_regex(text.filter(pa.array(listed_first)), _PATTERN)
    there = flags_of(pc.is_valid(parts))
    listed_first[np.flatnonzero(listed_first)[~there]] = False
    host, quoted, first, listed, last, behind, chain, second, own, within, others, third, rest = parts.filter(
        pa.array(there)
    ).flatten()
    # Of the alternatives those that were not taken are empty.
    before = pc.binary_join_element_wise(quoted, listed, chain, within, others, "")
    space = where(flags_of(pc.equal(behind, "")), pa.repeat("", len(behind)), " ")
    lines = pc.binary_join_element_wise(host, behind, space, last, first, second, own, third, rest, "")
    return listed_first, lines, before


def forwarded(read: Read, before: pa.Array) -> Read:
    """The same with these addresses of proxies."""
    return Read(read.sound, {**read.columns, "forwarded": where(read.sound, before, None)})

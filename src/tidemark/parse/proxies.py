"""Lines of the combined family that begin with the addresses of proxies.

nginx is often told to write `$http_x_forwarded_for` in front of `$remote_addr`, or `$proxy_add_x_forwarded_for` in its
place. The address of the line is the last one, that of the connection; `trusted_proxies` tells which of the others is
the client.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of, where
from tidemark.parse.values import Read

_ADDRESS = r"[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+"
_LISTED = rf"(?:{_ADDRESS}|unknown)"
_PATTERN = (
    r'^(?P<host>[^ ,"\[]+ )??'
    rf'(?:"(?P<quoted>-|{_LISTED}(?:, ?{_LISTED})*)" (?P<first>{_ADDRESS})'
    rf"|(?P<chain>{_LISTED}(?:, ?{_LISTED})+) (?P<second>{_ADDRESS})"
    rf"|(?P<others>{_LISTED}(?:, ?{_LISTED})*?), ?(?P<third>{_ADDRESS}))"
    r"(?P<rest> [^ ]+ [^\[]*\[.*)$"
)
_BEGIN = rf'^(?:[^ ,"\[]+ )?(?:"(?:-|{_LISTED}[," ])|{_LISTED},)'


def without_list(text: pa.Array) -> tuple[Flags, pa.Array, pa.Array]:
    """Which lines begin with a list of addresses, behind a host or not; for these, the lines with the last address in
    place of the list, and the addresses in front of it."""
    found = flags_of(pc.match_substring_regex(text, _BEGIN))
    if not found.any():
        none = pa.nulls(0, pa.string())
        return found, none, none
    parts = pc.extract_regex(text.filter(pa.array(found)), _PATTERN)
    there = flags_of(pc.is_valid(parts))
    found[np.flatnonzero(found)[~there]] = False
    host, quoted, first, chain, second, others, third, rest = parts.filter(pa.array(there)).flatten()
    # Of the alternatives those that were not taken are empty.
    before = pc.binary_join_element_wise(quoted, chain, others, "")
    return found, pc.binary_join_element_wise(host, first, second, third, rest, ""), before


def forwarded(read: Read, before: pa.Array) -> Read:
    """The same with these addresses of proxies."""
    return Read(read.sound, {**read.columns, "forwarded": where(read.sound, before, None)})

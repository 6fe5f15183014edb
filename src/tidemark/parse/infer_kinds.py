"""The kinds of a column's values, by their form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of, matches, where
from tidemark.parse import durations
from tidemark.parse.logtime import any_time
from tidemark.parse.time_forms import ORDERS, ZONE, rewritten
from tidemark.parse.values import each_distinct, is_address

# So many of a sample's lines have to have the layout.
LEAST_SHARE = 0.95
# So many of the values that are there have to be of a kind.
MOST = 0.97
_MOST_REQUESTS = 0.8
_MOST_AGENTS = 0.5
# The times since 1970 that a log may have: from 2001 to 2037, because other numbers have as many digits.
_OLDEST, _NEWEST = 1_000_000_000, 2_145_916_800

METHODS = (
    "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "PROPFIND", "PROPPATCH", "MKCOL",
    "COPY", "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "PURGE", "MERGE", "SOURCE",
)  # fmt: skip
# Registered ones, and those that nginx, Cloudflare, IIS and AWS write.
_FURTHER_STATUSES = (
    419, 420, 430, 440, 444, 449, 450, 460, 463, 464, 494, 495, 496, 497, 498, 499, 509, 520, 521, 522, 523, 524, 525,
    526, 527, 529, 530, 561, 598, 599,
)  # fmt: skip
STATUSES = tuple(str(each) for each in sorted({*map(int, HTTPStatus), *_FURTHER_STATUSES}))
_METHOD = "|".join(METHODS)
# Zones with a name that others have, too, or that is in no standard.
_UNKNOWN_ZONES = (
    "BST", "IST", "AST", "ADT", "HST", "SST", "NST", "NDT", "AKST", "AKDT", "AEST", "AEDT", "ACST", "ACDT", "AWST",
    "NZST", "NZDT", "SAST", "WAT", "CAT", "EAT", "PKT", "HKT", "SGT", "KST", "PHT", "ICT", "BRT", "ART", "CLT", "COT",
    "PET", "GST", "TRT", "WIB", "WITA", "MEZ", "MESZ",
)  # fmt: skip
_PATTERNS = {
    "clock": r"^(?:[01]?\d|2[0-3]):[0-5]\d:[0-5]\d(?:[.,]\d{1,9})?$",
    "half": r"^[AaPp]\.?[Mm]\.?$",
    "zone": f"^(?:{ZONE})$",
    "unknown_zone": f"^(?:{'|'.join(_UNKNOWN_ZONES)})$",
    "method": rf"^(?i)(?:{_METHOD})$",
    "target": r"^(?:/|https?://[^/]|wss?://[^/]|\*$)",
    "path": r"^(?:/|\*$)",
    "url": r"^(?:https?|android-app|ios-app|wss?)://[^/\s]",
    "protocol": r"^(?i)HTTP/\d(?:\.\d)?$",
    "integer": r"^\d{1,18}$",
    "decimal": r"^\d+\.\d+$",
    "duration": r"^(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)? ?[A-Za-zµμ]+$|^\d+m$",
    "host": r"^(?i)(?:(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?\.)+[a-z][a-z0-9-]+|localhost)\.?(?::\d+)?$",
    "query": r"^\??[^=&/ ?]+=[^ ]*$",
    "country": r"^[A-Za-z]{2}$",
    "word": r"^[^\s]+$",
}
# The last part of an IPv6 address without brackets looks like a port.
_SURE_PORT = r"^(?:\d+\.\d+\.\d+\.\d+|\[.*\]):\d{1,5}$"
_WITH_PORT = rf"{_SURE_PORT}|:.*:\d{{1,5}}$"
_REQUEST = rf"^(?:{_METHOD}|[A-Z][A-Z_-]{{1,31}}) \S.* HTTP/\d(?:\.\d)?$"
_AGENT = r"Mozilla/\d|^[A-Za-z][\w.+ -]*/v?\d"
# A cache's result and status look like an agent, such as TCP_MISS/404. An agent with a plus sign for each blank is not
# read by anything.
_NO_AGENT = r"^[A-Z_]+/\d{3}$|^[A-Za-z]+/[\d.]+\+\("
_PORT = re.compile(r"^\[?([^\]%]*?)(?:%[^\]]*)?\]?(?::\d+)?$")
# What dates and times look like at least.
_DATE = r"^(?:\d{8}|\d{1,4}[-/. ](?:\d{1,2}|[A-Z][a-z]{2})[-/. ]\d{1,4})$"
_TIME = r"^\W*(?:\d{9,19}(?:\.\d+)?$|.*\d.*\d:[0-5]\d|\d{8}[ T_-]?\d{6})"
# Names of loggers: one of a Java package begins where a host ends; others end with what is no domain.
_LOGGER = (
    r"^(?:com|org|net|io|java|javax|jakarta|dev|de)\.|\.(?:access|error|log|logger|requests?|middleware)$"
)


@dataclass(frozen=True)
class Column:
    """The values of one field in the lines of a sample (NULL where a line lacks it), and its `name` if it has one."""

    name: str
    values: pa.Array

    @cached_property
    def missing(self) -> Flags:
        """The lines without a value: it is lacking, empty, or a dash."""
        none = flags_of(pc.is_null(self.values))
        return none | flags_of(pc.is_in(self.values, pa.array(["-", "", '""', "null", "None"])))

    @cached_property
    def present(self) -> pa.Array:
        """The values that are there."""
        return self.values.filter(pa.array(~self.missing))

    @property
    def share(self) -> float:
        """The share of lines that have a value."""
        return 1.0 - float(self.missing.mean()) if len(self.missing) else 0.0

    @property
    def has_ports(self) -> bool:
        """Whether all values are addresses with a port after each."""
        ported = matches(self.present, _WITH_PORT)
        sure = matches(self.present, _SURE_PORT)
        return "address" in self.kinds and bool(ported.all() and sure.any())

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds that fit all values: time, time_dmy, time_mdy, date, date_dmy, date_mdy, clock, half, zone,
        unknown_zone, epoch, address, addresses, request, method, target, path (one that has no host), url, protocol,
        status, integer, decimal, duration (with its unit), agent, host, query, country, word. Empty if no value is
        there."""
        return _kinds(self.present) if len(self.present) else frozenset()


def is_address_of(text: str) -> bool:
    """Whether a text is an address, also in brackets, with its zone, or with a port."""
    match = _PORT.match(text)
    return is_address(text) or (match is not None and is_address(match[1]))


def _kinds(values: pa.Array) -> frozenset[str]:
    kinds = {
        name
        for name, pattern in _PATTERNS.items()
        if _share(pc.match_substring_regex(values, pattern)) >= MOST
    }
    if "duration" in kinds and _share(pc.is_valid(durations.with_unit(values))) < MOST:
        kinds.discard("duration")
    if _share(pc.is_in(values, pa.array([*STATUSES, "000"]))) >= MOST:
        kinds.add("status")
    if _share(pc.match_substring_regex(values, _REQUEST)) >= _MOST_REQUESTS:
        return frozenset(("request",))
    agents = matches(values, _AGENT) & ~matches(values, _NO_AGENT)
    if "protocol" not in kinds and agents.mean() >= _MOST_AGENTS:
        kinds.add("agent")
    if "host" in kinds and _share(pc.match_substring_regex(values, _LOGGER)) > 1 - MOST:
        kinds.discard("host")
    return frozenset(kinds | _times(values) | _addresses(values))


def _times(values: pa.Array) -> set[str]:
    kinds = set()
    if _share(pc.match_substring_regex(values, _DATE)) >= MOST:
        dates = pc.binary_join_element_wise(values, "00:00:00", " ")
        plain = _valid(dates)
        kinds |= {f"date_{order}" for order in ORDERS if (_valid(dates, order) & ~plain).mean() >= MOST}
        if plain.mean() >= MOST:
            kinds.add("date")
    if _share(pc.match_substring_regex(values, _TIME)) < MOST:
        return kinds
    plain = _valid(values)
    digits = matches(values, r"^\d+(?:\.\d+)?$")
    kinds |= {f"time_{order}" for order in ORDERS if (_valid(values, order) & ~plain).mean() >= MOST}
    if (plain & ~digits).mean() >= MOST:
        kinds.add("time")
    elif (plain & digits).mean() >= MOST:
        seconds = pc.divide(any_time(values)[0].cast(pa.int64()), 1_000_000).drop_null()
        if pc.min(seconds).as_py() >= _OLDEST and pc.max(seconds).as_py() <= _NEWEST:
            kinds.add("epoch")
    return kinds


def _valid(values: pa.Array, order: str = "") -> Flags:
    return flags_of(pc.is_valid(any_time(rewritten(values, order))[0]))


def _addresses(values: pa.Array) -> set[str]:
    likely = matches(values, r"^[\[0-9A-Fa-f:][0-9A-Fa-f.:%\w\], ]*$|^unknown")
    if likely.mean() < MOST:
        return set()
    single = each_distinct(where(likely, values, None), lambda text: "1" if is_address_of(text) else None)
    if _share(pc.is_valid(single)) >= MOST:
        return {"address"}
    lists = each_distinct(where(likely, values, None), lambda text: "1" if _is_list(text) else None)
    return {"addresses"} if _share(pc.is_valid(lists)) >= MOST else set()


def _is_list(text: str) -> bool:
    return all(part == "unknown" or is_address_of(part) for part in re.split(r" *, *| +", text))


def _share(condition: pa.Array) -> float:
    return float(np.mean(flags_of(condition)))

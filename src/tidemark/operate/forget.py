"""Deletes one visitor's data: by visitor id, or by address for all its visitors. Or all that came of a site.

Rows are deleted in one swap between two batches, then the files that held them: from the tables with a row per line,
and from every table with a column `visitor_id`. Tables that follow one of these follow this change, too. Others do not
change: they have counts, and hashes in sketches.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.contract.quality_tables import ACCOUNTS, SITES
from tidemark.contract.store import Condition, Where
from tidemark.errors import SettingError, TableError
from tidemark.home import Home
from tidemark.operate.corrections import Corrections, correction
from tidemark.operate.prove import Holds, holding_text
from tidemark.operate.snapshot import Snapshot, at_snapshot
from tidemark.operate.upkeep import erase_old_versions
from tidemark.parse.remembered import remembered
from tidemark.store import deltalog
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream import lock
from tidemark.stream.following import catch_up, followers_of
from tidemark.stream.swap import Step, Swap

_PATIENCE_SECONDS = 60.0
_KEY = ["topic", "partition", "offset"]
_LIKE_AN_ADDRESS = re.compile(rb"(?<![0-9A-Za-z.])[0-9A-Fa-f.:]{2,50}(?![0-9A-Za-z])")

Deleted = TypeVar("Deleted")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Forgotten:
    """Deleted rows by table, tables whose old files the next upkeep must delete, and the number of deleted offsets of
    the topic; None if Kafka did not delete them."""

    rows: dict[str, int]
    files_left: list[str]
    records: int | None = None


def forget(home: Home, *, visitor: str = "", address: str = "") -> Forgotten:
    """Deletes the visitor `visitor` (an id as in silver.requests), or all that came from `address`.

    With `address`, however it is spelled, rejected lines that hold it go too; rejected lines have no visitor. Raises
    SettingError unless one of both is given and is one, TableError where a stopped pipeline has yet to read
    such lines.
    """
    if bool(visitor) == bool(address):
        raise SettingError("forget needs a visitor or an address", "Give --visitor or --address.")
    if visitor and not re.fullmatch("[0-9a-f]{32}", visitor := visitor.lower()):
        raise SettingError(
            f"{visitor!r} is no visitor id", "Give one as in silver.requests: 32 hexadecimal digits."
        )
    who = _canonical(address)
    if address and who is None:
        raise SettingError(
            f"{address!r} is no IP address",
            "Give an IPv4 or IPv6 address; lines with a host name are rejected.",
        )
    home, graph = home.on_files(), home.graph

    def delete(snapshot: Snapshot) -> _Rows | None:
        rows = _Rows.find(home, visitor, who)
        if _unread(home, snapshot, "visitor_id", rows.visitors):
            return None
        _delete(home, rows)
        return rows

    rows = _when_read(home, delete, "this visitor")
    counts = {
        graph.lines.name: rows.accepted.num_rows + rows.rejected.num_rows,
        graph.accepted.name: rows.accepted.num_rows,
        graph.rejected.name: rows.rejected.num_rows,
        **rows.visited,
    }
    return Forgotten(counts, erase_old_versions(home.only((*graph.appends, *graph.visited))))


def forget_site(home: Home, site: str) -> Forgotten:
    """Deletes all lines of a site, and all rows that were made of them. Raises SettingError for a site without lines,
    TableError as `forget`."""
    home, graph = home.on_files(), home.graph
    tables = (*graph.appends, *graph.derived)

    def delete(snapshot: Snapshot) -> dict[str, int] | None:
        if _unread(home, snapshot, "site", [site]):
            return None
        counts = {
            table.name: home.store.read(table, [[("site", "=", site)]], ["site"]).num_rows for table in tables
        }
        if not counts[graph.lines.name]:
            raise SettingError(f"there are no lines of a site {site!r}", "Check its name.")
        accepted, rejected = counts[graph.accepted.name], counts[graph.rejected.name]
        predicates = {name: f"site = {_text(site)}" for name, count in counts.items() if count}
        _swap(home, {site: accepted}, {site: rejected}, predicates)
        return counts

    counts = _when_read(home, delete, "this site")
    return Forgotten(counts, erase_old_versions(home.only((*tables, *graph.following))))


def _when_read(home: Home, delete: Callable[[Snapshot], Deleted | None], whose: str) -> Deleted:
    """Calls `delete` between two batches, again while it returns None: then the second flow has yet to read lines."""
    for table in home.tables:  # an earlier version's home lacks some until the pipeline's next start
        home.store.ensure(table)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with at_snapshot(home) as snapshot:
            if (deleted := delete(snapshot)) is not None:
                catch_up(followers_of(home), home)
                return deleted
        with lock.no_pipeline(home.settings) as stopped:
            if stopped or time.monotonic() > deadline:
                raise TableError(
                    f"a flow has yet to read lines of {whose}",
                    "Start the pipeline once, `tidemark run --once`, then try again.",
                )
        time.sleep(0.3)


@dataclass(frozen=True)
class _Rows:
    """Data of the visitor: keys of accepted and of rejected lines, their sites, the visitor ids,
    and the number of rows in the other tables."""

    accepted: pa.Table
    rejected: pa.Table
    visited: dict[str, int]
    visitors: list[str]

    @classmethod
    def find(cls, home: Home, visitor: str, address: Address | None) -> _Rows:
        store, graph = home.store, home.graph
        who: Condition = ("visitor_id", "=", visitor)
        if address:
            logged = pc.unique(store.read(graph.accepted, columns=["client_ip"])["client_ip"])
            who = ("client_ip", "in", _spellings(logged, address))
        accepted = store.read(graph.accepted, [[who]], [*_KEY, "site", "visitor_id"])
        visitors = [visitor] if visitor else pc.unique(accepted["visitor_id"]).to_pylist()
        rejected = graph.rejected.arrow_schema.empty_table()
        if address:
            lines = store.read(graph.rejected, columns=[*_KEY, "site", "value"])
            held = [_holds(value or b"", address) for value in lines["value"].to_pylist()]
            rejected = lines.filter(pa.array(held, pa.bool_()))
        theirs: Where = [[("visitor_id", "in", visitors)]]
        visited = {
            table.name: store.read(table, theirs, ["visitor_id"]).num_rows if visitors else 0
            for table in graph.visited
        }
        return cls(accepted, rejected, visited, visitors)


@remembered(65_536)
def _canonical(text: str) -> Address | None:
    """The address of a text, as IPv4 if it is an IPv4-mapped IPv6 address; None if it is not an address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _spellings(logged: pa.Array, address: Address) -> list[str]:
    """The spellings of the address in the logs. An IPv4 address has one, plus those as an IPv6 address."""
    likely = pc.or_(pc.match_substring(logged, ":"), pc.equal(logged, str(address)))
    return [text for text in logged.filter(likely).to_pylist() if _canonical(text) == address]


def holding(text: str) -> Holds:
    """Whether bytes hold an address in any spelling, or a text such as a visitor's id."""
    who = _canonical(text)
    if who is None:
        return holding_text([text])
    return lambda data: _holds(data, who)


def _holds(line: bytes, address: Address) -> bool:
    if address.version == 4 and str(address).encode() not in line and b":" not in line:
        return False  # the usual case, of which no other test is needed
    return any(_address_in(text.decode()) == address for text in _LIKE_AN_ADDRESS.findall(line))


def _address_in(text: str) -> Address | None:
    """The address of a text that may have punctuation around it, or a port behind it; None if it has none."""
    bare = text.strip(".:")
    return _canonical(text) or _canonical(bare) or _canonical(bare.rpartition(":")[0])


def _unread(home: Home, snapshot: Snapshot, column: str, values: Sequence[str]) -> bool:
    """Whether the second flow has not yet read rows with these values, of which it would make others."""
    log, system = home.lakehouse.log(home.graph.accepted), home.lakehouse.files.system
    wanted = pa.array(values, pa.string())
    for _, files in deltalog.waiting(log, snapshot.passed + 1):
        for file in files:
            path = f"{log.table}/{unquote(file)}"
            values_there = pq.read_table(path, columns=[column], filesystem=system)[column]
            if pc.any(pc.is_in(values_there.cast(pa.string()), wanted)).as_py():
                return True
    return False


def _delete(home: Home, rows: _Rows) -> None:
    graph = home.graph
    accepted = Counter(rows.accepted["site"].to_pylist())
    rejected = Counter(rows.rejected["site"].to_pylist())
    keys = pa.concat_tables([rows.accepted.select(_KEY), rows.rejected.select(_KEY)])
    # The log keeps the predicate, which must not name the visitors.
    theirs = f"md5(visitor_id) IN ({', '.join(_text(_md5(each)) for each in rows.visitors)})"
    predicates = {
        graph.lines.name: _these(keys),
        graph.accepted.name: _these(rows.accepted),
        graph.rejected.name: _these(rows.rejected),
        **{name: theirs for name, count in rows.visited.items() if count},
    }
    _swap(home, accepted, rejected, predicates)


def _swap(
    home: Home, accepted: Mapping[str, int], rejected: Mapping[str, int], predicates: Mapping[str, str]
) -> None:
    """Deletes rows by predicates of their tables, with the numbers of accepted and rejected lines by site."""
    store, swap = home.store, Swap(home.settings)
    steps = [Step(name, "delete", predicate) for name, predicate in predicates.items() if predicate]
    if any(accepted.values()) or any(rejected.values()):
        swap.discard()
        staged = DeltaRsStore(swap.staged)
        fewer = Corrections(
            {site: -accepted[site] for site in accepted}, {site: -rejected[site] for site in rejected}, {}
        )
        staged.ensure(SITES)
        staged.append_arrow(SITES, fewer.sites(store.read(SITES), SITES))
        staged.ensure(ACCOUNTS)
        staged.append_arrow(ACCOUNTS, correction(store, ACCOUNTS, "forget", fewer))
        steps += [Step(SITES.name, "overwrite"), Step(ACCOUNTS.name, "append")]
    if steps:
        swap.commit(steps)


def _these(keys: pa.Table) -> str:
    """A predicate for rows with these keys; empty for none."""
    offsets: dict[tuple[str, int], list[int]] = {}
    for row in keys.select(_KEY).to_pylist():
        offsets.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return " OR ".join(
        f"(topic = {_text(topic)} AND partition = {partition} AND offset IN ({', '.join(map(str, numbers))}))"
        for (topic, partition), numbers in offsets.items()
    )


def _md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"

"""Which field each column of a sample is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, matches
from tidemark.parse.infer_kinds import MOST, Column
from tidemark.parse.infer_names import fields_named, is_no_request, is_of_another
from tidemark.parse.infer_numbers import (
    is_named_duration,
    longest,
    looks_like_duration,
    shown_of,
    size_of,
    unit_of,
)
from tidemark.parse.infer_times import Fields, Roles, times_of

# Fewer lines than this may lack a status, because the client had gone.
MOST_WITHOUT_STATUS = 0.2
# So many different hosts at most, as a share of lines.
_MOST_HOSTS = 0.2
# So few lines may be of one client.
_FEW = 20


def roles_of(columns: Sequence[Column]) -> Roles | None:
    """The fields of lines with these columns; None if they are no requests."""
    if is_no_request([column.name for column in columns]):
        return None
    times = times_of(columns)
    if times is None:
        return None
    search = _Search(columns, dict(times.readings[0]))
    statuses = search.statuses()
    if not statuses:
        return None
    search.fields[statuses[0]] = "status"
    search.requests()
    search.addresses()
    if not search.is_request:
        return None
    search.others()
    first = search.fields
    notes = tuple(search.notes)
    if len(times.readings) > 1:
        rest = {number: name for number, name in first.items() if number not in times.readings[0]}
        return Roles((first, {**rest, **times.readings[1]}), times.question, notes)
    if len(statuses) > 1:
        rest = {number: name for number, name in first.items() if name != "status" and number != statuses[1]}
        shown = _shown(" or ", columns, statuses[:2])
        return Roles((first, {**rest, statuses[1]: "status"}), f"which is the status, {shown}?", notes)
    if search.question:
        return Roles((first, search.other), search.question, notes)
    return Roles((first,), "", notes)


@dataclass
class _Search:
    """Finds one field after the other, those that are certain first."""

    columns: Sequence[Column]
    fields: dict[int, str]
    notes: list[str] = field(default_factory=list)
    question: str = ""
    other: Fields = field(default_factory=dict)

    @property
    def is_request(self) -> bool:
        """Whether there is something of a request: its line, or what it asks for, with its method, its sender or the
        sender's agent."""
        names = set(self.fields.values())
        if "request" in names:
            return True
        agents = any("agent" in column.kinds for column in self.columns)
        beside = bool(names & {"client_ip", "forwarded", "protocol"})
        return ("target" in names and ("method" in names or beside or agents)) or (
            "method" in names and beside
        )

    def statuses(self) -> list[int]:
        """The columns that may be the status, more than one only if neither names nor values decide."""
        numbers = self._named("status", lambda column: "status" in column.kinds)
        usable = [number for number in numbers if self.columns[number].share >= 1 - MOST_WITHOUT_STATUS]
        always = [number for number in usable if self.columns[number].share == 1.0]
        if always and len(usable) > len(always) and not self._has_name(usable, "status"):
            usable = always
        first = usable[:1]
        values = [self.columns[number].values for number in usable]
        if (
            len(usable) > 1
            and self._has_name(usable, "status")
            and all(each.equals(values[0]) for each in values)
        ):
            return first
        return usable

    def requests(self) -> None:
        """The request line, or its parts."""
        self._unique("request", lambda column: "request" in column.kinds)
        if "request" in self.fields.values():
            return
        self._unique("method", lambda column: "method" in column.kinds)
        self._target()
        self._unique("protocol", self._is_protocol)
        target = next((number for number, name in self.fields.items() if name == "target"), None)
        if target is None:
            return
        has_query = flags_of(pc.match_substring(self.columns[target].values, "?")).any()
        named = [number for number in self._free() if self._has_name([number], "query")]
        behind = [number for number in (target + 1, *named) if number in self._free()]
        for number in behind:
            if "query" in self.columns[number].kinds and not has_query:
                self.fields[number] = "query"
                break

    def addresses(self) -> None:
        """The client's address, and the list of proxies."""
        lists = self._named("forwarded", lambda column: "addresses" in column.kinds)
        forwarded = self._addresses_named("forwarded")
        likely = self._named("client_ip", lambda column: "address" in column.kinds)
        single = [number for number in likely if number not in forwarded]
        if lists or forwarded:
            self.fields[(lists or forwarded)[0]] = "forwarded"
        if not single:  # the host that asks, as in LTSV
            single = self._addresses_named("host")
        single = [number for number in single if self.columns[number].share >= MOST] or single
        single = self._without_constant(single)
        if len(single) > 1 and self._has_name(single, "client_ip"):
            single = single[:1]
        if len(single) > 1:
            shown = _shown(" or ", self.columns, single[:2])
            self.question = f"which is the client's address, {shown}?"
            self.other = {single[1]: "client_ip"}
        if single:
            self.fields[single[0]] = "client_ip"

    def _addresses_named(self, name: str) -> list[int]:
        free = [number for number in self._free() if self._has_name([number], name)]
        return [number for number in free if "address" in self.columns[number].kinds]

    def _without_constant(self, numbers: list[int]) -> list[int]:
        """Without addresses that are the same in all lines: the server's own, or a proxy's. One whose name says that it
        is the client's stays, and the only one of few lines."""
        constant = [number for number in numbers if len(pc.unique(self.columns[number].present)) == 1]
        only = len(constant) == len(numbers)
        few = len(numbers) == 1 and len(self.columns[0].values) < _FEW
        if only and (few or self._has_name(numbers, "client_ip")):
            return numbers
        for number in constant if only else ():
            self.notes.append(f"{shown_of(self.columns[number])} is the same in all lines: left out")
        return [number for number in numbers if number not in constant]

    def others(self) -> None:
        """The fields that a request may lack."""
        self._unique("user_agent", lambda column: "agent" in column.kinds)
        self._unique("referrer", lambda column: "url" in column.kinds)
        self._unique("forwarded", lambda column: "addresses" in column.kinds)
        self._size()
        self._duration()
        self._unique("host", self._is_host)
        self._unique("edge_country", lambda column: "country" in column.kinds, by_name=True)
        self._unique("remote_user", lambda column: "word" in column.kinds, by_name=True)
        self._user_before_time()
        if self.question:
            taken = {number: name for number, name in self.fields.items() if name != "client_ip"}
            self.other = {**{n: name for n, name in taken.items() if n not in self.other}, **self.other}

    def _target(self) -> None:
        for kind in ("path", "target"):
            candidates = self._named("target", lambda column, kind=kind: kind in column.kinds)  # type: ignore[misc]
            candidates = [number for number in candidates if self.columns[number].share >= MOST]
            if len(candidates) > 1:
                candidates = self._with_query(candidates)
            if len(candidates) == 1:
                self.fields[candidates[0]] = "target"
                return
            if candidates:
                shown = _shown(" and ", self.columns, candidates)
                self.notes.append(f"{shown} may be the target: left out")
                return

    def _with_query(self, candidates: list[int]) -> list[int]:
        """The targets of which the others are the paths."""
        values = {number: self.columns[number].values for number in candidates}
        return [
            number
            for number, value in values.items()
            if all(
                _share_equal(pc.replace_substring_regex(value, r"\?.*$", ""), other) or other.equals(value)
                for other in values.values()
                if other is not value
            )
        ][:1] or candidates

    def _size(self) -> None:
        named = self._named("bytes", lambda column: "integer" in column.kinds, by_name=True)
        if named:
            self.fields[named[0]] = "bytes"
            return
        free = [
            number
            for number in self._free()
            if "integer" in self.columns[number].kinds
            and not self.columns[number].name
            and "status" not in self.columns[number].kinds
            and len(pc.unique(self.columns[number].present)) > 1
        ]
        number, note = size_of(self.columns, free, self.fields)
        if number is not None:
            self.fields[number] = "bytes"
        elif note:
            self.notes.append(note)

    def _duration(self) -> None:
        free = self._free()
        named = [number for number in free if is_named_duration(self.columns[number])]
        units = [number for number in free if "duration" in self.columns[number].kinds]
        plain = [
            number
            for number in free
            if not self.columns[number].name and looks_like_duration(self.columns[number])
        ]
        with_name = [number for number in units if self._has_name([number], "duration")]
        for candidates in (with_name or units, self._preferred(named, "duration"), plain):
            usable = candidates if len(candidates) < 2 else [longest(self.columns, candidates)]
            for number in usable:
                if number is None:
                    shown = _shown(" and ", self.columns, candidates)
                    self.notes.append(f"{shown} may be the duration: left out")
                    return
                column = self.columns[number]
                unit = "" if number in units else unit_of(column)
                if number in units:
                    self.fields[number] = "duration"
                elif unit:
                    self.fields[number] = f"duration_{unit}"
                else:
                    self.notes.append(f"{shown_of(column)} may be a duration in {_units(column)}: left out")
                return

    def _user_before_time(self) -> None:
        """A user as in the Common Log Format: two words after the address, and then the time."""
        place = {name: number for number, name in self.fields.items()}
        user = place.get("time", 0) - 1
        if place.get("client_ip") == user - 2 and user in self._free() and "remote_user" not in place:
            column = self.columns[user]
            if not column.name and not column.kinds - {"word"} and not self.columns[user - 1].kinds:
                self.fields[user] = "remote_user"

    def _is_protocol(self, column: Column) -> bool:
        bare = matches(column.present, r"^[123](?:\.[01])?$")
        named = "protocol" in fields_named(column.name) and len(bare) > 0 and bare.mean() >= MOST
        return "protocol" in column.kinds or bool(named)

    def _is_host(self, column: Column) -> bool:
        named = "host" in fields_named(column.name)
        kinds = column.kinds & {"host", "address"} if named else column.kinds & {"host"}
        few = len(pc.unique(column.present)) <= max(1, _MOST_HOSTS * len(column.present))
        return bool(kinds) and (named or few) and "target" not in column.kinds

    def _free(self) -> list[int]:
        return [
            number
            for number, column in enumerate(self.columns)
            if number not in self.fields and not is_of_another(column.name)
        ]

    def _named(self, name: str, is_one: Callable[[Column], bool], *, by_name: bool = False) -> list[int]:
        """The free columns that may be a field: those whose name says so, or else those whose name says nothing."""
        free = [number for number in self._free() if is_one(self.columns[number])]
        named = self._preferred([number for number in free if self._has_name([number], name)], name)
        if named or by_name:
            return named
        return [number for number in free if not fields_named(self.columns[number].name)]

    def _preferred(self, numbers: Sequence[int], name: str) -> list[int]:
        return sorted(numbers, key=lambda number: fields_named(self.columns[number].name)[name])

    def _has_name(self, numbers: Sequence[int], name: str) -> bool:
        return all(name in fields_named(self.columns[number].name) for number in numbers)

    def _unique(self, name: str, is_one: Callable[[Column], bool], *, by_name: bool = False) -> None:
        """Takes the only column that may be a field, or of several with a name of the field the preferred one."""
        if name in self.fields.values():
            return
        candidates = self._named(name, is_one, by_name=by_name)
        if candidates and (len(candidates) == 1 or self._has_name(candidates, name)):
            self.fields[candidates[0]] = name
        elif candidates:
            shown = _shown(" and ", self.columns, candidates)
            self.notes.append(f"{shown} may be the {name}: left out")


def _shown(between: str, columns: Sequence[Column], numbers: Sequence[int]) -> str:
    return between.join(shown_of(columns[number]) for number in numbers)


def _share_equal(one: object, other: object) -> bool:
    return bool(np.mean(flags_of(pc.equal(one, other))) >= MOST)


def _units(column: Column) -> str:
    decimals = flags_of(pc.match_substring(column.present, ".")).any()
    return "seconds or milliseconds" if decimals else "milliseconds or microseconds"

"""Newer data about addresses for a home: validated, compared with history, and installed."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import maxminddb
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, plain
from tidemark.errors import InputError, PlatformError
from tidemark.figures.query import count, query
from tidemark.figures.reader import ReadError
from tidemark.figures.silver import REQUESTS
from tidemark.home import Home
from tidemark.local.directories import prepare_home
from tidemark.parse import inventory, mmdb, newer
from tidemark.parse.columns import OF_ADDRESS, Knowledge, describe
from tidemark.parse.inventory import Data
from tidemark.parse.list_files import date_of, networks_of, reserved_in, text_of, validated
from tidemark.parse.networks import NetworkList, lists
from tidemark.parse.reading import Reading
from tidemark.settings import Settings
from tidemark.settings.privacy import EXACT

_CHUNK_ROWS = 50_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_REMEDY = (
    "Give an MMDB file of countries, autonomous systems or cities, a list of networks (.tsv), or an operator's files:"
    " named as there or like a list, or in a folder with its name. `tidemark data` names the lists."
)


@dataclass(frozen=True)
class Change:
    """Newer data: what it is, what it replaces, and the file to install it as: `text`, or a copy of `file`. `left_out`:
    reserved networks of an operator's files."""

    now: Data
    before: Data | None
    target: Path
    text: str | None = None
    file: Path | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Update:
    """The effect of new data: `lines` of the `of` lines of history would have another value, by column; None if no
    table could be compared."""

    changes: tuple[Change, ...]
    lines: Mapping[str, int] | None
    of: int
    version: str
    version_before: str


def update(settings: Settings, path: Path, *, dry_run: bool = False) -> Update:
    """Takes newer data from a file or a directory into the home, unless it is a `dry_run`, and says what that changes.
    History stays as it is until a rebuild.

    Raises InputError, before anything is changed, for a file that cannot be used, and for a path without data.
    """
    changes = tuple(_read(settings, path))
    if not changes:
        raise InputError(f"{path} has no data that Tidemark knows", _REMEDY)
    before, after = _knowledge(settings, ()), _knowledge(settings, changes)
    lines, of = _differing(settings, after)
    if not dry_run:
        _install(settings, changes)
    return Update(changes, lines, of, after.version, before.version)


def outdated(settings: Settings) -> tuple[dict[str, int], int]:
    """By column, how many lines of history would have another value by the data in use, most first, and how many lines
    there are; nothing if the table cannot tell. Raises InputError."""
    lines, of = _differing(settings, _knowledge(settings, ()))
    return dict(sorted((lines or {}).items(), key=lambda each: -each[1])), of


def _read(settings: Settings, path: Path) -> Iterator[Change]:
    if not path.exists():
        raise InputError(f"{path} does not exist", "Name a file or a directory.")
    known = {each.name: each for each in lists(newer.own_networks(settings))}
    present = {each.name: each for each in inventory.inventory(settings)}
    # As operators name their files, such as googlebot.json; a name that several lists have is none.
    sources = Counter(PurePosixPath(each.source).name for each in known.values())
    by_file = {
        PurePosixPath(each.source).name: name
        for name, each in known.items()
        if sources[PurePosixPath(each.source).name] == 1
    }
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    published: dict[str, list[Path]] = {}
    new: dict[str, str] = {}
    reserved: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file.suffix == ".mmdb":
            yield _database(settings, file)
        elif file.suffix == ".tsv":
            new[file.stem] = _text(file)
        else:
            name = next(
                (each for each in (file.parent.name, file.stem) if each in known), by_file.get(file.name)
            )
            if name is None and path.is_file():
                raise InputError(f"{path} is no data that Tidemark knows", _REMEDY)
            if name is not None:
                published.setdefault(name, []).append(file)
    validated = {name: _validated(name, text) for name, text in new.items()}
    cdns = [
        network
        for each in {**known, **validated}.values()
        if each.kind == "cdn"
        for network in networks_of(each)
    ]
    for name in sorted(published.keys() - new.keys()):
        texts = [_text(file) for file in published[name]]
        modified = max(file.stat().st_mtime for file in published[name])
        date = date_of(texts) or f"{datetime.fromtimestamp(modified, UTC):%Y-%m-%d}"
        new[name] = text_of(known[name], date, texts, cdns)
        reserved[name] = reserved_in(known[name], texts)
        validated[name] = _validated(name, new[name])
    for name, each in sorted(validated.items()):
        target = newer.networks_directory(settings) / f"{name}.tsv"
        left_out = reserved.get(name, ())
        yield Change(inventory.of_list(each), present.get(name), target, text=new[name], left_out=left_out)


def _validated(name: str, text: str) -> NetworkList:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is no name of a list", "Use small letters, digits and hyphens.")
    return validated(name, text)


def _database(settings: Settings, file: Path) -> Change:
    try:
        with maxminddb.open_database(file, maxminddb.MODE_FILE) as reader:
            kind = reader.metadata().database_type.lower()
    except (OSError, ValueError, LookupError, TypeError, maxminddb.InvalidDatabaseError) as error:
        raise InputError(
            f"{file} is no MMDB file: {error}", "Nothing was changed. Get the file again."
        ) from error
    setting = next((each for each, word in _WORDS if word in kind), None)
    if setting is None:
        raise InputError(
            f"{file}: its type {kind!r} does not say whether it has countries, autonomous systems or cities",
            f"Name it in one of the settings {', '.join(newer.DATABASES)} instead.",
        )
    if given := getattr(settings.meaning, setting):
        raise InputError(f"{setting} names {given}, which counts", f"Replace that file, or unset {setting}.")
    mmdb.require_records(str(file), setting)
    present = newer.database(settings, setting)
    before = inventory.of_database(present, setting) if present else None
    return Change(
        inventory.of_database(str(file), setting), before, newer.database_file(settings, setting), file=file
    )


_WORDS = (
    ("asn_database", "asn"),
    ("asn_database", "isp"),
    ("city_database", "city"),
    ("geo_database", "country"),
)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}", "Nothing was changed.") from error


def _knowledge(settings: Settings, changes: Sequence[Change]) -> Knowledge:
    """The knowledge for enriching lines after these changes. The key and the settings of sites do not matter here."""
    own = dict(newer.own_networks(settings))
    own |= {change.now.name: change.text for change in changes if change.text is not None}
    copied = {change.target: change.file for change in changes if change.file is not None}
    databases = {}
    for name in newer.DATABASES:
        file = copied.get(newer.database_file(settings, name))
        given = getattr(settings.meaning, name)
        databases[name] = given or (str(file) if file else newer.database(settings, name))
    return Knowledge(b"", reading=Reading(networks=tuple(sorted(own.items()))), **databases)


def _differing(settings: Settings, knowledge: Knowledge) -> tuple[dict[str, int] | None, int]:
    """By column, how many lines of history would have another value, and how many lines there are. Lines of sites whose
    addresses are masked keep what was found before that."""
    home = Home.of(settings)
    if home.lakehouse.can.files is None:
        return None, 0
    reader = home.on_files().store.reader
    if reader.version(REQUESTS) is None or not set(OF_ADDRESS) <= set(reader.contract(REQUESTS).columns):
        return None, 0
    keys = ("site", "client_ip", "user_agent", *OF_ADDRESS)
    # Lines of the same address and program have the same values.
    wanted = query(REQUESTS, {**{name: name for name in keys}, "lines": count()}, group_by=keys)
    try:
        grouped = reader.arrow(wanted)
    except ReadError:  # a rebuild says what is wrong
        return None, 0
    exact = [settings.privacy.of(site).level == EXACT for site in grouped["site"].to_pylist()]
    # The engine's views of texts have no kernels.
    kinds = [pa.int64() if name in ("lines", "asn") else pa.string() for name in grouped.column_names]
    schema = pa.schema(list(zip(grouped.column_names, kinds, strict=True)))
    grouped = grouped.cast(schema).filter(pa.array(exact, pa.bool_()))
    differing, of = dict.fromkeys(OF_ADDRESS, 0), 0
    for start in range(0, grouped.num_rows, _CHUNK_ROWS):
        rows = grouped.slice(start, _CHUNK_ROWS).combine_chunks()
        columns = {name: rows[name].combine_chunks() for name in ("client_ip", "user_agent")}
        nothing = pa.nulls(rows.num_rows, pa.string())
        fields = {**columns, **dict.fromkeys(("host", "referrer", "query", "path"), nothing)}
        now = describe(knowledge, pa.repeat("", rows.num_rows), fields)
        lines = rows["lines"].to_numpy()
        of += int(lines.sum())
        for name in OF_ADDRESS:
            value = plain(now[name])
            before = rows[name].combine_chunks().cast(value.type)
            neither = flags_of(pc.and_(pc.is_null(value), pc.is_null(before)))
            same = flags_of(pc.fill_null(pc.equal(value, before), False))
            differing[name] += int(lines[~(same | neither)].sum())
    return {name: lines for name, lines in differing.items() if lines}, of


def _install(settings: Settings, changes: Sequence[Change]) -> None:
    prepare_home(settings)
    try:
        for change in changes:
            change.target.parent.mkdir(parents=True, exist_ok=True)
            # In another directory, because a running pipeline watches that of the data.
            unfinished = settings.run_directory / f".{change.target.name}.{os.getpid()}"
            if change.file is not None:
                shutil.copyfile(change.file, unfinished)
            else:
                unfinished.write_text(change.text or "", encoding="utf-8")
            unfinished.replace(change.target)
    except OSError as error:
        raise PlatformError(
            f"the data cannot be installed: {error}", "Free space, or make the home writable."
        ) from error

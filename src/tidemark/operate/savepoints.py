"""Savepoints: named snapshots of the whole home, to restore or to fork.

A savepoint has the flows' checkpoints and one version of every table: a second set of its files and its log, so vacuum
does not affect it. In directories these are hard links, which take no space until the table changes. On object storage
the server copies them beside the tables. The checkpoints have the Kafka offsets, so a restored home
continues exactly there. A savepoint exists if its savepoint.json does, which is written last and removed first.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tidemark import __version__
from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.figures.toml_tables import toml_of
from tidemark.local.broker import bootstrap_servers
from tidemark.local.durable import sync_file
from tidemark.local.records import replace_text
from tidemark.privacy.salts import Salts
from tidemark.settings import Settings
from tidemark.store import deltalog
from tidemark.store.copies import take_all
from tidemark.store.lakehouse import Lakehouse, require_files
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.store.lease import only_writer
from tidemark.stream import lock
from tidemark.stream.crash import crash_point
from tidemark.stream.swap import Swap
from tidemark.stream.table_state import all_recorded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RECORD = "savepoint.json"


@dataclass(frozen=True)
class Savepoint:
    """Metadata of a savepoint. `offsets`: topic -> partition -> first offset that it does not contain, of several
    queries the lowest."""

    name: str
    created_at: str
    tidemark: str
    versions: dict[str, int]
    offsets: dict[str, dict[str, int]]
    files: int
    bytes: int


def create(settings: Settings, name: str) -> Savepoint:
    """Creates a savepoint of the home, with its pipeline and jobs running or not: of every table that is there, and of
    every checkpoint.

    Batches wait only while the checkpoints are copied. Raises SettingError for an unusable name, TableError for one
    that is taken, a home without tables, or a query that keeps its results elsewhere.
    """
    place, saved, lakehouse = _place(settings, name), _tables(settings, name), lakehouse_of(settings)
    if (place / _RECORD).exists():
        raise TableError(f"there is a savepoint {name} already", "Choose another name, or delete that one.")
    if not lakehouse.present():
        raise TableError(f"no tables yet in {lakehouse.name}", "Run `tidemark run` or `tidemark demo` first.")
    elsewhere = [
        f"{query} in {state.elsewhere}" for query, state in all_recorded(lakehouse).items() if state.elsewhere
    ]
    if elsewhere:
        raise TableError(
            f"a savepoint has tables and checkpoints, but not the results of {', '.join(elsewhere)}",
            "Run that job on a home of its own. It needs no savepoint to continue where it was.",
        )
    with lock.only_savepoint(settings):
        _clear_unfinished(settings)
        place.mkdir(parents=True)
        checkpoints = Path(saved.checkpoint_root)
        with lock.at_rest(settings):
            _copy_checkpoints(settings.checkpoints, checkpoints)
            versions = {table: lakehouse.delta(table).version() for table in lakehouse.present()}
        crash_point("savepoint:create")
        positions = [
            offset for path in deltalog.checkpoints(checkpoints) for offset in deltalog.offsets(path)
        ]
        files = size = 0
        for table, version in versions.items():
            source, target = lakehouse.directory(table), saved.directory(table)
            names = list(_files(lakehouse, table, version, positions))
            files += len(names)
            pairs = ((f"{source}/{file}", f"{target}/{file}") for file in names)
            size += take_all(saved.files, lakehouse.files, pairs)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        savepoint = Savepoint(name, now, __version__, versions, _in_kafka(positions), files, size)
        saved.sync()  # the record says that all of it is there
        crash_point("savepoint:before-done")
        replace_text(place / _RECORD, json.dumps(asdict(savepoint), indent=2) + "\n", durable=True)
    return savepoint


def savepoints(settings: Settings) -> list[Savepoint]:
    """All savepoints of the home, the oldest first."""
    saved = [_read(path) for path in (settings.home / "savepoints").glob(f"*/{_RECORD}")]
    return sorted(saved, key=lambda savepoint: (savepoint.created_at, savepoint.name))


def restore(
    settings: Settings, name: str, into: Settings | None = None, partitions: int | None = None
) -> Savepoint:
    """Replaces the home's tables and checkpoints by a savepoint's, or forks it `into` a new home.

    `partitions`: number of shuffle partitions of the restored pipeline, written as
    `shuffle_partitions` into its tidemark.toml. Neither pipeline nor job may run. Repeat a killed restore;
    until then the home refuses to run. Raises HomeBusyError beside a running one, TableError for an
    unknown savepoint or a new home that has tables of its own.
    """
    target = into or settings
    lakehouse, saved = lakehouse_of(target), _tables(settings, name)
    files = require_files(lakehouse, "`savepoint`")
    savepoint = _read(_place(settings, name) / _RECORD)
    mark = target.home / lock.RESTORING
    if into is not None and not mark.exists() and (lakehouse.layers() or target.checkpoints.exists()):
        raise TableError(
            f"{lakehouse.name} has tables already", "Give a new directory with --home, and tables of its own."
        )
    with lock.no_pipeline(target, nor_job=True) as stopped:
        if not stopped:
            raise HomeBusyError(
                f"a pipeline or a job is running on {target.home}", "Stop it before restoring a savepoint."
            )
        with lock.only_savepoint(target), only_writer(lakehouse, "a restoring savepoint", home=target.home):
            crash_point("restore:prepared")
            replace_text(mark, f"{name}\n", durable=True)
            for layer in lakehouse.layers():
                files.clear(layer)
            crash_point("restore:between")
            origin = saved.files.base
            pairs = [(f"{origin}/{path}", f"{files.base}/{path}") for path in saved.files.sizes(origin)]
            take_all(files, saved.files, pairs)
            crash_point("restore:between")
            _remove(target.checkpoints)
            _copy_checkpoints(Path(saved.checkpoint_root), target.checkpoints)
            Swap(target).discard()
            if into is not None:
                _take_over(settings, into)
            if partitions is not None:
                _set(target.home / "tidemark.toml", "shuffle_partitions", partitions)
            lakehouse.sync()
            crash_point("restore:before-end")
            mark.unlink()
    return savepoint


def saved_tables(settings: Settings, name: str) -> Lakehouse:
    """A savepoint's tables and checkpoints. Raises TableError if it does not exist."""
    _read(_place(settings, name) / _RECORD)
    return _tables(settings, name)


def delete(settings: Settings, name: str) -> None:
    """Deletes a savepoint. Raises TableError if it does not exist, or the home is half restored from it."""
    place = _place(settings, name)
    _read(place / _RECORD)
    with lock.only_savepoint(settings):
        lock.require_restored(settings, name)
        (place / _RECORD).unlink()
        sync_file(place)  # no record without its files
        _clear_unfinished(settings)


def _clear_unfinished(settings: Settings) -> None:
    """Deletes remains of savepoints that were not completely created or deleted."""
    for place in (settings.home / "savepoints").glob("*"):
        if not (place / _RECORD).exists():
            saved = _tables(settings, place.name)
            saved.files.clear(saved.files.base)
            _remove(place)


def _in_kafka(positions: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The lowest position by topic and partition."""
    offsets: dict[str, dict[str, int]] = {}
    for position in positions:
        if "reservoirId" in position:
            continue
        for topic, ends in position.items():
            known = offsets.setdefault(topic, dict(ends))
            known.update({partition: min(end, known.get(partition, end)) for partition, end in ends.items()})
    return offsets


def _files(
    lakehouse: Lakehouse, table: str, version: int, positions: Sequence[dict[str, Any]]
) -> Iterator[str]:
    """Relative names of the files of one version of a table: data, what streams at these positions have yet to read,
    and the log up to that version."""
    log, saved = lakehouse.log(table), lakehouse.delta(table, version)
    needed = {Path(unquote(uri)).name for uri in saved.file_uris()}
    id = saved.metadata().id
    for position in positions:
        if position.get("reservoirId") == id:
            for version_of_files, files in deltalog.waiting(log, int(position["reservoirVersion"])):
                if version_of_files <= version:
                    needed |= {unquote(file) for file in files}
    yield from sorted(needed)
    for info in log.entries():
        entry = deltalog.version_of(info.base_name)
        if entry is not None and entry <= version:
            yield f"_delta_log/{info.base_name}"


def _copy_checkpoints(source: Path, target: Path) -> None:
    """Copies checkpoints, because Spark changes them. Files that Spark deletes or has not finished are left out.

    Offsets come first, and only commits whose offsets are copied: a query that writes to Kafka goes on meanwhile, and
    others may finish a batch and plan the next one. Then the copy is that of a moment between two batches.
    """
    for first in (True, False):
        for path in _walk(source):
            kind = path.parent.name
            if (kind == "offsets") is not first or path.name.endswith((".tmp", ".tmp.crc")):
                continue
            if kind == "commits" and not (target / path.parent.parent / "offsets" / path.name).exists():
                continue
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copy2(source / path, target / path)


def _walk(top: Path, *directories: str) -> Iterator[Path]:
    """The files below a directory, or below some of its directories, by their paths in it."""
    places = [path for each in directories or ("",) for path in sorted((top / each).rglob("*"))]
    return (path.relative_to(top) for path in places if path.is_file())


def _take_over(settings: Settings, into: Settings) -> None:
    """Copies what a fork needs besides tables: the visitor key and the salts of its days, own formats, data about
    addresses, the sites' files of robots.txt, and the settings, with topic and Kafka."""
    salts = Salts.of(settings)
    salts.expire()
    for secret in (settings.home / "visitor.key", salts.path):
        if secret.exists():
            shutil.copy2(secret, into.home / secret.name)
    robots = [Path(site.robots) for site in settings.sites.values() if site.robots]
    for name in (*_walk(settings.home, "formats", "data"), *robots):
        own, there = settings.home / name, into.home / name
        if own.is_file() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(own, there)
    file = into.home / "tidemark.toml"
    if file.exists():
        return
    import tomlkit

    values = toml_of(settings.home / "tidemark.toml")
    values |= {"bootstrap_servers": bootstrap_servers(settings), "topic": settings.kafka.topic}
    values["tables_location"] = into.lakehouse.tables_location
    file.write_text(tomlkit.dumps(values), encoding="utf-8")
    file.chmod(0o600)


def _set(file: Path, setting: str, value: int) -> None:
    """Changes one setting of a tidemark.toml and keeps the others."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = f"{setting} = {value}"
    text, replaced = re.subn(rf"(?m)^{setting}\s*=.*$", line, text)
    replace_text(file, text if replaced else f"{line}\n{text}", mode=0o600)


def _place(settings: Settings, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SettingError(f"{name!r} cannot name a savepoint", "Use letters, digits, '.', '_' and '-'.")
    return settings.home / "savepoints" / name


def _tables(settings: Settings, name: str) -> Lakehouse:
    return lakehouse_of(settings).beside(settings.home, f"savepoints/{_place(settings, name).name}")


def _read(path: Path) -> Savepoint:
    try:
        return Savepoint(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise TableError(
            f"there is no savepoint {path.parent.name}", "`tidemark savepoint list` shows those there are."
        ) from None
    except (ValueError, TypeError) as error:
        raise TableError(f"savepoint {path.parent.name} is damaged: {error}", "Use another one.") from error


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path)

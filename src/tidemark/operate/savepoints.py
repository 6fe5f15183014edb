"""Savepoints: a named cut through the whole home that can be gone back to, or forked from.

A savepoint holds the flows' checkpoints and, of every table, one version: second names (hard links) for
its files and its log, so no vacuum can hurt it and it costs no space until the table moves on. The
checkpoints say where in Kafka to go on, so a restored home reads on exactly there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable

from tidemark import __version__
from tidemark.contract.table import Table
from tidemark.errors import HomeBusyError, SettingError, TableError
from tidemark.local.broker import bootstrap_servers
from tidemark.local.process import locked, prepare_home, replace_text
from tidemark.operate.upkeep import Streams
from tidemark.settings import Settings
from tidemark.store import deltalog, lakehouse
from tidemark.store.lakehouse import Lakehouse, require_directories
from tidemark.stream import lock
from tidemark.stream.crash import crash_point

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class Savepoint:
    """What a savepoint says of itself. `offsets`: topic -> partition -> first offset that it does not hold."""

    name: str
    created_at: str
    tidemark: str
    versions: dict[str, int]
    offsets: dict[str, dict[str, int]]
    files: int
    bytes: int


def create(
    settings: Settings,
    house: Lakehouse,
    name: str,
    tables: Sequence[Table],
    streams: Streams,
    reads_kafka: Path,
) -> Savepoint:
    """Makes a savepoint of the home, with its pipeline running or not.

    `reads_kafka` is the checkpoint of the flow that reads the topic. Batches wait only while the
    checkpoints are copied. Raises SettingError for an unusable name, TableError for one that is taken
    or a home without tables.
    """
    place = _place(settings, name)
    if place.exists():
        raise TableError(f"there is a savepoint {name} already", "Choose another name, or delete that one.")
    present = [table for table in tables if (Path(house.path(table)) / "_delta_log").is_dir()]
    if not present:
        raise TableError(f"no tables yet in {settings.home}", "Run `tidemark run` or `tidemark demo` first.")
    with _alone(settings):
        draft = place.with_name(_UNFINISHED)
        _remove(draft)
        draft.mkdir(parents=True)
        with lock.at_rest(settings):
            _copy_checkpoints(settings.checkpoints, draft / "checkpoints")
            versions = {table.name: DeltaTable(house.path(table)).version() for table in present}
        crash_point("savepoint:create")
        files = size = 0
        for table in present:
            first_unread = _first_unread(draft / "checkpoints", streams.get(table.name, ()))
            source, target = Path(house.path(table)), draft / "tables" / table.name.replace(".", "/")
            for name_of_file in _files(source, versions[table.name], first_unread):
                files += 1
                size += _link(source / name_of_file, target / name_of_file)
        offsets = deltalog.stream_offset(draft / "checkpoints" / reads_kafka.name)
        made = Savepoint(
            name, datetime.now(UTC).isoformat(timespec="seconds"), __version__, versions, offsets, files, size
        )
        (draft / "savepoint.json").write_text(json.dumps(asdict(made), indent=2) + "\n", encoding="utf-8")
        crash_point("savepoint:before-done")
        draft.rename(place)
    return made


def savepoints(settings: Settings) -> list[Savepoint]:
    """All savepoints of the home, the oldest first."""
    found = [_read(path) for path in (settings.home / "savepoints").glob("*/savepoint.json")
             if path.parent.name != _UNFINISHED]  # fmt: skip
    return sorted(found, key=lambda savepoint: (savepoint.created_at, savepoint.name))


def restore(
    settings: Settings, name: str, into: Settings | None = None, partitions: int | None = None
) -> Savepoint:
    """Puts a savepoint's tables and checkpoints in place of the home's, or forks it `into` a new home.

    `partitions`: how many parts the restored pipeline shuffles its state in, the rows of the tables; kept as
    `shuffle_partitions` in its tidemark.toml. The pipeline must not run. Killed half way, it is to be repeated;
    until then the home refuses to run. Raises HomeBusyError beside a running pipeline, TableError for an
    unknown savepoint or a new home that has tables of its own.
    """
    target = into or settings
    require_directories(lakehouse.of(target), "`savepoint`")
    source = _place(settings, name)
    made = _read(source / "savepoint.json")
    mark = target.home / lock.RESTORING
    if into is not None and (target.tables.exists() or target.checkpoints.exists()) and not mark.exists():
        raise TableError(f"{target.home} has tables already", "Give a new directory with --home.")
    with lock.no_pipeline(target) as stopped:
        if not stopped:
            raise HomeBusyError(
                f"a pipeline is running on {target.home}", "Stop it before restoring a savepoint."
            )
        with _alone(target):
            draft = target.home / ".restored"
            _remove(draft)
            for path in _walk(source / "tables"):
                _link(source / "tables" / path, draft / "tables" / path)
            _copy_checkpoints(source / "checkpoints", draft / "checkpoints")
            crash_point("restore:prepared")
            mark.write_text(f"{name}\n", encoding="utf-8")
            for part in (target.tables, target.checkpoints):
                _remove(part)
                crash_point("restore:between")
                (draft / part.name).rename(part)
            _remove(target.home / "swap")
            _remove(draft)
            if into is not None:
                _take_over(settings, into)
            if partitions is not None:
                _set(target.home / "tidemark.toml", "shuffle_partitions", partitions)
            crash_point("restore:before-end")
            mark.unlink()
    return made


def saved_tables(settings: Settings, name: str) -> Lakehouse:
    """A savepoint's tables and checkpoints. Raises TableError if there is none of that name."""
    place = _place(settings, name)
    _read(place / "savepoint.json")
    return Lakehouse(checkpoint_root=str(place / "checkpoints"), root=str(place / "tables"))


def delete(settings: Settings, name: str) -> None:
    """Deletes a savepoint. Raises TableError if there is none of that name."""
    place = _place(settings, name)
    _read(place / "savepoint.json")
    with _alone(settings):
        gone = place.with_name(_UNFINISHED)
        _remove(gone)
        place.rename(gone)
        _remove(gone)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keeps upkeep out, so that no file vanishes meanwhile, and other savepoints and rebuilds."""
    prepare_home(settings)
    with locked(settings.run_directory / "one-rebuild.lock", wait=False) as held:
        if not held:
            raise HomeBusyError(
                f"a rebuild or a savepoint is under way on {settings.home}", "Try again when it is done."
            )
        with locked(settings.run_directory / "upkeep.lock"):
            yield


def _files(table: Path, version: int, first_unread: int | None) -> Iterator[str]:
    """Names of the files of one version of a table, relative to it: data, and the log up to there."""
    log = table / "_delta_log"
    needed = {Path(unquote(uri)).name for uri in DeltaTable(table, version=version).file_uris()}
    if first_unread is not None:
        for found, files in deltalog.waiting(log, first_unread):
            if found <= version:
                needed |= {Path(unquote(file)).name for file in files}
    yield from sorted(needed)
    for path in sorted(log.iterdir()):
        entry = deltalog.version_of(path)
        if entry is not None and entry <= version:
            yield f"_delta_log/{path.name}"


def _first_unread(checkpoints: Path, readers: Sequence[Path]) -> int | None:
    offsets = [deltalog.stream_offset(checkpoints / reader.name) for reader in readers]
    return min((int(offset["reservoirVersion"]) for offset in offsets if offset), default=None)


def _copy_checkpoints(source: Path, target: Path) -> None:
    """Copied, because Spark goes on in them. What it deletes or has not finished meanwhile is left out."""
    for path in _walk(source):
        if path.name.endswith((".tmp", ".tmp.crc")):
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            shutil.copy2(source / path, target / path)


def _walk(top: Path) -> Iterator[Path]:
    return (path.relative_to(top) for path in sorted(top.rglob("*")) if path.is_file())


def _link(source: Path, target: Path) -> int:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target.stat().st_size


def _take_over(settings: Settings, into: Settings) -> None:
    """What a fork needs besides tables: the visitor key, and the same topic of the same Kafka."""
    key = settings.home / "visitor.key"
    if key.exists():
        shutil.copy2(key, into.home / "visitor.key")
    file = into.home / "tidemark.toml"
    if file.exists():
        return
    values: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        values = tomllib.loads((settings.home / "tidemark.toml").read_text(encoding="utf-8"))
    values |= {"bootstrap_servers": bootstrap_servers(settings), "topic": settings.topic}
    file.write_text(
        "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()), encoding="utf-8"
    )
    file.chmod(0o600)


def _set(file: Path, setting: str, value: int) -> None:
    """Sets one setting of a tidemark.toml and leaves the rest of it as it is."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = f"{setting} = {value}"
    text, found = re.subn(rf"(?m)^{setting}\s*=.*$", line, text)
    replace_text(file, text if found else f"{line}\n{text}", mode=0o600)


def _place(settings: Settings, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise SettingError(f"{name!r} cannot name a savepoint", "Use letters, digits, '.', '_' and '-'.")
    return settings.home / "savepoints" / name


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

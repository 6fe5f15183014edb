"""The commands of a home of log files, each in a process that may be killed.

After the batches of a command, checkpoints are written as Spark's queries would leave them, so that rebuilds,
savepoints, `forget` and upkeep work on the home.

`python -m tests.recovery.file_commands` runs commands, one JSON object a line, each in a fork of itself: starting
Python and loading the enrichment data takes longer than most commands.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.recovery.killing import traffic
from tidemark.contract.table import Table
from tidemark.engine.tasks import load
from tidemark.errors import TidemarkError, of_machine
from tidemark.home import ACTIVITY, QUERY_VERSIONS, REQUESTS
from tidemark.importing import journal
from tidemark.importing.file_import import ReadOptions, Report
from tidemark.importing.journal import Journal
from tidemark.importing.lines import Block
from tidemark.local import durable
from tidemark.local.records import replace_text
from tidemark.local.workers import worker_pool
from tidemark.operate import backfill, losses
from tidemark.operate.forget import forget
from tidemark.operate.savepoints import create, restore
from tidemark.operate.snapshot import UnsettledError
from tidemark.operate.upkeep import maintain
from tidemark.pipeline import TABLES, Pipeline
from tidemark.service.beside import Beside
from tidemark.service.files import FileRun, headers_of, records_of
from tidemark.settings import Settings
from tidemark.settings import load as load_settings
from tidemark.stream import inventory, lock, schema_check
from tidemark.stream.following import catch_up, followers_of
from tidemark.stream.metrics import Metrics
from tidemark.stream.schema_check import require_fitting
from tidemark.stream.table_state import incomplete

_ROOT = Path(__file__).parents[2]
# A command that has too little memory may wait so long.
_PATIENCE_SECONDS = 20.0
PART_RECORDS = 150
# The id that the checkpoints have in place of a query's: the writer of FileRun.
_QUERY = "files"
# Lines enough for most user agents of the traffic, whatever its seed.
_EXAMPLES = 1_000


def read(pipeline: Pipeline, wanted: Mapping[str, Sequence[str]], known: Mapping[str, str]) -> int:
    """Starts as a pipeline does, and reads the wanted files of each site; returns the number of new lines."""
    report = Report()
    with lock.only_one(pipeline.settings), _started(pipeline, known) as pool:
        for site, paths in wanted.items():
            run = FileRun(pipeline, pool, 1, site=site, part_records=PART_RECORDS)
            run.start(list(known))
            errors = run.read(paths, ReadOptions(say=lambda text: None), report)
            run.close()
            assert not errors, errors
    _record_positions(pipeline)
    return report.added


@contextmanager
def _started(
    pipeline: Pipeline, known: Mapping[str, str], remade: Sequence[Table] = ()
) -> Iterator[Executor]:
    """Checks the tables as a start of the pipeline does, and finishes batches of a killed process. `remade` are tables
    that are rebuilt right afterwards."""
    pipeline.require_key()
    for table in pipeline.tables:
        pipeline.store.ensure(table, table.reader_properties(pipeline.settings))
    require_fitting(pipeline.only([each for each in pipeline.tables if each not in remade]), QUERY_VERSIONS)
    losses.require_whole(pipeline)
    inventory.announce(pipeline, incomplete(pipeline.lakehouse))
    Beside(pipeline, Metrics()).note_changes()
    with lock.batch(pipeline.settings):
        catch_up(followers_of(pipeline), pipeline)
    with worker_pool(1) as pool:
        if left := Journal.read(pipeline.settings.home / journal.NAME).unfinished:
            # All batches that a killed process leaves are of one run, and so of one site.
            its_site = known[left[0].parts[0].path]
            unfinished = FileRun(pipeline, pool, 1, site=its_site, part_records=PART_RECORDS)
            unfinished.start(list(known))
            unfinished.close()
        _record_positions(pipeline)
        yield pool


def _record_positions(pipeline: Pipeline) -> None:
    """Writes the checkpoints that the queries would have after the last batch, as Spark does: no file in part."""
    accepted = pipeline.graph.accepted
    done = pipeline.store.committed(accepted, f"{REQUESTS}/{_QUERY}")
    if done < 0:
        return
    known = Journal.read(pipeline.settings.home / journal.NAME)
    assert not known.unfinished
    table = {
        "sourceVersion": 1,
        "reservoirId": str(pipeline.lakehouse.delta(accepted).metadata().id),
        "reservoirVersion": pipeline.store.version(accepted) + 1,
        "index": -1,
        "isStartingVersion": False,
    }
    positions = {REQUESTS: {pipeline.settings.kafka.topic: {"0": known.offset}}, ACTIVITY: table}
    for flow, position in positions.items():
        checkpoint = pipeline.checkpoint(flow)
        for log, lines in (("offsets", ["v1", "{}", json.dumps(position)]), ("commits", ["v1", "{}"])):
            (checkpoint / log).mkdir(parents=True, exist_ok=True)
            replace_text(checkpoint / log / str(done), "\n".join(lines))
        replace_text(checkpoint / "metadata", json.dumps({"id": _QUERY}))


def read_all(pipeline: Pipeline, known: Mapping[str, str]) -> str:
    """Reads the files of each site, and fills history."""
    read(
        pipeline,
        {site: [path for path in known if known[path] == site] for site in sorted(set(known.values()))},
        known,
    )
    return fill(pipeline)


def fill(pipeline: Pipeline) -> str:
    backfill.fill(pipeline, pipeline.rebuild)
    return ""


def rebuild(pipeline: Pipeline, table: str, known: Mapping[str, str]) -> str:
    """Where rows no longer fit and the last batch was interrupted, it finishes that first, as `rebuild_table` does."""
    names = ["silver.requests" if table == "all" else table]
    losses.require_whole(pipeline)
    try:
        pipeline.rebuild().run(names)
    except UnsettledError:
        unfit = schema_check.changed(pipeline)
        if not unfit:
            raise
        remade = [each for each in pipeline.tables if each.name in unfit]
        with lock.only_one(pipeline.settings), _started(pipeline, known, remade):
            pass
        pipeline.rebuild().run(names)
    return ""


def forget_address(pipeline: Pipeline, address: str) -> str:
    losses.require_whole(pipeline)
    return str(sum(forget(pipeline, address=address).rows.values()))


def maintain_all(pipeline: Pipeline) -> str:
    losses.require_tables(pipeline)
    return str(len(maintain(pipeline)))


def save(pipeline: Pipeline, name: str) -> str:
    settings = pipeline.settings
    losses.require_whole(pipeline)
    with lock.no_pipeline(settings):
        shutil.copy2(settings.home / journal.NAME, _saved_journal(settings, name))
    create(settings, name)
    return ""


def restore_to(pipeline: Pipeline, name: str) -> str:
    settings = pipeline.settings
    restore(settings, name)
    shutil.copy2(_saved_journal(settings, name), settings.home / journal.NAME)
    return ""


def _saved_journal(settings: Settings, name: str) -> Path:
    return settings.home / f"{name}.{journal.NAME}"


_TABLES = {table.name: table for table in TABLES}
_COMMANDS: Mapping[str, Callable[..., object]] = {
    "read": read,
    "catch_up": read_all,
    "fill": fill,
    "rebuild": rebuild,
    "forget": forget_address,
    "maintain": maintain_all,
    "save": save,
    "restore": restore_to,
}


def main() -> None:
    """Answers each command of standard input with its exit status and its result."""
    # Arrow's own pool takes large pages, which cost a fork more to clear than the rows of a command.
    pa.set_memory_pool(pa.system_memory_pool())
    warm = Settings.of(home=_ROOT / "no-home", visitor_key="k" * 32)
    pipeline = Pipeline.of(warm)
    # Each command would otherwise look up the user agents of its lines anew.
    examples = records_of([Block([line for _, line in traffic(0, _EXAMPLES)])], headers_of())
    lines = pipeline.lines(examples, topic="", first=0, arrived=datetime.now(UTC))
    load(pipeline.requests(pipeline.validation()).work, lines)
    # A killed process loses nothing of what it has written, and a sync waits for all other programs' files.
    durable.sync = lambda directories: None
    gc.collect()
    gc.freeze()  # a child that looks at these objects would copy them
    gc.disable()  # a command ends before it has much garbage
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        status, text = _forked(json.loads(line))
        os.write(answers, (json.dumps({"status": status, "text": text}) + "\n").encode())


def _forked(call: Mapping[str, Any]) -> tuple[int, str]:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        status = 1
        try:
            if call["mebibytes"]:  # a library that gets no memory writes a line, and aborts
                os.dup2(write_end, 2)
            _write(write_end, f"\n{json.dumps(_result(call))}")
            status = 0
        except BaseException:
            _write(write_end, traceback.format_exc())
        finally:
            os._exit(status)
    os.close(write_end)
    kind, _, seconds = call["moment"].partition(":")
    if kind == "after" or call["mebibytes"]:
        ending = os.pidfd_open(pid)
        ended, _, _ = select.select([ending], [], [], float(seconds or _PATIENCE_SECONDS))
        os.close(ending)
        if not ended:
            os.kill(pid, signal.SIGKILL)
    with os.fdopen(read_end) as file:
        text = file.read()
    _, code = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(code), text


def _result(call: Mapping[str, Any]) -> dict[str, str]:
    if not call["moment"].startswith("after:"):
        os.environ["TIDEMARK_CRASH_AT"] = call["moment"]
    settings = load_settings({}, call["environment"])
    try:
        with _little_memory(call["mebibytes"]):
            # All parts use the same handles of the tables.
            pipeline = Pipeline.of(settings, [_TABLES[name] for name in call["tables"]]).on_files()
            return {"text": str(_COMMANDS[call["command"]](pipeline, *call["arguments"]))}
    except TidemarkError as error:
        return {"problem": error.problem, "remedy": error.remedy}
    except BaseException as error:
        lack = of_machine(error)
        if lack is None:
            raise
        return {"problem": lack.problem, "remedy": lack.remedy}


@contextmanager
def _little_memory(mebibytes: int) -> Iterator[None]:
    """Lets this process take so many MiB more of address space than it has; 0: any number."""
    if not mebibytes:
        yield
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + (mebibytes << 20)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _write(descriptor: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()

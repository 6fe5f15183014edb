"""Makes the tables of a world of log files without Kafka and Spark, each command in a process that may be killed.

Files are read as `tidemark view` reads them (`FileRun`). After its batches, checkpoints are written as Spark's queries
would leave them, so that rebuilds, savepoints, `forget` and upkeep work on the home.

`python -m tests.recovery.file_engine` runs commands, one JSON object a line, each in a fork of itself: starting Python
and loading the enrichment data takes longer than most commands.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests import processes
from tests.recovery.killing import traffic
from tests.recovery.world import World, explained
from tidemark.contract.table import Table
from tidemark.engine.tasks import load
from tidemark.errors import TidemarkError, of_machine
from tidemark.home import ACTIVITY, QUERY_VERSIONS, REQUESTS
from tidemark.importing import journal
from tidemark.importing.file_import import Report
from tidemark.importing.files import ReadOptions
from tidemark.importing.journal import Journal
from tidemark.importing.lines import Block
from tidemark.local import durable
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
# How glibc ends a process that has no memory for the data of a new thread.
_NO_THREAD_DATA = 127
# The id that the checkpoints have in place of a query's: the writer of FileRun.
_QUERY = "files"
# Lines enough for most user agents of the traffic, whatever its seed.
_EXAMPLES = 1_000


@contextmanager
def commands() -> Iterator[subprocess.Popen[str]]:
    """The process that runs the commands of engines."""
    process = processes.Popen(
        [sys.executable, "-m", __name__], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.communicate(timeout=60)


class FileEngine:
    """An engine of a world (`tests.recovery.world.Engine`), whose commands a process runs.

    `behind`: the tables may lack lines of files, because an import was killed or a savepoint restored.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.behind = False

    def add(self, world: World, path: Path) -> int:
        return int(self._run(world, "read", {world.files[path][0]: [str(path)]}, sites_of(world)))

    def settle(self, world: World) -> None:
        if self.behind:
            self.catch_up(world)

    def catch_up(self, world: World) -> None:
        self._run(world, "catch_up", sites_of(world))
        self.behind = False

    def rebuild(self, world: World, table: str) -> None:
        self._run(world, "rebuild", table, sites_of(world))

    def repair(self, world: World) -> None:
        raise AssertionError("nothing was damaged")

    def save(self, world: World, name: str) -> None:
        self._run(world, "save", name)

    def restore(self, world: World, name: str) -> None:
        self.behind = True
        self._run(world, "restore", name)

    def forget(self, world: World, address: str) -> None:
        self._run(world, "forget", address)

    def maintain(self, world: World) -> None:
        self._run(world, "maintain")

    def kill(self, world: World, moment: str, command: str, *arguments: Any) -> str:
        """Runs a command that is killed at a moment of `tests.recovery.killing`, a point or `after:<seconds>`. Returns
        what became of it."""
        self.behind = True
        status, text = self._call(world, command, arguments, moment=moment)
        if status == -signal.SIGKILL:
            return f"killed at {moment}"
        try:
            return f"{moment} did not come: {_outcome(status, text)}"
        except TidemarkError as error:
            return f"{moment} did not come: {error}"

    def run_short_of_memory(self, world: World, mebibytes: int, command: str, *arguments: Any) -> str:
        """Runs a command that may take so much address space more than it has at its start. Returns what became of it:
        it was done, or an error says why not, or the line of a library that aborts that there is too little memory."""
        self.behind = True
        status, text = self._call(world, command, arguments, mebibytes=mebibytes)
        if status == -signal.SIGKILL:  # delta-rs waits for a thread that the system does not start
            return "ends never"
        if status not in (-signal.SIGABRT, _NO_THREAD_DATA):
            try:
                return _outcome(status, text)
            except TidemarkError as error:
                outcome = explained(error)
            assert "`tidemark repair`" not in outcome, outcome  # nothing was damaged
            return outcome
        match = re.search(".*(memory|thread|bad_alloc).*", text)
        assert match, text
        return match[0]

    def _run(self, world: World, command: str, *arguments: Any) -> str:
        return _outcome(*self._call(world, command, arguments))

    def _call(
        self, world: World, command: str, arguments: Sequence[Any], moment: str = "", mebibytes: int = 0
    ) -> tuple[int, str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin and stdout
        call = {
            "environment": world.settings.environment(),
            "moment": moment,
            "mebibytes": mebibytes,
            "command": command,
            "tables": [table.name for table in world.tables],
            "arguments": arguments,
        }
        stdin.write(json.dumps(call) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        return answer["status"], answer["text"]


def sites_of(world: World) -> dict[str, str]:
    """The sites of the files, by path."""
    return {str(path): site for path, (site, _) in world.files.items()}


def _outcome(status: int, text: str) -> str:
    """The result of a command. Raises its TidemarkError, and AssertionError for any other failure."""
    assert status == 0, f"status {status}: {text}"
    result = json.loads(text.splitlines()[-1])
    if "problem" in result:
        raise TidemarkError(result["problem"], result["remedy"])
    return str(result["text"])


# Commands, each within a process of its own.


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
    """Writes the checkpoints that the queries would have after the last batch."""
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
            (checkpoint / log / str(done)).write_text("\n".join(lines), encoding="utf-8")
        (checkpoint / "metadata").write_text(json.dumps({"id": _QUERY}), encoding="utf-8")


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

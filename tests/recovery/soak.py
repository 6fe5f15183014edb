"""`python -m tests.recovery.soak`: scenario after scenario of killed processes and random actions, each table compared.

Seeds are consecutive from `--seed`; a failing one prints how to play it again. Every tenth seed is played on Kafka
and Spark: its home and its topic are its own, the broker is shared, and among those killed. An action takes seconds
there, so the other seeds play theirs on homes of log files, which share most of the code, in processes beside it.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path

from tests.cluster.s3_server import s3_server
from tests.pipeline.harness import fresh, produce, run_process
from tests.recovery.actions import play_actions
from tests.recovery.file_actions import play_on_files
from tests.recovery.killing import traffic
from tests.recovery.scenario import Plan, play
from tests.recovery.world import Say
from tidemark.local import broker as embedded
from tidemark.settings import Settings
from tidemark.spark import spark_session

_PIPELINE_EVERY = 10
# The tables are shared out among so many homes of log files, because commits take most of an action's time.
_HOMES = 4

# Plays a seed in a directory, and returns how many kills, lines and actions of each kind it had.
PlaySeed = Callable[[int, Path], Mapping[str, int]]


def main() -> int:
    """Plays the scenarios; the exit status is the number of failed ones, at most 100."""
    options = _options()
    place = Path(tempfile.mkdtemp(prefix="tidemark-soak-", dir=options.directory))
    begun, totals, failed = time.monotonic(), Counter[str](), []
    played = _play_all(options, place)
    try:
        for number, (seed, counts) in enumerate(played, start=1):
            _say(f"{number} of {options.scenarios} played")
            totals.update(counts or {})
            if counts is None:
                failed.append(seed)
                if options.exitfirst:
                    break
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    finally:
        played.close()
        _say(
            f"{totals['kills']} kills over {totals['lines']:,} lines, {totals['actions on pipelines']} random actions"
            f" on pipelines and {totals['actions on files']} on homes of log files,"
            f" {time.monotonic() - begun:.0f} s; {len(failed)} scenarios failed"
            f"{f': seeds {failed}' if failed else ''}"
        )
    if not failed:
        shutil.rmtree(place, ignore_errors=True)
    return min(len(failed), 100)


def _play_all(options: argparse.Namespace, place: Path) -> Iterator[tuple[int, Mapping[str, int] | None]]:
    """Yields each seed with what it had, as soon as it ended; with nothing if it failed."""
    every = {"pipelines": 1, "files": 0}.get(options.only, _PIPELINE_EVERY)
    seeds = range(options.seed, options.seed + options.scenarios)
    on_pipelines = [seed for seed in seeds if every and seed % every == 0]
    with ExitStack() as stack:
        beside = stack.enter_context(ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")))
        stack.callback(beside.shutdown, wait=False, cancel_futures=True)
        on_files = {
            beside.submit(_play, seed, options, place, None): seed
            for seed in seeds
            if seed not in on_pipelines
        }
        if on_pipelines:
            on_pipeline = stack.enter_context(_pipelines(options, place))
            for seed in on_pipelines:
                yield seed, _play(seed, options, place, on_pipeline)
        for ended in as_completed(on_files):
            yield on_files[ended], ended.result()


def _play(
    seed: int, options: argparse.Namespace, place: Path, on_pipeline: PlaySeed | None
) -> Mapping[str, int] | None:
    """Plays one seed, says how it ended, and returns what it had."""
    directory, begun = place / f"seed-{seed}", time.monotonic()
    directory.mkdir()
    _say(f"seed {seed} {'on Kafka and Spark' if on_pipeline else 'on log files'}")
    try:
        if on_pipeline:
            counts = on_pipeline(seed, directory)
        else:
            done = play_on_files(seed, options.actions, directory, _speaker(options), homes=_HOMES)
            counts = {"actions on files": done.total()}
    except Exception:
        _say(f"seed {seed} FAILED, its home is {directory}\n{traceback.format_exc()}")
        _say(f"play it again: {_again(seed, options, 'pipelines' if on_pipeline else 'files')}")
        return None
    shutil.rmtree(directory, ignore_errors=True)
    _say(f"seed {seed}: every table equal, {time.monotonic() - begun:.1f} s")
    return counts


@contextmanager
def _pipelines(options: argparse.Namespace, place: Path) -> Iterator[PlaySeed]:
    """Starts a broker, which all scenarios share, and with `--s3` a server for their tables."""
    say = _speaker(options)
    home = Settings.of(home=place / "broker", broker_port=0, dashboard_port=0, broker_nodes=options.brokers)
    home = home.changed(topic_partitions=max(options.brokers, home.kafka.partitions))
    with ExitStack() as stack:
        broker = stack.enter_context(embedded.running(home))
        if options.s3:
            server = stack.enter_context(s3_server(home, place))
            os.environ.update(server.environment)
            broker = broker.changed(tables_location="s3a://lake", spark_options=server.spark_options)
        classes = _share_classes(broker, place)
        if options.actions:
            spark_session(broker.changed(home=place / "spark"))  # outlives the homes of the scenarios

        def play_seed(seed: int, directory: Path) -> Mapping[str, int]:
            gc.collect()  # clients of Kafka, which would look for the brokers of all scenarios before
            plan = Plan.of(seed, options.kills, options.lines)
            say(str(plan))
            done = {"kills": play(plan, broker, directory, say, classes), "lines": len(plan.pairs)}
            if options.actions:
                played = play_actions(seed, options.actions, broker, directory / "actions", say)
                done["actions on pipelines"] = played.total()
            return done

        yield play_seed


def _share_classes(broker: Settings, place: Path) -> str:
    """A JVM option that spares each start the loading of Spark's classes, a quarter of its work."""
    archive = place / "classes.jsa"
    settings = fresh(broker, place / "first")
    options = f"{settings.spark.driver_java_options} -XX:ArchiveClassesAtExit={archive}"
    settings = settings.changed(driver_java_options=options)
    produce(settings, traffic(seed=0, lines=500))
    output, _ = run_process(settings).communicate(timeout=300)
    _say("ready" if archive.exists() else f"no class archive: {output.strip()[-300:]}")
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery.soak", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--kills", type=int, default=5, help="processes killed in each (default 5)")
    parser.add_argument("--actions", type=int, default=100, help="random actions in each (default 100)")
    parser.add_argument("--lines", type=int, default=10_000, help="log lines in each (default 10,000)")
    parser.add_argument("--brokers", type=int, default=1, help="nodes of the broker (default 1)")
    parser.add_argument("--s3", action="store_true", help="tables on an S3 server")
    parser.add_argument("--only", choices=["pipelines", "files"], help="homes of one kind (default: both)")
    parser.add_argument("--jobs", type=int, default=1, help="processes for homes of log files (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="the first scenario's seed (default 1)")
    parser.add_argument("--directory", help="where homes are made; those of failed scenarios are left there")
    parser.add_argument("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="say which process is killed when")
    return parser.parse_args()


def _again(seed: int, options: argparse.Namespace, kind: str) -> str:
    where = f"--brokers {options.brokers} --only {kind}{' --s3' if options.s3 else ''}"
    return (
        f"python -m tests.recovery.soak --scenarios 1 --seed {seed} --kills {options.kills}"
        f" --actions {options.actions} --lines {options.lines} {where} -v"
    )


def _speaker(options: argparse.Namespace) -> Say:
    return _say if options.verbose else lambda text: None


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

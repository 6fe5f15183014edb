"""`python -m tests.recovery.soak`: scenario after scenario of killed processes and random actions, each table compared.

Seeds are consecutive from `--seed`; a failing one prints how to play it again. Every scenario has a home and a
topic of its own; all share one broker, which is among those killed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.pipeline.harness import fresh, produce, run_process
from tests.recovery.actions import play_actions
from tests.recovery.killing import traffic
from tests.recovery.scenario import Plan, play
from tidemark.local import broker as embedded
from tidemark.settings import Settings
from tidemark.spark import spark_session


def main() -> int:
    """Plays the scenarios; the exit status is the number of failed ones, at most 100."""
    options = _options()
    place = Path(tempfile.mkdtemp(prefix="tidemark-soak-", dir=options.directory))
    home = Settings.of(home=place / "broker", broker_port=0, dashboard_port=0)
    started = embedded.start(home)
    broker = home.changed(bootstrap_servers=started.bootstrap_servers)
    begun, killed, lines, failed = time.monotonic(), 0, 0, []
    acts: Counter[str] = Counter()
    try:
        shared = _share_classes(broker, place)
        if options.actions:
            spark_session(broker.changed(home=place / "spark"))  # outlives the homes of the scenarios
        for number, seed in enumerate(range(options.seed, options.seed + options.scenarios), start=1):
            plan = Plan.of(seed, options.kills, options.lines)
            directory = place / f"seed-{seed}"
            directory.mkdir()
            before = time.monotonic()
            _say(f"[{number}/{options.scenarios}] seed {seed}: {plan}")
            try:
                say = _say if options.verbose else lambda text: None
                killed += play(plan, broker, directory, say, shared)
                if options.actions:
                    acts.update(play_actions(seed, options.actions, broker, directory / "actions", say))
            except Exception:
                failed.append(seed)
                _say(f"seed {seed} FAILED, its home is {directory}\n{traceback.format_exc()}")
                _say(f"play it again: {_again(seed, options)}")
                if options.exitfirst:
                    break
                continue
            lines += len(plan.pairs)
            shutil.rmtree(directory, ignore_errors=True)
            _say(f"seed {seed}: every table equal, {time.monotonic() - before:.1f} s")
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    finally:
        embedded.stop(home)
        _say(
            f"{killed} kills over {lines:,} lines, {acts.total()} random actions, {time.monotonic() - begun:.0f} s;"
            f" {len(failed)} scenarios failed{f': seeds {failed}' if failed else ''}"
        )
    if not failed:
        shutil.rmtree(place, ignore_errors=True)
    return min(len(failed), 100)


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
    parser.add_argument("--seed", type=int, default=1, help="the first scenario's seed (default 1)")
    parser.add_argument("--directory", help="where homes are made; those of failed scenarios are left there")
    parser.add_argument("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="say which process is killed when")
    return parser.parse_args()


def _again(seed: int, options: argparse.Namespace) -> str:
    return (
        f"python -m tests.recovery.soak --scenarios 1 --seed {seed} --kills {options.kills}"
        f" --actions {options.actions} --lines {options.lines} -v"
    )


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

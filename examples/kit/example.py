"""An example: a job with generated input, a view of its results, a recount, and the command that runs it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from examples.kit.job import Job
from examples.kit.load import Event, Load
from examples.kit.results import Results, differences, once
from tidemark.errors import TidemarkError
from tidemark.local.broker import located
from tidemark.settings import Settings, load
from tidemark.signals import stop_signals

_SHOWN_DIFFERENCES = 20
# Nice value of a job's followers, relative to the job.
GIVE_WAY = 19
# Settings of a temporary home: any free port, and only C1, because the run ends before the JVM's optimizing
# compiler pays off.
_SHORT_LIVED = 'broker_port = 0\ndriver_java_options = "-XX:TieredStopAtLevel=1"\n'


@dataclass(frozen=True)
class Example:
    """The declaration of an example for `main`.

    `module` is the Python module to run (`examples.<name>`). `events` generates the input: the same load gives the
    same events in the same order. `show` is called about once a second and returns new results as lines.
    `check` recounts the results from the load alone and returns the differences. Dead letters are
    compared for every example. `rate` is the default, in events per second.
    """

    module: str
    job: Job
    events: Callable[[Load], Iterator[Event]]
    show: Callable[[Results], Iterable[str]]
    check: Callable[[Load, Results], Iterable[str]]
    rate: float = 200.0


def main(example: Example) -> None:
    """The command line of an example. Exit status 1 if `--check` finds a difference or a part fails."""
    try:
        _command(example)(prog_name=f"python -m {example.module}", standalone_mode=False)
    except TidemarkError as error:
        click.echo(f"{example.job.name}: {error}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)


def recount(example: Example, load: Load, results: Results) -> list[str]:
    """All differences from the load, one line each."""
    different = list(example.check(load, results))
    wanted = Counter((e.topic, e.value, e.reason) for e in example.events(load) if e.reason)
    letters: Counter[tuple[str, bytes, str]] = Counter()
    for topic in example.job.inputs:
        for message in once(results.messages(topic.dead_letters)):
            letters[topic.topic, message.value, message.headers.get("reason", "")] += 1
    return [*different, *differences("dead letter", wanted, letters)]


def _command(example: Example) -> click.Command:
    @click.command(help=f"Run the example {example.job.name} until Ctrl-C, or for a while.")
    @click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Seconds of input.")
    @click.option(
        "--rate",
        type=click.FloatRange(min=0, min_open=True),
        default=example.rate,
        show_default=True,
        help="Events per second.",
    )
    @click.option(
        "--seed", type=int, default=0, show_default=True, help="The same seed gives the same input."
    )
    @click.option(
        "--late",
        type=click.FloatRange(0, 1),
        default=0.2,
        show_default=True,
        help="Share of the events that arrive out of order.",
    )
    @click.option(
        "--check",
        is_flag=True,
        help="Kill the job in the middle, let it finish, recount its results; for 20 s unless --seconds says.",
    )
    @click.option("--home", type=click.Path(path_type=Path), help="Keep all state here; default: nowhere.")
    @click.option("--part", hidden=True)
    def command(
        home: Path | None, part: str | None, check: bool, seconds: float | None, **options: Any
    ) -> None:
        if check and seconds is None:
            seconds = 20.0
        wanted = Load(seconds=seconds, **options)
        if part is not None:
            assert home is not None
            _run_part(example, part, load({"home": home}), wanted)
            return
        with ExitStack() as stack:
            sys.exit(_run(example, _settings(home, stack), wanted, check))

    return command


def _settings(home: Path | None, stack: ExitStack) -> Settings:
    if home is not None:
        return load({"home": home})
    directory = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="tidemark-", ignore_cleanup_errors=True)
    )
    # In a file, so that the processes of the parts know it, too.
    (Path(directory) / "tidemark.toml").write_text(_SHORT_LIVED, encoding="utf-8")
    return load({"home": Path(directory)})


def _run_part(example: Example, part: str, settings: Settings, wanted: Load) -> None:
    if part != "load":
        from examples.kit.run import run_job

        if part != "job":
            os.nice(GIVE_WAY)
        jobs = {"job": example.job} | {follower.name: follower for follower in example.job.followers}
        run_job(jobs[part], settings)
        return
    from examples.kit.load import send
    from examples.kit.run import all_ready

    with stop_signals() as stop:
        send(example.events(wanted), located(settings).kafka, stop, partial(all_ready, example.job, settings))


def _run(example: Example, settings: Settings, wanted: Load, check: bool) -> int:
    from examples.kit.conductor import Conductor

    results = Results(settings)

    def show() -> None:
        for line in example.show(results):
            click.echo(line)

    with Conductor(example.job, example.module, settings, wanted) as conductor:
        finished = conductor.run(show, kill=check, say=click.echo)
        if not check:
            return 0
        if not finished:
            click.echo(f"{example.job.name}: interrupted, nothing was checked", err=True)
            return 130
        results.outages = conductor.outages()
        wrong = recount(example, wanted, results)
    for line in wrong[:_SHOWN_DIFFERENCES]:
        click.echo(line, err=True)
    if wrong:
        click.echo(f"{example.job.name}: {len(wrong)} differences from the recount", err=True)
        return 1
    click.echo(f"{example.job.name}: killed once, recounted, equal")
    return 0

"""`tidemark generate`: realistic traffic into Kafka or a file."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tqdm import tqdm

from tidemark.cli import home_options, settings_of
from tidemark.cli.lines import FormatName
from tidemark.errors import SettingError
from tidemark.settings import Settings
from tidemark.signals import stop_signals

if TYPE_CHECKING:
    from tidemark.cli.week import Sent
    from tidemark.traffic.lines import LineFormat

_REPORT_SECONDS = 10.0
_LEAST_SPEED = 1e-3


@click.command("generate")
@home_options
@click.option("--rate", type=float, default=200.0, show_default=True, help="Lines per second of event time.")
@click.option("--seconds", type=int, help="Event time to cover; default: no end.")
@click.option(
    "--start-time", metavar="ISO", help="Time of the first line, UTC unless it has an offset; default: now."
)
@click.option("--speed", type=float, default=1.0, show_default=True, help="Seconds of event time per second.")
@click.option("--seed", type=int, help="The same seed and settings give the same lines; default: random.")
@click.option("--site", default="default", show_default=True, help="Site of the lines.")
@click.option("--visitors", type=int, default=100_000, show_default=True, help="Number of distinct people.")
@click.option(
    "--late", type=float, default=0.0, show_default=True, help="Fraction of lines that arrive late."
)
@click.option("--late-by", type=int, default=1800, show_default=True, help="Maximum lateness in seconds.")
@click.option("--malformed", type=float, default=0.0, show_default=True, help="Fraction of malformed lines.")
@click.option(
    "--format",
    "log_format",
    type=FormatName(),
    metavar="FORMAT",
    default="combined",
    show_default=True,
    help="Format of the lines, see docs/formats.md.",
)
@click.option(
    "--request-time",
    is_flag=True,
    help="Add the request time to lines of combined, common and vhost_combined.",
)
@click.option(
    "--outage",
    "outages",
    type=(int, int),
    multiple=True,
    metavar="AFTER SECONDS",
    help="From so many seconds of event time on, and for so many, every response is 503. May be repeated.",
)
@click.option(
    "--silence",
    "silences",
    type=(int, int),
    multiple=True,
    metavar="AFTER SECONDS",
    help="The same without any line. May be repeated.",
)
@click.option("--rhythm", is_flag=True, help="Vary the rate over the day; --rate is then the mean.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to a file (.gz, or - for stdout) instead of Kafka.",
)
@click.option(
    "--truth", type=click.Path(path_type=Path), help="Write the exact expected counts as JSON (.gz)."
)
@click.option("--demo", is_flag=True, hidden=True)
@click.pass_context
def generate_command(
    ctx: click.Context,
    /,
    home: Path | None,
    bootstrap_servers: str | None,
    start_time: str | None,
    seed: int | None,
    speed: float,
    log_format: str,
    output: Path | None,
    truth: Path | None,
    demo: bool,
    **options: Any,
) -> None:
    """Generate realistic web traffic of people and bots from many countries.

    Lines go to Kafka when they are due, or with --output to a file at full speed.
    The same seed generates the same people again, at the new times.
    """
    from tidemark.local.broker import located
    from tidemark.local.records import write_record
    from tidemark.traffic.schedule import paced
    from tidemark.traffic.sinks import first_lines, prepare, send, write_file
    from tidemark.traffic.stream import Block, Outcome, Traffic, blocks
    from tidemark.traffic.truth import Truth

    settings = settings_of(ctx, home=home, bootstrap_servers=bootstrap_servers)
    if not _LEAST_SPEED <= speed < inf:
        raise SettingError(f"speed is {speed:g}", f"Use a number of at least {_LEAST_SPEED:g}.")
    traffic = Traffic(
        start=_start(start_time),
        seed=secrets.randbits(32) if seed is None else seed,
        format=log_format,
        own=_own_format(log_format, settings),
        **options,
    )
    if output is None:
        settings = located(settings)
    sent = _sent(settings) if demo else None
    if output is None:
        prepare(settings.kafka)
    expected = Truth(timed=traffic.timed)
    outcomes_wanted = truth is not None or sent is not None
    total = None if traffic.seconds is None else round(traffic.rate * traffic.seconds)
    with stop_signals(second_ends=True) as stop, _reporting(total) as report:

        def count(outcomes: list[Outcome]) -> None:
            if truth is not None:
                expected.extend(traffic.site, outcomes)
            if sent is not None:
                sent.tally.extend(outcomes)

        def taken(block: Block, behind: float) -> None:
            count(block.outcomes)
            report.add(len(block.lines), behind)

        if output is not None:
            write_file(blocks(traffic, outcomes_wanted), output, stop, taken, head=first_lines(traffic))
        else:
            if sent is not None:
                sent.load_week(count, stop.is_set)
            delay = 0.0
            if start_time is None:
                # The next second, so that lines have the time at which they are sent.
                traffic = replace(traffic, start=int(time.time()) + 1)
                delay = traffic.start - time.time()
            if settings.home.is_dir():  # for `tidemark status`
                settings.run_directory.mkdir(exist_ok=True)
                write_record(settings.run_directory / "traffic.json", os.getpid())
            generated = paced(blocks(traffic, outcomes_wanted), traffic.start, speed, stop, delay)
            send(generated, settings.kafka, traffic, stop, taken, sent.record if sent else None)
    if truth is not None:
        expected.write(truth)


def _sent(settings: Settings) -> Sent:
    from tidemark.cli.week import Sent

    return Sent(settings)


def _own_format(name: str, settings: Settings) -> LineFormat | None:
    """How lines of an own format are made; None for a built-in one."""
    if name not in settings.formats:
        return None
    from tidemark.parse.custom import own_format
    from tidemark.traffic.lines import logged_by

    return logged_by(own_format(name, settings.formats[name]))


def _start(text: str | None) -> int:
    if text is None:
        return int(time.time())
    try:
        start = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingError(
            f"--start-time {text!r} is not an ISO 8601 time", "Write it like 2026-05-17T08:30:00."
        ) from error
    return int((start if start.tzinfo else start.replace(tzinfo=UTC)).timestamp())


class _Report:
    """Progress on stderr: a bar on a terminal, otherwise plain lines at intervals and at the end."""

    def __init__(self, total: int | None) -> None:
        self._bar = tqdm(total=total, unit=" lines", unit_scale=True) if sys.stderr.isatty() else None
        self._lines = self._reported_lines = 0
        self._reported = self._began = time.monotonic()

    def add(self, lines: int, behind: float) -> None:
        self._lines += lines
        if self._bar is not None:
            self._bar.update(lines)
            return
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            rate = (self._lines - self._reported_lines) / (now - self._reported)
            click.echo(f"{self._lines:,} lines, {rate:,.0f}/s, {behind:.1f} s behind schedule", err=True)
            self._reported, self._reported_lines = now, self._lines

    def tell(self) -> None:
        if self._bar is not None:
            return
        rate = self._lines / max(1e-9, time.monotonic() - self._began)
        click.echo(f"{self._lines:,} lines in all, {rate:,.0f}/s", err=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def _reporting(total: int | None) -> Iterator[_Report]:
    report = _Report(total)
    try:
        yield report
        # Not after an error: Kafka has not acknowledged all these lines then.
        report.tell()
    finally:
        report.close()

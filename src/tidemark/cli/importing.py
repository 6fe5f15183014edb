"""`tidemark import`: log files into Kafka."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import click
from tqdm import tqdm

from tidemark.cli import door_of, home_options, settings_of
from tidemark.cli.lines import line_options, object_options, reads_objects, selection_of
from tidemark.importing.file_import import Report
from tidemark.importing.follow import follow_files
from tidemark.importing.importer import Options, import_files
from tidemark.importing.object_sources import Objects
from tidemark.importing.objects import ObjectOptions, import_objects
from tidemark.importing.sample import Sample
from tidemark.importing.sources import STDIN, expand, states_of
from tidemark.local.broker import located
from tidemark.machine import allow_open_files
from tidemark.objects.store import open_store
from tidemark.settings import Settings

_PLAIN_EVERY_SECONDS = 10.0


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@partial(line_options, own_formats=True)
@click.option("--follow", is_flag=True, help="Keep running and import new lines, across rotation.")
@click.option("--complete", is_flag=True, help="Import an unfinished last line as it is.")
@click.option("--infer", is_flag=True, help="Save the layout of lines that no format reads, if it is sure.")
@click.option("--again", is_flag=True, help="Import files again that were imported before.")
@object_options
@click.option(
    "--queue", metavar="URL", default="", help="Take objects that notifications in a queue of SQS name."
)
@home_options
@click.pass_context
def import_command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    site: str,
    log_format: str | None,
    follow: bool,
    complete: bool,
    again: bool,
    infer: bool,
    endpoint: str,
    where: str,
    since: str | None,
    queue: str,
    **overrides: Any,
) -> None:
    """Import log FILEs, each line once: paths, quoted globs, compressed files, - for standard input, or URLs of
    objects: s3://BUCKET/PREFIX/, gs://, az://, https://, file:///DIRECTORY/.

    A file is identified by its content: importing it twice, renamed or compressed, adds nothing; when it
    has grown, the import adds the rest. An unfinished last line waits for the next import, unless its file is
    compressed. Standard input has no identity: each import adds all of it. To continue an interrupted import,
    run the same command again.

    Each version of an object is imported once; of one that has grown, the rest. --endpoint, --where, --since and
    --queue are for objects. docs/objects.md shows credentials, rights and the logs of each service.

    With --infer, the first lines of each file that no format reads are looked at. If they have a layout in common, it
    is saved in the settings file of the home as an own format, by which lines are read from then on.
    """
    of_objects = reads_objects(ctx, files, endpoint=endpoint, where=where, since=since, queue=queue)
    if of_objects and complete:
        raise click.UsageError("--complete is for files; objects are complete.", ctx)
    stop = _StopSignal()
    started = time.monotonic()
    settings = settings_of(ctx, **overrides)
    if settings.formats:  # wrong ones are an error before the first line is sent
        from tidemark.parse.custom import reading_of

        reading_of(settings)
    if infer and log_format:
        raise click.UsageError(
            "--infer looks for a format, and --format names one: leave out one of them.", ctx
        )
    before = settings
    wanted = ObjectOptions(endpoint, selection_of(where, since), queue)
    if infer:
        from tidemark.cli.inferring import save_inferred  # imports much

        if of_objects:
            locations = [open_store(url, endpoint=endpoint) for url in files]
            with Objects(locations, wanted.selection).first() as sources:
                settings = save_inferred(sources, site, settings, click.echo)
        else:
            settings = save_inferred(expand(files), site, settings, click.echo)
    sample = Sample()
    report = Report(noun="object" if of_objects else "file")
    bar = _Bar(0 if follow or of_objects else _total(files), report if of_objects else None)
    options = Options(
        located(settings).kafka,
        site=site,
        format=log_format or "",
        own_formats=tuple(settings.formats),
        again=again,
        complete=complete,
        say=bar.say,
        stopped=lambda: stop.received,
        advance=bar.advance,
        look=sample.look,
        door=door_of(settings),
    )
    try:
        if of_objects:
            import_objects(files, options, wanted, report, follow=follow)
        elif follow and files == (STDIN,):  # A pipe is followed by reading it to its end.
            import_files(files, options, report)
        elif follow:
            allow_open_files()  # Each followed file is open.
            follow_files(files, options, report)
        else:
            import_files(files, options, report)
    finally:
        bar.close()
        if report.files:
            click.echo(_summary(report, time.monotonic() - started))
            if sample.taken:
                for line in _formats(sample, log_format, site, settings, infer=infer and report.stream):
                    click.echo(line)
            if settings is not before and report.known:
                click.echo(
                    f"{report.known:,} lines were there before: `tidemark rebuild silver.requests` reads them by it"
                )
    if report.stopped and (not follow or report.stream):
        raise SystemExit(130)


def _summary(report: Report, seconds: float) -> str:
    files = f"{report.files:,} {report.noun}{'' if report.files == 1 else 's'}"
    text = (
        f"{files}: {report.added:,} lines added, {report.known:,} already there, in {seconds:.1f} s"
        f" ({report.added / seconds:,.0f} lines/s)"
    )
    if report.comments:
        text += f"; {report.comments:,} comment{'' if report.comments == 1 else 's'} left out"
    if report.nuls:
        text += f"; {report.nuls:,} NUL byte{'' if report.nuls == 1 else 's'} left out"
    if report.unfinished:
        lines = f"{report.unfinished} unfinished line{'' if report.unfinished == 1 else 's'}"
        text += f"; {lines} left" + (
            "" if report.stopped else " until it is complete (--complete imports it as it is)"
        )
    if not report.stopped:
        return text
    rest = "A stream cannot be read again." if report.stream else "The same command goes on from here."
    return f"stopped; {text}. {rest}"


def _formats(
    sample: Sample, named: str | None, site: str, settings: Settings, *, infer: bool
) -> Iterator[str]:
    # Takes a second to import, which must not delay the import of lines.
    from tidemark.cli import inferring
    from tidemark.service.inferring import sampled

    result = sampled(sample.lines, named, site, settings)
    whole = sample.taken == sample.seen
    title = "formats" if whole else f"formats in a sample of {sample.taken:,} lines"
    counts = [f"{name} {count:,}" for name, count in result.formats.most_common() if name]
    if unread := result.formats[""]:
        counts.append(f"{unread:,} of no format; `tidemark explain` shows where they differ")
    yield f"{title}: {', '.join(counts)}"
    if infer and inferring.save_result(STDIN, result, settings, click.echo, wait=False) is not settings:
        yield inferring.LATER
    elif not infer and (text := inferring.outlook(result)):
        yield text


def _total(files: tuple[str, ...]) -> int:
    return sum(size for size, _ in states_of(expand(files)).values())


class _StopSignal:
    """Turns the first SIGINT or SIGTERM into a flag; the next one has its default effect."""

    def __init__(self) -> None:
        self.received = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: object) -> None:
        self.received = True
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


class _Bar:
    """Progress in bytes on stderr: a bar on a terminal, otherwise plain lines at intervals. The number of objects and
    of their bytes is not known before; `objects` is the report that counts them."""

    def __init__(self, total: int, objects: Report | None = None) -> None:
        self._total = total
        self._objects = objects
        self._done = 0
        self._next = time.monotonic() + _PLAIN_EVERY_SECONDS
        shown = (total > 0 or objects) and sys.stderr.isatty() and "NO_PROGRESS" not in os.environ
        self._bar = tqdm(total=total or None, unit="B", unit_scale=True, leave=False) if shown else None

    def advance(self, size: int) -> None:
        self._done += size
        if self._bar is not None:
            if self._objects:
                self._bar.set_postfix_str(f"{self._objects.files:,} objects", refresh=False)
            self._bar.update(size)
        elif self._objects and time.monotonic() >= self._next:
            self._next += _PLAIN_EVERY_SECONDS
            click.echo(f"{self._objects.files:,} objects, {self._done:,} bytes", err=True)
        elif self._total and time.monotonic() >= self._next:
            self._next += _PLAIN_EVERY_SECONDS
            click.echo(f"{min(1.0, self._done / self._total):.0%} of {self._total:,} bytes", err=True)

    def say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        else:
            click.echo(text, err=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

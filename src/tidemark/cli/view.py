"""`tidemark view`: from log files to their figures and a dashboard with one command."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import astuple
from functools import partial
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import click

from tidemark import __version__
from tidemark.cli.lines import line_options, object_options, objects_of
from tidemark.errors import PlatformError, SettingError
from tidemark.importing.compression import ENDINGS
from tidemark.importing.journal import known_bytes
from tidemark.importing.object_sources import Objects
from tidemark.importing.sources import expand, is_stream, states_of
from tidemark.local import dashboard, view
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import live_record
from tidemark.machine import require_room
from tidemark.settings import Settings, load
from tidemark.settings.sections import DashboardSettings, UpkeepSettings

# Free space that a look needs in bytes, beside the lines themselves, and the usual compression of a log.
LEAST_ROOM = 100_000_000
COMPRESSION = 10


@click.command("view")
@click.argument("files", nargs=-1, metavar="FILE...")
@line_options
@object_options
@click.option("--browser/--no-browser", default=True, help="Open the dashboard in the browser.")
@click.option(
    "--dashboard/--no-dashboard",
    "with_dashboard",
    default=True,
    help="Stay with a dashboard, or print the summary and exit.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the exact figures as JSON and exit; no dashboard."
)
@click.option("--kept", is_flag=True, help="List the kept homes and their sizes.")
@click.option("--clear", is_flag=True, help="Remove the kept homes that are not in use.")
@click.pass_context
def view_command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    site: str,
    log_format: str | None,
    endpoint: str,
    where: str,
    since: str | None,
    browser: bool,
    with_dashboard: bool,
    as_json: bool,
    kept: bool,
    clear: bool,
) -> None:
    """Show figures and a dashboard of log FILEs: paths, quoted globs, compressed files, - for standard input, or URLs
    of objects: s3://BUCKET/PREFIX/, gs://, az://, https://, file:///DIRECTORY/.

    Reads the files into tables, prints the figures while it reads, and opens the dashboard over the files' whole time.
    Needs neither Java nor Spark nor Kafka. Stays until Ctrl-C, and adds the lines that the files gain. If lines of no
    format have a layout in common, they are read by it.

    The tables are kept in the user's cache directory. The next view of the same files, renamed, compressed or grown,
    reads only new lines; one that was interrupted goes on. The ten homes used last are kept, for 30 days after their
    last use. They hold copies of the lines: --clear removes them. Tables of standard input and of objects are not kept.
    """
    if any(value is not None for value in ctx.obj.values()):
        raise SettingError(
            "`tidemark view` has a home of its own", "Leave out --home and --bootstrap-servers."
        )
    if kept or clear:
        return _kept(clear=clear)
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.", ctx)
    require_room()
    objects = objects_of(ctx, files, endpoint=endpoint, where=where, since=since)
    shows = with_dashboard and not as_json
    sys.exit(_view(files, objects, site, log_format or "", browser=browser, as_json=as_json, shows=shows))


def _kept(*, clear: bool) -> None:
    gone = view.clear() if clear else []
    for home, size in gone:
        click.echo(f"removed  {_line(home, size)}")
    for home in view.kept():
        click.echo(f"{'in use' if home.in_use else 'kept':<7}  {_line(home, home.size())}")
    click.echo(f"{sum(size for _, size in gone) / 1e6:,.0f} MB freed" if clear else f"in {view.place()}")


def _line(home: view.Kept, size: int) -> str:
    return f"{size / 1e6:7,.0f} MB  {home.directory}  {', '.join(home.record.get('files', ()))}"


def _view(
    patterns: Sequence[str],
    objects: Objects | None,
    site: str,
    log_format: str,
    *,
    browser: bool,
    as_json: bool,
    shows: bool,
) -> int:
    base = load({"home": view.place()})
    expanded = [] if objects else expand(patterns)
    paths = list(dict.fromkeys(path if is_stream(path) else str(Path(path).resolve()) for path in expanded))
    states = states_of(paths)
    # The key of the visitor hash is a secret: only its hash is kept.
    identity = repr((__version__, site, log_format, astuple(base.meaning)))
    try:
        with ExitStack() as stack:
            home = stack.enter_context(
                view.home_for(
                    states,
                    hashlib.sha256(identity.encode()).hexdigest(),
                    partial(known_bytes, paths),
                    lasting=not objects and len(states) == len(paths),
                )
            )
            settings = _settings(base, home)
            prepare_home(settings)
            # A killed predecessor's dashboard ends within seconds.
            wait_until(lambda: not any(map(live_record, settings.run_directory.glob("*.json"))), timeout=10)
            workers = None
            if not home.unchanged:
                from tidemark.service import (
                    view as service,  # imports much, which unchanged files do not need
                )

                size = _lines_bytes(home) - (known_bytes(paths, home.directory) or 0)
                _require_room(home, size)
                many = objects or len(states) < len(paths)
                workers = stack.enter_context(
                    service.workers_for(settings, service.LEAST_BYTES + 1 if many else size)
                )
                if not log_format:
                    from tidemark.cli.inferring import with_inferred

                    with objects.first() if objects else nullcontext(paths) as sources:
                        settings = with_inferred(sources, site, settings)
            from tidemark.cli.look import Given, Look, Output

            opened = (lambda address: _open(address + _view_of(site))) if browser else None
            output = Output(as_json=as_json, dashboard=shows, opened=opened, view_of=_view_of(site))
            given = Given(patterns, paths, site, log_format, objects.all if objects else None)
            return Look(settings, home, given, output, workers).run()
    except view.ViewedError as error:
        address = dashboard.url(Settings.of(home=error.directory))
        if not (shows and address):
            raise
        click.echo(f"{error.problem}: {address}{_view_of(site)}")
        if browser:
            _open(address + _view_of(site))
        return 0


def _settings(base: Settings, home: view.Kept) -> Settings:
    """The settings of a look: what the environment says about the meaning of rows, but another home and a free port."""
    return Settings(
        home=home.directory,
        dashboard=DashboardSettings(port=0),
        meaning=base.meaning,
        upkeep=UpkeepSettings(quality_interval_seconds=0.0),
    )


def _lines_bytes(home: view.Kept) -> int:
    """About the size of the lines of the files, uncompressed."""
    files = home.record["files"].items()
    return sum(size * (COMPRESSION if path.endswith(ENDINGS) else 1) for path, (size, _) in files)


def _require_room(home: view.Kept, size: int) -> None:
    """Raises PlatformError if the disk has no room for the tables of this many bytes of lines."""
    needed = LEAST_ROOM + max(0, size)
    free = shutil.disk_usage(home.directory).free
    if free < needed:
        raise PlatformError(
            f"{view.place()} has {free / 1e6:,.0f} MB free, and these files may take {needed / 1e6:,.0f} MB",
            "Free some space (`tidemark view --clear` removes kept homes), or set XDG_CACHE_HOME to another disk.",
        )


def _view_of(site: str) -> str:
    """The dashboard's page with a site's totals over all time."""
    return f"/?{urlencode({'range': 'all', 'site': site})}"


def _open(address: str) -> None:
    # Without a display `webbrowser` may start a browser within the terminal.
    if sys.platform == "darwin" or any(map(os.environ.get, ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))):
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()

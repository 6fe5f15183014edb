"""`tidemark view`: from log files to their figures and a dashboard with one command."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import click

from tidemark import __version__
from tidemark.cli.importing import line_options
from tidemark.cli.look import Given, Look
from tidemark.errors import InputError, PlatformError, SettingError
from tidemark.importing.compression import ENDINGS
from tidemark.importing.identity import Entry, has_grown_last_line, recognise
from tidemark.importing.sources import expand, is_stream, states_of
from tidemark.local import dashboard, view
from tidemark.local.directories import prepare_home
from tidemark.local.jars import broker_jars, spark_jars
from tidemark.local.java import require_java
from tidemark.local.ports import free_port
from tidemark.local.process import wait_until
from tidemark.local.records import live_record
from tidemark.settings import Settings, load
from tidemark.settings.sections import (
    BatchesSettings,
    BrokerSettings,
    DashboardSettings,
    SparkSettings,
    UpkeepSettings,
)

# Free space that a look needs in bytes, beside the lines themselves, and the usual compression of a log.
LEAST_ROOM = 300_000_000
COMPRESSION = 10
# Up to this size an import is quicker without compiling much, and with its first batch in one process.
MOST_QUICK = 200_000_000
QUICK_ROWS = 150_000
QUICK_OPTIONS = (
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
    "spark.sql.streaming.pollingDelay=200ms",
)


@click.command("view")
@click.argument("files", nargs=-1, metavar="FILE...")
@line_options
@click.option("--browser/--no-browser", default=True, help="Open the dashboard in the browser.")
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
    browser: bool,
    as_json: bool,
    kept: bool,
    clear: bool,
) -> None:
    """Show figures and a dashboard of log FILEs: paths, quoted globs, compressed files, or - for standard input.

    Starts a broker, the pipeline and the dashboard on free ports, imports the files, prints the figures as they
    become exact, and opens the dashboard over the files' whole time. Stays until Ctrl-C, and adds the lines that the
    files gain. Other homes stay as they are. If lines of no format have a layout in common, they are read by it.

    The tables are kept in the user's cache directory. The next view of the same files, renamed, compressed or grown,
    imports only new lines; without any, it starts no pipeline. The ten homes used last are kept, for 30 days after
    their last use. They hold copies of the lines: --clear removes them. Standard input is not kept.
    """
    if any(value is not None for value in ctx.obj.values()):
        raise SettingError(
            "`tidemark view` has a home and a broker of its own", "Leave out --home and --bootstrap-servers."
        )
    if kept or clear:
        return _kept(clear=clear)
    if not files:
        raise click.UsageError("Missing argument 'FILE...'.", ctx)
    sys.exit(_view(files, site, log_format or "", browser=browser, as_json=as_json))


def _kept(*, clear: bool) -> None:
    gone = view.clear() if clear else []
    for home, size in gone:
        click.echo(f"removed  {_line(home, size)}")
    for home in view.kept():
        click.echo(f"{'in use' if home.in_use else 'kept':<7}  {_line(home, home.size())}")
    click.echo(f"{sum(size for _, size in gone) / 1e6:,.0f} MB freed" if clear else f"in {view.place()}")


def _line(home: view.Kept, size: int) -> str:
    return f"{size / 1e6:7,.0f} MB  {home.directory}  {', '.join(home.record.get('files', ()))}"


def _view(patterns: Sequence[str], site: str, log_format: str, *, browser: bool, as_json: bool) -> int:
    base = load({"home": view.place()})
    paths = list(
        dict.fromkeys(path if is_stream(path) else str(Path(path).resolve()) for path in expand(patterns))
    )
    states = states_of(paths)
    # The key of the visitor hash is a secret: only its hash is kept.
    identity = repr((__version__, site, log_format, astuple(base.meaning)))
    try:
        with view.home_for(
            states,
            hashlib.sha256(identity.encode()).hexdigest(),
            lambda entries: _hold(paths, entries),
            lasting=len(states) == len(paths),
        ) as home:
            settings = _settings(base, home, streams=len(states) < len(paths))
            if not home.unchanged:
                _require(settings, home)
            prepare_home(settings)
            # A killed predecessor's processes end within seconds.
            wait_until(lambda: not any(map(live_record, settings.run_directory.glob("*.json"))), timeout=10)
            if not (home.unchanged or log_format):
                from tidemark.cli.inferring import with_inferred  # imports much

                settings = with_inferred(paths, site, settings)
            given = Given(patterns, paths, site, log_format)
            opened = (lambda address: _open(address + _view_of(site))) if browser else None
            return Look(settings, home, given, view_of=_view_of(site), as_json=as_json, opened=opened).run()
    except view.ViewedError as error:
        address = dashboard.url(Settings.of(home=error.directory))
        if as_json or not address:
            raise
        click.echo(f"{error.problem}: {address}{_view_of(site)}")
        if browser:
            _open(address + _view_of(site))
        return 0


def _hold(paths: Sequence[str], entries: Sequence[dict[str, Any]]) -> bool:
    """Whether the files still have all the lines of these entries of the importer."""
    return all(any(_has(path, Entry(**entry)) for path in paths) for entry in entries)


def _has(path: str, entry: Entry) -> bool:
    try:
        return recognise(path, [entry]).kind == "same" and not has_grown_last_line(path, entry)
    except InputError:
        return False


def _settings(base: Settings, home: view.Kept, *, streams: bool) -> Settings:
    """The settings of a look: what the environment says about the machine and the meaning of rows, but another home,
    free ports, and no quality runs, which would compete with the import."""
    # Within a small import neither compilers nor Spark's Python workers pay for their start.
    quick = not streams and _lines_bytes(home) < MOST_QUICK
    compiler = "-XX:TieredStopAtLevel=1 " if quick else ""
    return Settings(
        home=home.directory,
        broker=BrokerSettings(port=free_port(), java_options=f"{compiler}{base.broker.java_options}"),
        dashboard=DashboardSettings(port=0),
        java=base.java,
        spark=SparkSettings(
            driver_memory=base.spark.driver_memory,
            driver_java_options=f"{compiler}{base.spark.driver_java_options}",
            options=" ".join(QUICK_OPTIONS) if quick else "",
        ),
        batches=BatchesSettings(
            derive_interval_seconds=0.5, local_rows=QUICK_ROWS if quick else base.batches.local_rows
        ),
        meaning=base.meaning,
        upkeep=UpkeepSettings(quality_interval_seconds=0.0, maintain_interval_seconds=600.0),
    )


def _lines_bytes(home: view.Kept) -> int:
    """About the size of the lines of the files, uncompressed."""
    files = home.record["files"].items()
    return sum(size * (COMPRESSION if path.endswith(ENDINGS) else 1) for path, (size, _) in files)


def _require(settings: Settings, home: view.Kept) -> None:
    """Raises PlatformError if the machine lacks something that the pipeline needs."""
    require_java()
    spark_jars(settings.java)
    broker_jars(settings.java)
    known = sum(entry["offset"] for entry in home.record["entries"] or ())
    needed = LEAST_ROOM + max(0, _lines_bytes(home) - known)
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

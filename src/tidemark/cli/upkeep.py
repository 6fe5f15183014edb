"""Commands that maintain the tables: maintain, rebuild, repair, savepoint, forget."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from tidemark.cli import home_options, settings_of, with_settings
from tidemark.figures.declared import expanded
from tidemark.settings import Settings


@click.command("maintain")
@with_settings
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option(
    "--prove",
    is_flag=False,
    flag_value="",
    metavar="[VALUE]",
    help="Then name the files that have rows past their retention, or VALUE; exit code 1 if there are any.",
)
def maintain_command(settings: Settings, as_json: bool, prove: str | None) -> None:
    """Compact the tables, delete old versions and rows past their retention; also beside a running pipeline.

    The pipeline does the same at intervals, see the settings `maintain_interval_seconds` and
    `vacuum_interval_seconds`.

    With --prove, rows past their retention leave the disk at once, also from old versions and from the embedded
    broker, and then every file of the home is read, Parquet and Kafka's records decoded. VALUE is an address in any
    spelling, or a text.
    """
    from tidemark.service.upkeep import maintain_tables, remaining_files

    done = maintain_tables(settings, at_once=prove is not None)
    left = [] if prove is None else remaining_files(settings, prove)
    if as_json:
        click.echo(json.dumps([entry.as_dict() for entry in done], indent=2))
        for path in left:
            click.echo(f"still in {path}", err=True)
        sys.exit(1 if left else 0)
    for entry in done:
        click.echo(
            f"{entry.table:<26} {entry.files_before:>6,} -> {entry.files_after:,} files,"
            f" {entry.files_deleted:,} old ones deleted ({entry.bytes_freed / 1e6:,.1f} MB),"
            f" {entry.log_files_deleted:,} log entries, {entry.rows_expired:,} rows expired"
            + (f"; {entry.skipped}" if entry.skipped else "")
        )
    if prove is not None:
        _show_proof(left)


@click.command("rebuild")
@click.argument("table")
@with_settings
@click.option("--since", type=click.DateTime(), help="Only from this time on, UTC (default: all).")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option(
    "--new-visitor-key",
    "renew_key",
    is_flag=True,
    help="Allow another visitor key than before; create one if it is missing.",
)
@click.option("--master", help="Spark master (default: this machine, one thread per core).")
def rebuild_command(
    settings: Settings, table: str, since: datetime | None, dry_run: bool, renew_key: bool
) -> None:
    """Recompute TABLE with the current rules, beside a running pipeline or with it stopped; `all` for everything.

    silver.requests (with silver.rejected) is recomputed from bronze, followed by all other tables; the
    other tables from silver.requests. Says before, on stderr, how many lines have other values by the data in use
    (`tidemark data`). --since is the time of arrival for silver.requests and event time
    for the others; sessions are always recomputed as a whole. Prints the differences per day, and
    how many lines have another value.
    An interrupted rebuild has changed nothing, or everything.
    """
    from tidemark.operate.difference import lines
    from tidemark.service.data import outdated
    from tidemark.service.rebuild import rebuild_table

    since = since.replace(tzinfo=since.tzinfo or UTC) if since else None
    if table in ("all", "silver.requests") and not dry_run:
        lines_of, of = outdated(settings)
        for name, number in lines_of.items():
            click.echo(f"before: {number:,} lines of {of:,} have another {name} by the data in use", err=True)
    with _Parts() as parts:
        changes = rebuild_table(
            settings, table, since, dry_run=dry_run, report=parts.show, renew_key=renew_key
        )
    click.echo("\n".join(lines(changes)))
    if dry_run:
        click.echo("dry run: nothing was changed", err=True)


class _Parts:
    """Progress of work on ranges, on stderr: a bar on a terminal, otherwise one line per table."""

    def __init__(self) -> None:
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, what: str, done: int, total: int) -> None:
        if not sys.stderr.isatty():
            if done in (0, total):
                click.echo(f"{what}: {done} of {total} ranges", err=True)
            return
        if done == 0:
            self.__exit__()
            self._bar = tqdm(desc=what, total=total, unit=" parts")
        elif self._bar is not None:
            self._bar.update(done - self._bar.n)


@click.command("repair")
@with_settings
def repair_command(settings: Settings) -> None:
    """Recover what the tables have lost, for example in a power cut; the pipeline must be stopped.

    Damaged newest entries of the tables' logs are moved aside. Batches that bronze, silver.requests,
    silver.rejected, gold.visitors_by_country and the accounts have lost run again, with their lines from
    Kafka or from bronze; sessions, traffic and pages are recomputed from silver.requests. Then all lines
    in Kafka are processed, as by `run --once`. Prints what was recovered, and which lines
    are lost. Repeat an interrupted repair.
    """
    from tidemark import logs
    from tidemark.service.repair import repair_tables

    logs.configure(settings.watching)
    repair_tables(settings, report=click.echo)
    click.echo("the tables are whole")


@click.group("savepoint")
def savepoint_command() -> None:
    """Create, list, restore or delete savepoints: named states of the whole home."""


@savepoint_command.command("create")
@click.argument("name")
@with_settings
def savepoint_create(settings: Settings, name: str) -> None:
    """Create savepoint NAME, with the pipeline running or stopped."""
    from tidemark.service.savepoints import make_savepoint

    savepoint = make_savepoint(settings, name)
    click.echo(
        f"savepoint {name}: {savepoint.files:,} files, {savepoint.bytes / 1e6:,.1f} MB, shared with the tables"
    )


@savepoint_command.command("list")
@with_settings
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def savepoint_list(settings: Settings, as_json: bool) -> None:
    """Show all savepoints, the oldest first."""
    from tidemark.operate.savepoints import savepoints

    listed = savepoints(settings)
    if as_json:
        click.echo(json.dumps([asdict(savepoint) for savepoint in listed], indent=2))
        return
    for savepoint in listed:
        lines = sum(offset for ends in savepoint.offsets.values() for offset in ends.values())
        click.echo(
            f"{savepoint.name:<24} {savepoint.created_at}  {lines:>14,} offsets of the topic,"
            f" {savepoint.bytes / 1e6:,.1f} MB, by version {savepoint.tidemark}"
        )
    if not listed:
        click.echo("no savepoints")


@savepoint_command.command("restore")
@click.argument("name")
@click.option("--home", "target", type=click.Path(path_type=Path), help="Fork into this new home instead.")
@click.option(
    "--tables-location", default="", help="URL of the new home's tables, with --home; else they are in it."
)
@click.option("--bootstrap-servers", help="Kafka to use instead of the embedded broker.")
@click.option(
    "--state-partitions", type=click.IntRange(min=1), help="Number of shuffle partitions from then on."
)
@click.option(
    "--new-visitor-key",
    "other_key",
    is_flag=True,
    help="Also if the visitor key differs from the savepoint's; a rebuild must follow.",
)
@click.pass_context
def savepoint_restore(
    ctx: click.Context,
    /,
    name: str,
    target: Path | None,
    tables_location: str,
    bootstrap_servers: str | None,
    state_partitions: int | None,
    other_key: bool,
) -> None:
    """Replace the home's tables and checkpoints by savepoint NAME. The pipeline must be stopped.

    With --home the savepoint becomes a second pipeline there, which continues on the same topic from
    the savepoint; the home that holds the savepoint is the one of TIDEMARK_HOME or of
    the option before the command. Repeat an interrupted restore.

    The tables are the state, so --state-partitions moves no data: the number is written as shuffle_partitions
    into the home's tidemark.toml.
    """
    from tidemark.service.savepoints import restore_savepoint

    settings = settings_of(ctx, bootstrap_servers=bootstrap_servers)
    home = expanded(target) if target else settings.home
    into = settings.changed(home=home, tables_location=tables_location) if target else None
    if into is not None and (home / "savepoints" / name).is_dir():
        settings, into = settings.changed(home=home), None  # its own savepoint: an ordinary restore
    savepoint = restore_savepoint(settings, name, into, state_partitions, other_key=other_key)
    click.echo(f"savepoint {name} of {savepoint.created_at} restored into {home}")
    if state_partitions is not None:
        click.echo(f"shuffle_partitions = {state_partitions} from now on, as {home / 'tidemark.toml'} says")


@savepoint_command.command("delete")
@click.argument("name")
@with_settings
def savepoint_delete(settings: Settings, name: str) -> None:
    """Delete savepoint NAME."""
    from tidemark.operate.savepoints import delete

    delete(settings, name)
    click.echo(f"savepoint {name} deleted")


@click.command("forget")
@home_options
@click.option("--visitor", default="", help="Visitor id, as in silver.requests.")
@click.option("--address", default="", help="Client address, in any spelling: all its visitors.")
@click.option("--site", default="", help="All lines of this site, such as those of an import by mistake.")
@click.option(
    "--prove", is_flag=True, help="Then search every file of the home; exit code 1 if anything is left."
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.pass_context
def forget_command(
    ctx: click.Context, /, visitor: str, address: str, site: str, prove: bool, as_json: bool, **home: Any
) -> None:
    """Delete one visitor's data from all tables and from Kafka, beside a running pipeline or with it stopped.

    Rows and the files that held them are deleted from bronze.access_log, silver.requests, silver.rejected (by
    address only) and silver.sessions, and from Kafka all records that are in bronze.access_log. Gold tables keep
    their counts, and in sketches hashes that identify nobody. Savepoints keep their data; the command names them.

    With --site, the site's counts leave the gold tables, too.

    --prove reads every file of the home, Parquet and Kafka's records decoded, and names those that still have the
    visitor's id, or the address in any spelling.
    """
    from tidemark.operate.savepoints import savepoints
    from tidemark.service.access import audit_of
    from tidemark.service.forget import forget_all_of, forget_visitor, remaining_files

    if site and (visitor or address or prove):
        raise click.UsageError("--site excludes --visitor, --address and --prove.", ctx)
    settings = settings_of(ctx, **home)
    done = (
        forget_all_of(settings, site) if site else forget_visitor(settings, visitor=visitor, address=address)
    )
    audit = audit_of(settings)
    # Not whom: the record must not have what was erased.
    audit.record(None, "forget", "a site" if site else "a visitor" if visitor else "an address")
    audit.write()
    kept = [savepoint.name for savepoint in savepoints(settings)]
    left = remaining_files(settings, visitor=visitor, address=address) if prove else []
    topic = settings.kafka.topic
    in_kafka = done.records is None and any(done.rows.values())
    if as_json:
        report = {**asdict(done), "kept_in_savepoints": kept, "kept_in_topic": topic if in_kafka else ""}
        click.echo(json.dumps({**report, **({"found_in": left} if prove else {})}, indent=2))
        sys.exit(1 if left else 0)
    if not any(done.rows.values()):
        click.echo(f"nothing found of {visitor or address}", err=True)
    for table, rows in done.rows.items():
        click.echo(f"{table:<26} {rows:,} rows deleted")
    if not site:
        click.echo("gold.*                     counts stay as they are")
    for table in done.files_left:
        click.echo(f"{table}: keeps old files that a flow has not read yet; the next `maintain` deletes them")
    if done.records:
        click.echo(
            f"{f'topic {topic}':<26} {done.records:,} records deleted: all that are in bronze.access_log"
        )
    if in_kafka:
        click.echo(f"Kafka keeps its lines for the retention of topic {topic}: it could not delete them.")
    if kept:
        click.echo(f"Savepoints still hold the rows, delete them: {', '.join(kept)}")
    if prove:
        _show_proof(left)


def _show_proof(left: list[str]) -> None:
    """Lists the files of the home that still contain a value, and exits with code 1 if there are any."""
    for path in left:
        click.echo(f"still in {path}")
    if left:
        sys.exit(1)
    click.echo("in no file of the home")

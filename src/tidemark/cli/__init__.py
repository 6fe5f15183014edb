"""The `tidemark` command. Each module of this package holds the commands of one concern."""

from __future__ import annotations

import functools
import importlib
import io
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidemark import __version__
from tidemark.errors import TidemarkError, of_machine
from tidemark.local.directories import require_version
from tidemark.machine import require_room
from tidemark.settings import Settings, load

if TYPE_CHECKING:
    from tidemark.privacy.door import Door

# Modules are imported only when their command is called: `tidemark --help` must not wait for Spark.
COMMANDS = {
    "view": "tidemark.cli.view",
    "demo": "tidemark.cli.local",
    "prepare": "tidemark.cli.local",
    "broker": "tidemark.cli.local",
    "dashboard": "tidemark.cli.local",
    "run": "tidemark.cli.pipeline",
    "status": "tidemark.cli.pipeline",
    "report": "tidemark.cli.report",
    "mcp": "tidemark.cli.mcp",
    "import": "tidemark.cli.importing",
    "ingest": "tidemark.cli.ingest",
    "explain": "tidemark.cli.explain",
    "generate": "tidemark.cli.generate",
    "quality": "tidemark.cli.quality",
    "alerts": "tidemark.cli.alerts",
    "note": "tidemark.cli.note",
    "send": "tidemark.cli.send",
    "export": "tidemark.cli.export",
    "tail": "tidemark.cli.tail",
    "rebuild": "tidemark.cli.upkeep",
    "savepoint": "tidemark.cli.upkeep",
    "maintain": "tidemark.cli.upkeep",
    "repair": "tidemark.cli.upkeep",
    "forget": "tidemark.cli.upkeep",
    "access": "tidemark.cli.access",
    "data": "tidemark.cli.data",
}

# Commands that open no table.
_WITHOUT_TABLES = frozenset({"explain", "generate", "ingest", "prepare", "send"})
# Commands that write nothing to the home.
_READING = frozenset({"status", "report", "explain"})
# Options of commands that override settings.
_OVERRIDES = ("home", "bootstrap_servers", "master")


class LazyGroup(click.Group):
    """A command group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[name])
        command: click.Command = getattr(module, f"{name}_command")
        _refuse_options_as_values(command)
        return command


def _refuse_options_as_values(command: click.Command) -> None:
    """Makes every option refuse one of the command's own options as its value."""
    for each in getattr(command, "commands", {}).values():
        _refuse_options_as_values(each)
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option.callback is None:
            option.callback = _no_option


def _no_option(ctx: click.Context, option: click.Parameter, value: Any) -> Any:
    names = {name for other in ctx.command.params if isinstance(other, click.Option) for name in other.opts}
    for each in value if isinstance(value, tuple) else (value,):
        if str(each).partition("=")[0] in names:
            raise click.BadOptionUsage(
                option.name or "", f"Option {option.opts[0]!r} needs a value, and {each} is an option.", ctx
            )
    return value


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", type=click.Path(path_type=Path), help="Directory of all state (default ./.tidemark).")
@click.option("--bootstrap-servers", help="Kafka to use instead of the embedded broker.")
@click.version_option(__version__)
@click.pass_context
def tidemark(ctx: click.Context, /, **overrides: Any) -> None:
    """Turn web-server logs into live, exact, replayable analytics."""
    ctx.obj = overrides


_refuse_options_as_values(tidemark)


def settings_of(ctx: click.Context, **more: Any) -> Settings:
    """The settings of this call: the group's, overridden by the command's own options. Raises PlatformError for a home
    that a newer version has written, unless the command only reads, and as `tidemark.machine.require_room`, unless it
    opens no table."""
    if ctx.info_name not in _WITHOUT_TABLES:
        require_room()
    settings = load({**ctx.obj, **{k: v for k, v in more.items() if v is not None}})
    if ctx.info_name not in _READING:
        require_version(settings)
    return settings


def door_of(settings: Settings) -> Door | None:
    """The masking of lines before they are sent; None if lines of all sites are kept as they are. Raises as
    `tidemark.privacy.door.Door.of`."""
    if not settings.privacy.active:
        return None
    from tidemark.privacy.door import Door

    return Door.of(settings)


def home_options(command: Any) -> Any:
    """Adds `--home` and `--bootstrap-servers` to a command, so that they may follow its name."""
    for option in (
        click.option("--bootstrap-servers", help="Kafka to use instead of the embedded broker."),
        # Eager: other options depend on the home's settings.
        click.option(
            "--home", type=click.Path(path_type=Path), help="Directory of all state.", is_eager=True
        ),
    ):
        command = option(command)
    return command


def with_settings(command: Any) -> Any:
    """`home_options`, and calls the command with its settings in front of its own arguments, as `settings_of`."""

    @click.pass_context
    @functools.wraps(command)
    def called(ctx: click.Context, /, **given: Any) -> Any:
        overrides = {name: given.pop(name) for name in _OVERRIDES if name in given}
        return command(settings_of(ctx, **overrides), **given)

    return home_options(called)


def main() -> None:
    """Entry point: one line per expected error, never a traceback."""
    _open_streams()
    # As on standard error: a file's name may be no text, and a terminal may lack a character.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        tidemark.main(standalone_mode=False)
    except TidemarkError as error:
        _show(error)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        # The wheel does not depend on Spark, because some runtimes have their own.
        if (error.name or "").split(".")[0] not in ("pyspark", "py4j", "delta"):
            raise
        click.echo("tidemark: Spark is not installed. Install `tidemark[spark]`.", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except SystemExit:
        raise
    except BaseException as error:  # what Rust code cannot handle is no Exception
        if lack := of_machine(error):
            _show(lack)
            _exit_at_once(lack.exit_code)
        lost = _java_ended()
        if lost is None:
            raise
        _show(lost)
        _exit_at_once(lost.exit_code)


def _open_streams() -> None:
    """Opens the standard streams that the caller has closed (`>&-`). Otherwise the next files would get their numbers,
    and other programs' output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def _show(error: TidemarkError) -> None:
    log = logging.getLogger("tidemark")
    if log.handlers:
        log.error("%s", error, extra={"error": type(error).__name__})
    else:
        click.echo(f"tidemark: {error}", err=True)


def _java_ended() -> TidemarkError | None:
    """An error that describes how Spark's Java process has ended; None if it runs or was never started."""
    if "pyspark" not in sys.modules:
        return None
    from tidemark.spark import java_ended

    return java_ended()


def _exit_at_once(code: int) -> None:
    """Threads that still commit a batch would crash while the interpreter ends, or wait for others that never start."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

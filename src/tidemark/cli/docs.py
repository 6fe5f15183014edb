"""`python -m tidemark.cli.docs DIRECTORY`: writes the pages of the documentation that are made from the code.

tables.md comes from the tables' contracts, settings.md from `Settings`, commands.md from the commands' own
help. tests/test_docs.py fails when a page in docs/ is not what this module would write.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_type_hints

import click

from tidemark.cli import tidemark
from tidemark.contract.rules import Rule
from tidemark.contract.table import Table
from tidemark.pipeline import TABLES
from tidemark.settings import ENVIRONMENT_PREFIX, Settings

_NOTE = "<!-- Made by `make docs` from {}; edit that instead. -->\n"


def main(directory: Path) -> None:
    """Writes every page into `directory`."""
    for name, text in pages().items():
        (directory / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The generated pages, by file name."""
    return {"tables.md": tables_page(TABLES), "settings.md": settings_page(), "commands.md": commands_page()}


def tables_page(tables: Sequence[Table]) -> str:
    """Every table's contract: what a row is, its key and columns, what must hold."""
    return _page(
        "the tables' contracts (`bronze/`, `silver/`, `gold/`, `src/tidemark/contract/quality_tables.py`)",
        "# Tables",
        "Delta tables at `<home>/tables/<layer>/<table>`. Timestamps are UTC, in microseconds. An *append* table"
        " only gains rows; an *upsert* table has one row per key, which later lines may revise.",
        _grid(
            ("table", "what it holds", "kind"),
            [(f"[{t.name}](#{anchor(t.name)})", t.about, t.kind) for t in tables],
        ),
        *(part for table in tables for part in _table(table)),
    )


def _table(table: Table) -> Iterator[str]:
    yield f"## {table.name}"
    yield table.about
    facts = [("kind", table.kind), ("key", _names(table.key)), ("made from", table.reads)]
    if table.time:
        facts.append(("files are skipped by", f"`{table.time}`"))
    if table.accounted:
        facts.append(
            ("number of rows", f"`{table.accounted}`, summed over [quality.accounts](#qualityaccounts)")
        )
    yield "\n".join(f"- {name}: {value}" for name, value in facts)
    yield _grid(("column", "type", "meaning"), [(f"`{c.name}`", c.type, c.meaning) for c in table.columns])
    if table.rules:
        yield "What must hold, besides one row per key:"
        yield _grid(
            ("rule", "severity", "what it says", "a row that breaks it"), [_rule(r) for r in table.rules]
        )


def _rule(rule: Rule) -> tuple[str, ...]:
    fate = "goes to silver.rejected" if rule.quarantine else "is reported"
    return f"`{rule.name}`", rule.severity, rule.about, fate


def settings_page() -> str:
    """Every field of `Settings`: name, variable, type, default, meaning."""
    return _page(
        "`src/tidemark/settings.py`",
        "# Settings",
        "A setting is looked up on the command line (where a command has it as an option), then in the environment,"
        " then in `<home>/tidemark.toml`, and has its default otherwise. An unknown name in the file is an error."
        " The file of a home may look like this:",
        "```toml\nbroker_port = 19192\ndashboard_port = 8601\nsession_gap_seconds = 1200\n```",
        "A secret is masked wherever settings are shown; give it in the environment or in the file, with mode 0600.",
        _grid(("setting", "environment variable", "type", "default", "meaning"), list(_settings())),
    )


def _settings() -> Iterator[tuple[str, ...]]:
    types = get_type_hints(Settings)
    for field in dataclasses.fields(Settings):
        kind = {str: "text", bool: "true or false", int: "whole number", float: "number", Path: "directory"}
        least = field.metadata["least"]
        shown = kind[types[field.name]] + (f", at least {least:g}" if least else "")
        default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        default = f"`{default}`" if default else "empty"
        secret = " **Secret.**" if field.metadata["secret"] else ""
        variable = f"`{ENVIRONMENT_PREFIX}{field.name.upper()}`"
        yield f"`{field.name}`", variable, shown, default, field.metadata["help"] + secret


def commands_page() -> str:
    """Every command with its arguments and options."""
    with click.Context(tidemark, info_name="tidemark") as ctx:
        found = list(commands(ctx))
    listed = [c for c in found if not isinstance(c.command, click.Group)]
    return _page(
        "the commands' own help (`src/tidemark/cli/`)",
        "# Commands",
        "`--help` after a command says the same. The exit status is 0 if all went well, 1 after an error, 2 for a"
        " wrong option or setting, 3 if a critical expectation failed, 130 if it was interrupted. An error is one"
        " line that says what is wrong and what to do.",
        _grid(
            ("command", "what it does"),
            [
                (f"[{c.command_path}](#{anchor(c.command_path)})", c.command.get_short_help_str(100))
                for c in listed
            ],
        ),
        "Options that every command has:",
        _options(ctx, [p for p in tidemark.params if p.name in _SHARED]),
        *(part for c in listed for part in _command(c)),
    )


_SHARED = ("home", "bootstrap_servers")


def commands(ctx: click.Context) -> Iterator[click.Context]:
    """The contexts of a group's commands, at any depth, in the order in which help lists them."""
    group = ctx.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        child = click.Context(command, info_name=name, parent=ctx)
        yield child
        if isinstance(command, click.Group):
            yield from commands(child)


def _command(ctx: click.Context) -> Iterator[str]:
    yield f"## {ctx.command_path}"
    yield f"    {ctx.command_path} {' '.join(ctx.command.collect_usage_pieces(ctx))}"
    yield re.sub(r"[ \t]*\n[ \t]*(?!\n)", "\n", (ctx.command.help or "").strip())
    own = [p for p in ctx.command.params if p.name not in _SHARED]
    if any(isinstance(p, click.Option) for p in own):
        yield _options(ctx, own)


def _options(ctx: click.Context, params: Iterable[click.Parameter]) -> str:
    records = [p.get_help_record(ctx) for p in params if isinstance(p, click.Option)]
    return _grid(("option", "meaning"), [(f"`{r[0]}`", r[1]) for r in records if r])


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def _page(source: str, *parts: str) -> str:
    return _NOTE.format(source) + "\n" + "\n\n".join(parts) + "\n"


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

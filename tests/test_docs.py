"""The documentation agrees with the code: generated pages, links, command lines, examples, error messages."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import click
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from datasketches import update_theta_sketch
from pyspark.sql import SparkSession

from tidemark.cli import tidemark
from tidemark.cli.docs import CONTRACTS, anchor, commands, pages
from tidemark.contract.store import Commit
from tidemark.contract.table import Table
from tidemark.pipeline import TABLES
from tidemark.settings import DECLARED, Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = ("tables.md", "formats.md", "settings.md", "commands.md")
WRITTEN = [ROOT / "README.md", *(path for path in sorted(DOCS.glob("*.md")) if path.name not in GENERATED)]
LINKED = [
    *WRITTEN,
    *(DOCS / name for name in GENERATED),
    *(ROOT / f"{n}.md" for n in ("CONTRIBUTING", "SECURITY")),
]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    """Without code blocks, whose comments look like headings."""
    return FENCE.sub("", text_of(path))


def blocks(path: Path, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text_of(path)) if language in languages]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_current(name: str) -> None:
    assert text_of(DOCS / name) == pages()[name], "run `make docs`"


def test_contracts_of_gold_are_current_and_have_what_the_standard_requires() -> None:
    """The Open Data Contract Standard requires these fields; columns are those of the tables."""
    wanted = {name: text for name, text in pages().items() if name.startswith(CONTRACTS)}
    written = {f"{CONTRACTS}/{path.name}": text_of(path) for path in (DOCS / CONTRACTS).iterdir()}
    assert written == wanted, "run `make docs`"
    tables = {table.name: table for table in TABLES if table.layer == "gold"}
    assert len(written) == len(tables)
    for text in written.values():
        result = yaml.safe_load(text)
        assert result["kind"] == "DataContract" and result["apiVersion"].startswith("v3.")
        assert result["id"] and result["version"] and result["status"] == "active"
        table, [schema] = tables[result["name"]], result["schema"]
        properties = {each["name"]: each for each in schema["properties"]}
        assert list(properties) == table.column_names
        keys = [name for name, each in properties.items() if each.get("primaryKey")]
        assert sorted(keys, key=lambda name: properties[name]["primaryKeyPosition"]) == list(table.key)
        assert all(
            each["logicalType"] and each["physicalType"] and each["description"]
            for each in properties.values()
        )
        assert [rule["name"] for rule in schema["quality"]] == [rule.name for rule in table.expects]


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name)
def test_relative_links_and_anchors_lead_somewhere(path: Path) -> None:
    prose = CODE.sub("", prose_of(path))
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith(("http://", "https://")):
            continue
        file, _, fragment = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (fragment and fragment not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize(
    "row", [r for r in text_of(DOCS / "guarantees.md").splitlines() if r.startswith("| ")]
)
def test_every_guarantee_names_what_tests_it(row: str) -> None:
    what, by = row.strip("|").split(" | ")
    assert what in (" guarantee", " promise", " ---") or "](../tests/" in by


def test_journald_writes_long_lines_whole() -> None:
    """Without `--all` it writes null for a line of more than 4 kB."""
    commands = [
        line for path in WRITTEN for line in text_of(path).splitlines() if line.startswith("journalctl ")
    ]
    assert commands and all(" --all " in command for command in commands)


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE)}


def command_paths() -> list[str]:
    result = commands(click.Context(tidemark, info_name="tidemark"))
    return [ctx.command_path for ctx in result if not isinstance(ctx.command, click.Group)]


@pytest.mark.parametrize("path", command_paths())
def test_every_command_is_explained_beyond_its_help(path: str) -> None:
    assert any(path in text_of(page) for page in WRITTEN)


@pytest.mark.parametrize("name", DECLARED)
def test_every_setting_is_mentioned_where_it_matters(name: str) -> None:
    words = re.compile(rf"\b({name}|TIDEMARK_{name.upper()})\b")
    assert any(words.search(text_of(page)) for page in WRITTEN)


def shown_command_lines() -> Iterator[tuple[str, str]]:
    """(page, command line) for each call of `tidemark` in a code block, pipes and comments taken away."""
    for path in LINKED:
        for block in blocks(path, "sh", "ini", "console", ""):
            for line in re.sub(r"\\\n\s*", " ", block).splitlines():
                match = re.search(r"(?:^|[=|]\s*|/bin/)tidemark (?!@)([^|#]+)", line)
                if match:
                    yield path.name, match[1].strip()


@pytest.mark.parametrize(("page", "line"), list(shown_command_lines()))
def test_command_lines_in_code_blocks_parse(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = no_command_does_anything(monkeypatch)
    result = CliRunner().invoke(tidemark, shlex.split(line))
    assert result.exit_code == 0, result.output
    assert len(called) == 1


def inline_command_lines() -> list[tuple[str, str]]:
    return [
        (path.name, code.removeprefix("tidemark "))
        for path in LINKED
        for code in dict.fromkeys(CODE.findall(prose_of(path)))
        if code.startswith("tidemark ")
    ]


@pytest.mark.parametrize(("page", "line"), inline_command_lines())
def test_commands_and_options_named_in_the_text_exist(page: str, line: str) -> None:
    result = CliRunner().invoke(tidemark, [*shlex.split(line), "--help"])
    assert result.exit_code == 0, result.output


def test_a_wrong_command_line_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    called = no_command_does_anything(monkeypatch)
    for line in ("import", "run --twice", "import access.log --format fancy", "improt access.log"):
        assert CliRunner().invoke(tidemark, shlex.split(line)).exit_code == 2, line
    assert called == []


def no_command_does_anything(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    called: list[str] = []

    def note(path: str) -> None:
        if click.get_current_context().invoked_subcommand is None:  # a group may be a command, too
            called.append(path)

    for ctx in commands(click.Context(tidemark, info_name="tidemark")):
        command, path = ctx.command, ctx.command_path
        if not isinstance(command, click.Group) or command.invoke_without_command:
            monkeypatch.setattr(command, "callback", lambda *_, path=path, **__: note(path))
    return called


@pytest.fixture
def small_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose ./.tidemark has the tables, each with two windows of two visitors, one in common."""
    store = DeltaRsStore(lakehouse.of(Settings.of(home=tmp_path / ".tidemark")))
    for table in TABLES:
        store.ensure(table)
        if table.layer in ("silver", "gold"):
            rows = [row(table, number) for number in (0, 1)]
            store.append_arrow(table, pa.Table.from_pylist(rows, table.arrow_schema), Commit("test", 0))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMARK_HOME", raising=False)
    return tmp_path


def row(table: Table, number: int) -> dict[str, object]:
    values: dict[str, dict[str, object]] = {
        "string": {"country": "FR", "path": "/", "entry_page": "/"},
        "binary": {"visitors_sketch": sketch("a", f"b{number}")},
    }
    usual = {
        "long": 2,
        "int": 200,
        "boolean": True,
        "timestamp": datetime(2026, 5, 17, tzinfo=UTC) + timedelta(hours=number),
    }
    return {c.name: values.get(c.type, {}).get(c.name, usual.get(c.type)) for c in table.columns}


def sketch(*visitors: str) -> bytes:
    updated = update_theta_sketch(20)
    for visitor in visitors:
        updated.update(visitor)
    return bytes(updated.compact().serialize())


# What an example of docs/reading.md prints, by a word that occurs in it.
EXAMPLES = {
    "duckdb": r"2026-05-17 01:00:00.*│\s+2 │",
    "polars": r"│ /\s+┆ 4\s+│",
    "theta_union": r"^3 distinct visitors$",
    "spark_session": r"\|\s*/\|\s*2\|",
}


@pytest.mark.parametrize("word", EXAMPLES)
def test_examples_of_reading_tables_run(
    word: str, small_home: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    (code,) = [block for block in blocks(DOCS / "reading.md", "python") if word in block]
    if find_spec(word) is None and word == "polars":
        pytest.skip("polars is not installed: it is the reader's choice, no dependency")
    if word == "spark_session":
        request.getfixturevalue("spark")  # the example then gets this one, whose JVM is at home elsewhere
        code = code.replace('".tidemark/', f'"{small_home}/.tidemark/')
    exec(compile(code, "reading.md", "exec"), {})
    assert re.search(EXAMPLES[word], capfd.readouterr().out, re.MULTILINE)


def test_the_page_shows_no_other_example() -> None:
    shown = blocks(DOCS / "reading.md", "python")
    assert len(shown) == len(EXAMPLES)


def test_sketches_unite_in_spark_as_the_page_says(small_home: Path, spark: SparkSession) -> None:
    (query,) = re.findall(r"`(SELECT site, theta_sketch_estimate.+?)`", text_of(DOCS / "reading.md"))
    path = small_home / ".tidemark" / "tables" / "gold" / "traffic"
    rows = spark.sql(query.replace("…", f"delta.`{path}`", 1)).collect()
    assert [row[1] for row in rows] == [3]


def messages_in_the_code() -> set[str]:
    """Every text in the sources, with `…` for each value in it."""
    texts = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(text_of(path))):
            if isinstance(node, ast.JoinedStr):
                texts.add("".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    return texts


def test_messages_under_troubleshooting_are_those_of_the_code() -> None:
    section = text_of(DOCS / "operations.md").partition("\n## Troubleshooting\n")[2]
    explained = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(explained) > 20
    in_the_code = messages_in_the_code()
    assert [message for message in explained if message not in in_the_code] == []


def test_sections_that_error_messages_point_to_exist() -> None:
    titles = set(re.findall(r"^#+ (.+)$", text_of(DOCS / "operations.md"), re.MULTILINE))
    named = {
        title
        for text in messages_in_the_code()
        for title in re.findall(r"docs/operations\.md, '([^']+)'", text)
    }
    assert named
    assert named <= titles

"""docs/streaming.md and the examples' pages: every concept is there, and every link leads to what it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tidemark.cli.docs import anchor

ROOT = Path(__file__).parent.parent
STREAMING = ROOT / "docs" / "streaming.md"
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/__main__.py"))
INDEX = ROOT / "examples" / "README.md"
PAGES = [STREAMING, INDEX, *(page for example in EXAMPLES for page in sorted(example.glob("*.md")))]

LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
CONCEPTS = (
    "tumbling", "sliding", "session", "count", "delta", "event time", "processing time", "ingestion time", "watermark",
    "late data", "trigger", "keyed state", "timers", "expiry", "pattern", "join", "delivery guarantees", "checkpoint",
    "savepoint", "parallelism", "rescaling", "back-pressure", "replay", "batch as a bounded stream",
)  # fmt: skip


def rows() -> list[list[str]]:
    """The cells of each row of the table of concepts."""
    lines = [line for line in STREAMING.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_every_concept_has_a_row() -> None:
    named = " / ".join(row[0].lower() for row in rows())
    assert [concept for concept in CONCEPTS if concept not in named] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_concept_has_its_name_in_each_system_and_something_that_shows_it(row: list[str]) -> None:
    assert len(row) == 6
    assert all(row)
    assert LINK.search(row[4])
    for name, target in LINK.findall(row[5]):
        path = STREAMING.parent / target
        functions = {
            node.name
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, f"{target} has no {name}"
    assert LINK.search(row[5])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for _, link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        file, _, fragment = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            dead.append(link)
    assert dead == []


def anchors(page: Path) -> set[str]:
    return {
        anchor(title) for title in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_described_and_shown(example: Path) -> None:
    assert f"python -m examples.{example.name}" in (example / "README.md").read_text(encoding="utf-8")
    assert (example / "DISCUSSION.md").exists()
    assert f"({example.name}/README.md)" in INDEX.read_text(encoding="utf-8")
    assert f"../examples/{example.name}/" in STREAMING.read_text(encoding="utf-8")

"""The direction of imports where import-linter cannot see it: folders that are no installed packages."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAYERS = {"bronze", "silver", "gold"}
# What the dashboard imports of the product.
ALLOWED = tuple(
    f"tidemark.{name}." for name in ("access", "api", "figures", "settings", "errors", "priority")
)
REST = ("src", "app", "examples", "benchmarks", "tests")


def imported(source: str) -> set[str]:
    """Dotted names of what the source imports, at any depth; `from a import b` is also a.b."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def python_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def modules_of(path: Path) -> set[str]:
    return imported(path.read_text(encoding="utf-8"))


def roots(path: Path) -> set[str]:
    return {module.partition(".")[0] for module in modules_of(path)}


def test_imported_finds_every_form() -> None:
    source = """
import a.b
from c import d
from . import sibling
def later():
    import e as f
    if True:
        from g.h import *
"""
    assert imported(source) == {"a.b", "c", "c.d", "e", "g.h", "g.h.*"}


def test_the_dashboard_imports_what_is_deployed_with_it_and_nothing_else_of_the_product() -> None:
    product = LAYERS | {"tidemark", "pyspark", "delta"}
    for path in python_files("app"):
        others = {
            module
            for module in modules_of(path)
            if module.partition(".")[0] in product and not f"{module}.".startswith(ALLOWED)
        }
        assert others == set(), name(path)


def test_examples_import_no_layer_and_no_dashboard() -> None:
    for path in python_files("examples"):
        modules = modules_of(path)
        assert not roots(path) & (LAYERS | {"app"}), name(path)
        assert not {"tidemark.pipeline", "tidemark.cli"} & modules, name(path)


def test_the_wheel_imports_nothing_from_outside_it() -> None:
    outside = {"app", "examples", "benchmarks", "tests"}
    wheel = python_files("src", *sorted(LAYERS))
    assert {name(path): result for path in wheel if (result := roots(path) & outside)} == {}


def test_no_file_bends_the_import_path() -> None:
    for path in python_files(*sorted(LAYERS), *REST):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "sys" in text and "path" in text else ():
            bent = (
                isinstance(node, ast.Attribute) and node.attr == "path" and ast.unparse(node.value) == "sys"
            )
            assert not bent, f"{path}:{node.lineno} touches sys.path"

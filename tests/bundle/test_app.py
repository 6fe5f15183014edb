"""The dashboard as Databricks Apps gets it: the files that the bundle uploads, and their own list of packages."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.bundle import ROOT, load
from tests.bundle.test_entry_points import uv
from tidemark.figures.report_specs import ALL

UPLOADED = load("prod").config["sync"]["paths"]
# Import name -> package, where they differ.
PACKAGES = {"databricks": "databricks-sql-connector", "dateutil": "python-dateutil"}

RUN = """
from streamlit.testing.v1 import AppTest
app = AppTest.from_file("app/main.py", default_timeout=60).run()
shown = [*(e.value for e in app.warning), *(e.value for e in app.error), *(e.value for e in app.markdown)]
print("EXCEPTIONS", [e.value for e in app.exception])
print("TITLES", [e.value for e in app.title])
print("SHOWN", shown)
"""


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A copy of what the bundle uploads."""
    directory = tmp_path / "files"
    for name in UPLOADED:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, directory / name)
    return directory


def test_every_package_that_the_app_imports_is_required() -> None:
    app = ROOT / "app"
    named = (app / "requirements.in").read_text(encoding="utf-8").splitlines()
    required = {re.split(r"[\[<>=~! ]", line)[0] for line in named if line and not line.startswith("#")}
    imported = set()
    sources = (app, *(ROOT / "src" / "tidemark" / name for name in ("api", "figures")))
    for path in (path for source in sources for path in source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
    foreign = imported - {"dashboard", "tidemark"} - set(sys.stdlib_module_names)
    assert {PACKAGES.get(name, name) for name in foreign} <= required
    locked = (app / "requirements.txt").read_text(encoding="utf-8")
    assert all(re.search(rf"(?m)^{re.escape(name)}==", locked) for name in required)


@pytest.mark.parametrize(
    "environment, message",
    [
        ({"TIDEMARK_HOME": "nothing-here"}, "SHOWN []"),
        # Without a warehouse to go to, or the package that goes there: one line a panel.
        ({"TIDEMARK_CATALOG": "main"}, "quality/sites cannot be read"),
    ],
    ids=["directories", "warehouse"],
)
def test_the_app_starts_from_its_own_directory(
    alone: Path, environment: dict[str, str], message: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=alone,
        env={**started(alone), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "EXCEPTIONS []" in done.stdout and "TITLES ['Overview']" in done.stdout
    assert message in done.stdout


def started(files: Path) -> dict[str, str]:
    """Environment variables of a process that runs these files, as far as they are the same for every one."""
    return {"PATH": os.environ["PATH"], "HOME": str(files.parent), "PYTHONPATH": "src"}


def beside_a_warehouse(
    files: Path, *command: str, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """What warehouse.py prints, run beside the app's files in an environment of their own requirements."""
    python = files.parent / "venv" / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, str(files.parent / "venv"))
    required = ("--require-hashes", "-r", str(files / "requirements.txt"))
    uv("pip", "install", "--quiet", "--python", str(python), *required)
    shutil.copy(Path(__file__).with_name("warehouse.py"), files)
    done = subprocess.run(
        [str(python), "warehouse.py", *command],
        cwd=files,
        env={**started(files), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_connector_reads_from_a_server_that_speaks_its_protocol(alone: Path) -> None:
    """The app in an environment of its own lock file, with Databricks' connector, against an HTTPS server."""
    result = beside_a_warehouse(alone)
    assert result["rows"] == [
        {
            "session_id": "s1", "start_time": "2026-03-10 12:00:00+00:00", "pages": 3, "sketch": "ff00",
            "reasons": ["a", "b"],
        },
        {"session_id": "s2", "start_time": "NaT", "pages": 4, "sketch": "", "reasons": []},
    ]  # fmt: skip
    assert result["tools"] == list(ALL)
    assert result["kinds"]["start_time"] == "datetime64[us, UTC]"
    assert result["version"] == [7, "2026-03-10T12:00:00+00:00"]
    first = result["statements"][0]
    assert first["sql"].startswith("SELECT t.`session_id` AS `session_id`")
    assert "FROM `main`.`tidemark`.`silver_sessions` AS t WHERE t.`site` = :p0" in first["sql"]
    # Values travel beside the statement, never in it.
    assert first["parameters"] == {
        "p0": ["STRING", "it's"],
        "p1": ["TIMESTAMP", "2026-03-10 12:00:00+00:00"],
    }
    # A session that ended costs one answer; the next one has another.
    assert result["errors"] == [
        "silver/sessions cannot be read: INVALID_HANDLE: the session is over",
        "no_such_table does not exist yet",
    ]
    assert (result["again"], len(result["opened"])) == (2, 2)
    assert all(session["TIMEZONE"] == "UTC" for session in result["opened"])
    assert {(r["path"], r["authorization"]) for r in result["requests"]} == {
        ("/sql/1.0/warehouses/abc", "Bearer a-token")
    }

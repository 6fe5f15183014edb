"""The archive of code that a cluster's executors get."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tidemark.packaging import PACKAGES, code_archive
from tidemark.settings import Settings

ROOT = Path(__file__).parent.parent


def test_it_has_every_module_and_list_of_every_package(home: Settings) -> None:
    names = set(zipfile.ZipFile(code_archive(home)).namelist())
    modules = {
        path.relative_to(ROOT if package != "tidemark" else ROOT / "src").as_posix()
        for package in PACKAGES
        for kind in ("*.py", "*.toml", "*.tsv")
        for path in (ROOT / ("src" if package == "tidemark" else "") / package).rglob(kind)
    }
    assert len(modules) > 80
    assert names == modules


def test_what_executors_unpickle_can_be_imported_from_it_alone(home: Settings) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import tidemark.parse.columns as c;"
        "c.channels.rules_version(); c.networks.version(); print(c.__file__)"
    )
    archive = code_archive(home)
    done = subprocess.run(
        [sys.executable, "-c", code, str(archive)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(str(archive))


def test_the_same_code_gives_the_same_archive(home: Settings) -> None:
    first = code_archive(home)
    content = first.read_bytes()
    first.unlink()
    assert code_archive(home) == first
    assert first.read_bytes() == content

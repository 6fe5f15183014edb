"""The built wheel in an empty environment, on a machine without Java."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.bundle.test_entry_points import installed, wheel  # noqa: F401 - a fixture
from tidemark.local.jars import user_cache


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_demo_without_java_and_without_a_checkout(wheel: Path, tmp_path: Path) -> None:  # noqa: F811
    binaries = installed(tmp_path, f"{wheel}[local]").parent
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if "java" not in tool.name:
            (tools / tool.name).symlink_to(tool)
    environment = {
        "PATH": f"{binaries}:{tools}", "HOME": str(tmp_path), "TIDEMARK_JVM_CACHE": str(user_cache()),
        "TIDEMARK_BROKER_PORT": "0", "TIDEMARK_DASHBOARD_PORT": "0",
    }  # fmt: skip
    done = subprocess.run(
        [str(binaries / "tidemark"), "demo", "--home", "home", "--seconds", "20"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"dashboard .*http://127\.0\.0\.1:\d+", done.stdout), done.stdout
    assert DeltaTable(tmp_path / "home" / "tables" / "silver" / "requests").count() > 0

"""Commands on a home that cannot be written, or that others could read."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests import processes
from tests.fixtures.home import HOMES
from tidemark.access.database import Database
from tidemark.access.keys import Keys
from tidemark.cli import COMMANDS

KEPT = sorted(HOMES.glob("home-*.tar.gz"))[-1]
# A mount of one's own is possible for root, and for others where user namespaces are.
UNSHARE = ["unshare", "--map-root-user", "--mount"]
# `python -c`: does what UNSHARE does, mounts the home of the first argument, and is `tidemark` with the others.
# Running the program `unshare` would need an interpreter that imports all libraries again.
READ_ONLY = """
import ctypes, os, runpy, subprocess, sys
new_mounts, new_user = 0x20000, 0x10000000
user, group = os.getuid(), os.getgid()
library = ctypes.CDLL(None, use_errno=True)
if library.unshare(new_mounts | new_user):
    raise OSError(ctypes.get_errno(), "unshare")
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
home = sys.argv[1]
for options in (["--make-rprivate", "/"], ["--bind", home, home], ["-o", "remount,ro,bind", home]):
    subprocess.run(["mount", *options], check=True)
assert os.statvfs(home).f_flag & os.ST_RDONLY
sys.argv[1:] = ["--home", home, *sys.argv[2:]]
runpy.run_module("tidemark", run_name="__main__", alter_sys=True)
"""
needs_mounts = pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0,
    reason="needs user namespaces",
)
WRITING = [
    "maintain", "savepoint create two", "savepoint delete one", "savepoint restore one",
    "savepoint restore one --home {home}/fork", "forget --address 192.0.2.1", "rebuild all", "repair", "run --once",
    "run", "quality", "note deployed", "access key add robot", "broker start", "broker start --foreground", "dashboard",
    "demo",
]  # fmt: skip
READING = [
    "savepoint list",
    "status",
    "broker stop",
    "report overview",
    "alerts",
    "access log",
    "access key list",
    "data",
    "mcp",
    "export gold.traffic --to {home}-exported",
]
# Root may read every file, unless it gives up its capabilities.
WITHOUT_RIGHTS = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []
# The rest needs a Kafka, a declared report, or no home, makes one in the cache, or runs until it is stopped.
ELSEWHERE = {"prepare", "import", "ingest", "explain", "generate", "view", "send", "tail"}


def tidemark(home: Path, command: str) -> list[str]:
    arguments = command.format(home=home).split()
    return [sys.executable, "-m", "tidemark", "--home", str(home), *arguments]


def called(command: list[str]) -> subprocess.CompletedProcess[str]:
    ports = {"TIDEMARK_BROKER_PORT": "0", "TIDEMARK_DASHBOARD_PORT": "0"}
    environment = {**os.environ, **ports}
    return processes.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=environment
    )


def called_read_only(home: Path, command: str) -> subprocess.CompletedProcess[str]:
    return called([sys.executable, "-c", READ_ONLY, str(home), *command.format(home=home).split()])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that an earlier version left, with a savepoint."""
    path = tmp_path_factory.mktemp("kept") / "home"
    with tarfile.open(KEPT) as archive:
        archive.extractall(path, filter="data")
    path.chmod(0o755)
    completed = called(tidemark(path, "savepoint create one"))
    assert completed.returncode == 0, completed.stderr
    assert "other users could read the home" in completed.stderr
    Keys(Database(path)).add("reader", "viewer", [], None)
    return path


def test_every_command_is_tried() -> None:
    tried = {command.split()[0] for command in (*WRITING, *READING)}
    assert tried | ELSEWHERE == set(COMMANDS)


@needs_mounts
@pytest.mark.parametrize("command", WRITING)
def test_a_command_that_writes_says_what_it_cannot_write(home: Path, command: str) -> None:
    done = called_read_only(home, command)
    assert done.returncode == 1, done.stderr
    errors = [line for line in done.stderr.splitlines() if str(home) in line and "--home" in line]
    assert len(errors) == 1 and "Traceback" not in done.stderr, done.stderr


@needs_mounts
@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_works(home: Path, command: str) -> None:
    done = called_read_only(home, command)
    assert done.returncode == 0 and not done.stderr, done.stderr
    if command == "access key list":
        assert "reader" in done.stdout


@pytest.mark.skipif(bool(WITHOUT_RIGHTS) and not shutil.which("setpriv"), reason="needs setpriv")
@pytest.mark.parametrize(
    "command", ["report countries", "maintain", "export gold.visitors_by_country --to {home}-out"]
)
def test_a_table_of_another_user_is_named_with_the_remedy(home: Path, tmp_path: Path, command: str) -> None:
    copy = tmp_path / "home"
    shutil.copytree(home, copy)
    for path in (copy / "tables" / "gold" / "visitors_by_country").rglob("*"):
        if path.is_file():
            path.chmod(0)
    done = called([*WITHOUT_RIGHTS, *tidemark(copy, command)])
    assert done.returncode == 1, done.stderr
    assert done.stderr.endswith("--home or TIDEMARK_HOME names it.\n"), done.stderr
    assert "visitors_by_country" in done.stderr and "ermission denied" in done.stderr, done.stderr


def test_a_view_says_that_its_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "access.log").write_text("a line\n", encoding="utf-8")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = called([sys.executable, "-m", "tidemark", "view", str(tmp_path / "access.log"), "--json"])
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.startswith(f"tidemark: the cache {tmp_path}/file/tidemark"), done.stderr
    assert done.stderr.count("\n") == 1 and "XDG_CACHE_HOME" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize("command", ["maintain", "status", "savepoint list", "run --once"])
def test_another_user_learns_that_the_home_is_not_theirs(tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    shutil.copytree(KEPT.parent, home, ignore=lambda *_: [])
    home.chmod(0o700)
    program = (
        "import os, sys; from tidemark.cli import main; import tidemark.service.run, tidemark.service.upkeep\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); main()"
    )
    arguments = ["--home", str(home), *command.split()]
    done = called([sys.executable, "-c", program, *arguments])
    assert done.returncode != 0 and str(home) in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_home_is_its_owners(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    before = os.umask(0o022)
    try:
        assert called(tidemark(home, "run --once")).returncode == 1  # there is no Kafka
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        home.chmod(0o755)
        completed = called(tidemark(home, "run --once"))
        assert "other users could read the home" in completed.stderr
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert "other users" not in called(tidemark(home, "run --once")).stderr
        # Shared on purpose.
        (home / "tidemark.toml").write_text("shared_home = true\n")
        home.chmod(0o2750)
        assert "other users" not in called(tidemark(home, "run --once")).stderr
        assert stat.S_IMODE(home.stat().st_mode) == 0o2750
    finally:
        os.umask(before)


def test_a_directory_of_everyday_use_keeps_its_permissions(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = subprocess.run(
        tidemark(Path(), "run --once"), cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "TIDEMARK_BROKER_PORT": "0"},
    )  # fmt: skip
    assert "give it a directory of its own" in done.stderr
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755

"""Guarantees about the repository: sizes, lock files, the Makefile, the content of the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("bronze", "silver", "gold")
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))

# Files must work wherever packages are fetched from, and say nothing of the machine they were made on.
REGISTRY_HOST = re.compile(
    r"pypi\.org|pythonhosted\.org|repo\d?\.maven\.|maven\.org|//[\w.-]*(?:artifactory|nexus)"
)
HOME_DIRECTORY = re.compile(r"(?<![\w.~}$-])/(?:root|home/[a-z]\w*|Users/[A-Za-z]\w*)/")


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def tracked() -> list[Path]:
    """Files that git tracks; skips the test where this is no checkout."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_files_can_be_read_in_one_sitting() -> None:
    sources = dict.fromkeys((ROOT / "src").rglob("*.py"), 400)
    sources |= {path: 200 for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    assert sources
    too_long = {str(p.relative_to(ROOT)): lines(p) for p, most in sources.items() if lines(p) > most}
    assert too_long == {}


def test_tracked_files_name_no_registry_and_no_machine() -> None:
    result = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if path != Path(__file__) and (REGISTRY_HOST.search(line) or HOME_DIRECTORY.search(line)):
                result.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert result == []


@pytest.mark.parametrize("line", ["--index-url https://pypi.org/simple", "https://repo1.maven.org/maven2"])
def test_a_registry_is_recognised(line: str) -> None:
    assert REGISTRY_HOST.search(line)


@pytest.mark.parametrize(
    ("line", "actual"),
    [("cd |home/me/x", True), ("'|root/.cache'", True), ("$HOME/x", False), ("GET |shop/home/a/", False)],
)
def test_a_home_directory_is_recognised(line: str, actual: bool) -> None:
    # Put together here, so that no file of the project has the path of a machine.
    assert bool(HOME_DIRECTORY.search(line.replace("|", "/"))) is actual


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_requirement_is_pinned_and_hashed(lock: Path) -> None:
    joined = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    requirements = [
        line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,_-]+\])?==\S+", requirement), requirement[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement), requirement[:80]


def test_development_and_production_agree_on_versions() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        return set(re.findall(r"^[a-z0-9][\w.-]*==\S+", text, flags=re.MULTILINE))

    assert pins("run.txt")
    assert pins("run.txt") <= pins("dev.txt")


def test_make_cluster_looks_in_every_folder_that_has_its_tests() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    line = re.search(r"^CLUSTER := \$\(addprefix tests/,(.*)\)$", makefile, re.MULTILINE)
    assert line is not None
    folders = tuple(ROOT / "tests" / name for name in line[1].split())
    marked = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"mark\.cluster\b", path.read_text(encoding="utf-8"))
    ]
    assert marked, "no test is marked"
    assert [path for path in marked if not any(path.is_relative_to(folder) for folder in folders)] == []


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE)
    assert phony
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    listed = re.findall(r"^  make (\S+) +\S", shown, flags=re.MULTILINE)
    assert listed == phony[1].split()
    assert listed == re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheel: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tidemark", *LAYERS}
    assert len(tops) == 5


def test_the_wheel_holds_every_source_file(wheel: set[str]) -> None:
    sources = {
        str(path.relative_to(base))
        for base, package in ((ROOT / "src", "tidemark"), *((ROOT, layer) for layer in LAYERS))
        for path in (base / package).rglob("*")
        if path.suffix in {".py", ".xml", ".typed"}
    }
    assert "tidemark/local/ivy.xml" in sources
    assert sources <= wheel

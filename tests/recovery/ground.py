"""The ground that a home stands on, made small, and made to give way."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FILLER = "filler"


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own at `place`; skips the test where none can be mounted."""
    with _mounted("tmpfs", f"size={megabytes}m,mode=0700", "tidemark-test", place):
        yield place


def fill(place: Path, leave: int = 0) -> None:
    """Takes all room of the file system at `place` but about `leave` bytes."""
    block = bytes(1 << 16)
    with (place / _FILLER).open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(block)
                block = block or b"\0"
        except OSError:
            pass
        filler.truncate(max(filler.tell() - leave, 0))


def make_room(place: Path) -> None:
    (place / _FILLER).unlink()


def truncate(file: Path, keep: int) -> None:
    """As a machine that lost power leaves a file: only its first bytes are there."""
    file.write_bytes(file.read_bytes()[:keep])


def newest(directory: Path) -> Path:
    """The file with the highest number for a name, such as a checkpoint's last batch."""
    return max((path for path in directory.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def new_device(image: Path, megabytes: int) -> None:
    """Makes a file with an empty ext4 file system; skips the test where there is none."""
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    if not shutil.which("mkfs.ext4"):
        pytest.skip("there is no mkfs.ext4")
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    """Mounts the file system of a file, to which the kernel writes what programs sync, and little else for minutes.
    Skips the test where it cannot be mounted."""
    with _mounted("ext4", "loop,noatime,commit=300", str(image), place):
        yield place


@contextmanager
def _mounted(kind: str, options: str, source: str, place: Path) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", kind, "-o", options, source, str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a file system: {done.stderr.strip()}")
    try:
        yield
    finally:
        # Lazily: a JVM may still have a file open there.
        subprocess.run(["umount", "-l", str(place)], check=True)


def copy_device(image: Path, copy: Path) -> None:
    """Copies what is on a device, as a power failure now would leave it."""
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)

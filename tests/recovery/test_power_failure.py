"""The power fails in the middle of a batch of files: what no program has synced is lost, and the figures are exact.

A copy of the device at a moment is what a failure at that moment leaves. It is taken while a run goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.conftest import SYNC
from tests.recovery.ground import copy_device, mounted, new_device
from tests.recovery.killing import START, slices, traffic
from tidemark.cli import tidemark
from tidemark.local import durable
from tidemark.service import files, view  # noqa: F401  (modules with moments must be loaded)
from tidemark.stream import crash

# Moments at which all that the journal calls done has been synced, and nothing else is in the tables.
SYNCED = ("files:before-done@1", "files:before-done@2", "files:planned@2", "files:planned@3")


@contextmanager
def failing(
    directory: Path, moments: Collection[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, dict[str, Path]]]:
    """A directory on a device of its own, and copies of the device at moments "point@n": the n-th pass of a named point
    (`tidemark.stream.crash`)."""
    device, copies, passes, original = (
        directory / "device",
        dict[str, Path](),
        Counter[str](),
        crash.crash_point,
    )

    def copy(point: str) -> None:
        passes[point] += 1
        moment = f"{point}@{passes[point]}"
        if moment in moments:
            copies[moment] = directory / moment
            copy_device(device, copies[moment])

    new_device(device, megabytes=192)
    with mounted(device, directory / "disk") as place, monkeypatch.context() as patched:
        patched.setattr(durable, "sync", SYNC)
        for module in list(sys.modules.values()):
            if getattr(module, "crash_point", None) is original:
                patched.setattr(module, "crash_point", copy)
        yield place, copies
    assert set(copies) == set(moments)


def shown(log: Path, cache: Path) -> dict[str, Any]:
    """The figures of `tidemark view`, whose homes are in `cache`."""
    done = CliRunner().invoke(tidemark, ["view", str(log), "--json"], env={"XDG_CACHE_HOME": str(cache)})
    assert done.exit_code == 0, done.output
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def kept_home(cache: Path) -> str:
    (home,) = (path.name for path in (cache / "tidemark" / "view").iterdir() if path.is_dir())
    return home


@pytest.mark.parametrize(
    "moments",
    [
        ("requests:between-tables@9", "files:planned@3"),
        pytest.param(
            (
                "files:planned@1",
                "requests:between-tables@1",
                "requests:between-tables@5",
                "requests:before-ledger@2",
                "ledger:between-tables@2",
                "activity:between-tables@3",
                "activity:between-tables@15",
                "activity:before-followers@1",
                "activity:before-followers@3",
                "files:before-done@1",
                "files:before-done@2",
                "files:planned@2",
            ),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_view_is_exact_after_a_power_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: Collection[str]
) -> None:
    """A home in which all begun batches are done goes on; another may begin again."""
    log, pairs = tmp_path / "access.log", traffic(3, 900)
    with failing(tmp_path, moments, monkeypatch) as (place, copies):
        for some in slices(pairs, 3):
            with log.open("ab") as file:
                file.writelines(line + b"\n" for _, line in some)
            os.utime(log, (START, START))  # its last line is complete
            expected = shown(log, place)
        kept = kept_home(place)
    for moment, image in copies.items():
        with mounted(image, tmp_path / "again") as cache:
            assert shown(log, cache) == expected
            assert kept_home(cache) == kept or moment not in SYNCED

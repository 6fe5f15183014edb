"""The live record of a pipeline, beside sources that do not answer."""

from __future__ import annotations

import threading
import time

from tidemark.contract.quality_tables import PROGRESS
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import read_record
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
from tidemark.stream.progress import Progress


def test_the_end_does_not_wait_for_a_source_that_does_not_answer(home: Settings) -> None:
    prepare_home(home)
    store = DeltaRsStore(lakehouse.of(home))
    store.ensure(PROGRESS)
    silent, asked, answers = threading.Event(), threading.Event(), threading.Event()

    def lag() -> int | None:
        if silent.is_set():
            asked.set()
            answers.wait(30)
        return 7

    progress = Progress(home, store, {"requests": lag})
    path = home.run_directory / "pipeline.json"
    progress.start()
    progress.running()
    looked_at = read_record(path)["looked_at"]
    silent.set()
    try:
        assert asked.wait(60)
        begun = time.monotonic()
        progress.stop()
        assert time.monotonic() - begun < 8
        record = read_record(path)
        assert record["state"] == "stopped" and record["flows"]["requests"]["lag"] == 7
        assert looked_at <= record["looked_at"] < time.time() - 2, "when the lag was known"
    finally:
        answers.set()
    assert wait_until(lambda: read_record(path)["looked_at"] > record["looked_at"], timeout=60)
    assert read_record(path)["state"] == "stopped"

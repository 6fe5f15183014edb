"""What a conductor runs, without Spark: `python -m tests.examples.kit.standin --part job|follower|load --home DIR ...`.

The job notes its pid, says that it runs, is ready and has got past a batch, and ends when asked to finish. With a
file `<home>/fail` it fails instead. It is not ready as long as there is a file `<home>/unready`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from examples.kit import run
from examples.kit.job import Job
from tidemark.local.records import write_record
from tidemark.settings import Settings, load

JOB = Job("standin", 1, (), lambda _: [])
FOLLOWER = Job("follower", 1, (), lambda _: [])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part")
    parser.add_argument("--home")
    parser.add_argument("--seconds", type=float, default=3600)
    options, _ = parser.parse_known_args()
    settings = load({"home": options.home})
    if options.part == "load":
        note(settings, "load")
        time.sleep(options.seconds)
        return
    if (settings.home / "fail").exists():
        sys.exit("SettingError: the job cannot work like this")
    job = {"job": JOB, "follower": FOLLOWER}[options.part]
    note(settings, options.part)
    write_record(run.record_file(job, settings), os.getpid(), state="running")
    for kind in ("offsets", "commits"):
        batch = run.checkpoints(job, settings) / "query" / kind / "0"
        batch.parent.mkdir(parents=True, exist_ok=True)
        batch.touch()
    while (settings.home / "unready").exists():
        time.sleep(0.02)
    run.ready_file(job, settings).touch()
    while not run.finish_file(job, settings).exists():
        time.sleep(0.02)
    note(settings, "finished")


def note(settings: Settings, what: str) -> None:
    with Path(settings.home / "notes").open("a") as notes:
        notes.write(f"{what} {os.getpid()}\n")


if __name__ == "__main__":
    main()

"""Random actions that bring lines into a topic by other ways than files and shippers: by HTTP, and as objects."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from tests import processes
from tests.importing import endpoint
from tests.recovery.world import World, remedied
from tidemark.importing import objects
from tidemark.importing.file_import import Report
from tidemark.importing.importer import Options
from tidemark.importing.objects import ObjectOptions
from tidemark.kafka import client as kafka


def ingest(world: World) -> str:
    """Lines by HTTP. Where the endpoint is killed meanwhile, the client sends them again with the same key, and each
    counts once."""
    site, lines = world.chance.choice(["default", "shop"]), [line for _, line in world.next_lines()]
    body, query, key = b"".join(line + b"\n" for line in lines), f"?site={site}", f"{world.chance.random()}"
    before, outcome = _records(world), "answered"
    if world.chance.random() < 0.5:
        with endpoint.running(world.settings) as server, ThreadPoolExecutor(1) as client:
            first = client.submit(server.post, body, query, Idempotency_Key=key)
            time.sleep(world.chance.uniform(0, 0.05))
            server.process.kill()
            outcome = "killed before it answered" if first.exception() else "killed after it answered"
    with endpoint.running(world.settings) as server:
        answer = server.post(body, query, Idempotency_Key=key)
        assert answer[:2] == (200, {"lines": len(lines)}), answer
    world.sent += [(site, line) for line in lines]
    again = _records(world) - before - len(lines)
    assert 0 <= again <= len(lines)
    world.repeated += again
    return f"{len(lines)} lines, {outcome}, {again} came twice"


def _records(world: World) -> int:
    return sum(kafka.end_offsets(world.settings.kafka, world.settings.kafka.topic).values())


def import_objects(world: World) -> str:
    """Objects among others that are known: a new one, or one that has gained lines. The import may be killed first."""
    site, lines = world.chance.choice(["default", "shop"]), [line for _, line in world.next_lines()]
    bucket = world.directory / f"objects-{site}"
    bucket.mkdir(exist_ok=True)
    known = sorted(bucket.iterdir())
    grows = bool(known) and world.chance.random() < 0.4
    with (world.chance.choice(known) if grows else bucket / f"{len(known)}.log").open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    world.sent += [(site, line) for line in lines]
    url, killed = f"file://{bucket}/", world.chance.random() < 0.3
    if killed:
        killed_import(world, url, site)
    report = Report()
    options = Options(kafka=world.settings.kafka, site=site, say=lambda text: None)
    remedied(world, lambda: objects.import_objects([url], options, ObjectOptions(), report))
    assert report.added == len(lines) or (killed and report.added < len(lines)), (report.added, len(lines))
    return f"{len(lines)} lines, {report.added} of them now"


def killed_import(world: World, source: str, site: str) -> str:
    """`tidemark import` of a file or of objects, killed if it has not ended by then. Returns after how long."""
    process = processes.Popen(
        [sys.executable, "-m", "tidemark", "import", source, "--site", site],
        env={**os.environ, **world.settings.environment()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    delay = world.chance.uniform(0.5, 3)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return f"after {delay:.1f} s"

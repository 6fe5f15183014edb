"""A Redis server for one run of the example, where the machine has one (Debian's package `redis-server`)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

# The parts of a run, processes of their own, find the server by it; set it to use a Redis that runs already.
VARIABLE = "AD_CAMPAIGNS_REDIS"
_START_SECONDS = 10.0


@contextmanager
def redis() -> Iterator[str | None]:
    """Address of the Redis to use: the one that the environment names, or one started for as long as this lasts; None
    where there is none. It writes each change down before it answers for it to the operating system, so what it has
    taken survives its being killed."""
    if VARIABLE in os.environ:
        yield os.environ[VARIABLE] or None
        return
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-redis-") as directory:
        port = _free_port()
        options = [
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--dir",
            directory,
            "--save",
            "",
            "--appendonly",
            "yes",
        ]
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, start_new_session=True)
        url = f"redis://127.0.0.1:{port}/0"
        try:
            _await(url)
            os.environ[VARIABLE] = url
            yield url
        finally:
            os.environ.pop(VARIABLE, None)
            server.terminate()
            server.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _await(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with Redis.from_url(url) as client:
                client.ping()
            return
        except RedisConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)

"""A Redis server for one run of the example, if it is installed (Debian's package `redis-server`)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tidemark.errors import PlatformError
from tidemark.local.ports import free_port
from tidemark.local.process import wait_until

# The processes of a run find the server by this variable. Set it to use a running Redis.
VARIABLE = "AD_CAMPAIGNS_REDIS"
_START_SECONDS = 10.0


@contextmanager
def redis() -> Iterator[str | None]:
    """Address of the Redis to use: the one in the environment, or one that runs for the duration of the context; None
    if Redis is not installed. It writes each change to its log before it answers, so acknowledged
    changes survive a kill."""
    if VARIABLE in os.environ:
        yield os.environ[VARIABLE] or None
        return
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-redis-") as directory:
        port = free_port()
        options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", directory]
        options += ["--save", "", "--appendonly", "yes"]
        server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, start_new_session=True)
        url = f"redis://127.0.0.1:{port}/0"
        try:
            if not wait_until(lambda: _answers(url), _START_SECONDS):
                raise PlatformError(
                    f"{program} did not answer within {_START_SECONDS:.0f} s", "Try it by hand."
                )
            os.environ[VARIABLE] = url
            yield url
        finally:
            os.environ.pop(VARIABLE, None)
            server.terminate()
            server.wait(10)


def _answers(url: str) -> bool:
    try:
        with Redis.from_url(url) as client:
            return bool(client.ping())
    except RedisConnectionError:
        return False

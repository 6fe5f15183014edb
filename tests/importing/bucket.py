"""A server of S3 and SQS with buckets, and objects put into them. Faults are injected in front of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import boto3
from moto.server import ThreadedMotoServer

KEY, SECRET = "AKIAEXAMPLE", "5ecre7-of-s3"
REGION = "us-east-1"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}

# A fault changes the answer to a request: it gets the request and what calls the server.
Fault = Callable[[WSGIEnvironment, StartResponse, Callable[[], Any]], Any]


@dataclass
class Server:
    """A running server. While `fault` is set, it answers requests."""

    url: str
    fault: Fault | None = None

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )


@contextmanager
def server() -> Iterator[Server]:
    """A server in a thread of this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    running = Server(f"http://{host}:{port}")
    served = moto._server  # type: ignore[attr-defined]
    assert served is not None
    inner = served.app

    def app(environment: WSGIEnvironment, start: StartResponse) -> Any:
        if running.fault:
            return running.fault(environment, start, lambda: inner(environment, start))
        return inner(environment, start)

    served.app = app
    try:
        yield running
    finally:
        moto.stop()


@dataclass
class Bucket:
    """A bucket of its own for a test, on a server that tests share."""

    server: Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/"

    @cached_property
    def client(self) -> Any:
        return self.server.client("s3")

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)


def text(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)

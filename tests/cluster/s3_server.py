"""A real S3 server on this machine, in a process of its own, and the settings of a pipeline on it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tidemark.local.jars import resolved
from tidemark.local.java import require_java
from tidemark.local.ports import free_port
from tidemark.local.process import kill_group, spawn, wait_until
from tidemark.settings import Settings

KEY, SECRET = "the-key", "5ecre7-of-s3"


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket, `lake`."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables that Hadoop takes the credentials from, and delta-rs all that it needs."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }

    @property
    def options(self) -> dict[str, str]:
        """The same for delta-rs, as storage options."""
        return {name.lower(): value for name, value in self.environment.items()}

    @property
    def spark_options(self) -> str:
        return (
            f"spark.hadoop.fs.s3a.endpoint=http://127.0.0.1:{self.port}"
            " spark.hadoop.fs.s3a.endpoint.region=us-east-1 spark.hadoop.fs.s3a.path.style.access=true"
        )


@contextmanager
def s3_server(settings: Settings, directory: Path) -> Iterator[S3Server]:
    """S3Proxy over a directory. Its conditional writes make a hard link, which one of several writers gets."""
    (jar,) = (resolved(settings.java, Path(__file__).with_name("s3proxy.xml")) / "server").glob("*.jar")
    server = S3Server(free_port())
    (directory / "buckets" / "lake").mkdir(parents=True)
    properties = directory / "s3proxy.properties"
    properties.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{server.port}\n"
        "s3proxy.authorization=aws-v4\n"
        f"s3proxy.identity={KEY}\ns3proxy.credential={SECRET}\n"
        f"jclouds.provider=filesystem\njclouds.filesystem.basedir={directory / 'buckets'}\n"
    )
    log = directory / "s3proxy.log"
    process = spawn(
        [str(require_java()), "-Xmx256m", "-jar", str(jar), "--properties", str(properties)],
        log,
        guarded=True,
    )

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=1):
            return True
        return False

    try:
        assert wait_until(listens, 60, interval=0.2), log.read_text()
        yield server
    finally:
        kill_group(process.pid)
        process.wait()

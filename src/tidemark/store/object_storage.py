"""Tables on S3, or a server with its protocol, through delta-rs: commits and files.

A commit is an object of the Delta log, written on the condition that no object has its name. So exactly one of several
writers of a version succeeds, in any process on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tidemark.contract.store import Capabilities, Files
from tidemark.errors import PlatformError, first_line

_SCHEME = "s3a://"
# The holder of the tables, as custom metadata of a commit.
_HOLDER = ("id", "what", "host", "home")
_NOTE = pa.schema([("note", pa.string())])
# Hadoop's options in `spark_options`, and their names in delta-rs. Both take other options from the environment.
_HADOOP = "spark.hadoop.fs.s3a."
_OPTIONS = {
    "endpoint": "aws_endpoint_url",
    "endpoint.region": "aws_region",
    "access.key": "aws_access_key_id",
    "secret.key": "aws_secret_access_key",
    "session.token": "aws_session_token",
}


def reaches(url: str) -> bool:
    """Whether this module handles tables at the URL."""
    return url.startswith(_SCHEME)


def storage_options(spark_options: Mapping[str, str]) -> dict[str, str]:
    """delta-rs' storage options from Hadoop's S3 options, so that they are set only once."""
    options = {
        name: spark_options[_HADOOP + option]
        for option, name in _OPTIONS.items()
        if _HADOOP + option in spark_options
    }
    endpoint = options.get("aws_endpoint_url")
    if endpoint:
        if "://" not in endpoint:
            plain = spark_options.get(f"{_HADOOP}connection.ssl.enabled") == "false"
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        options |= {
            "aws_endpoint_url": endpoint,
            "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        }
    return options


class _Handler(DeltaStorageHandler):
    """delta-rs' objects as a pyarrow file system, also in other processes."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        super().__init__(url, options)
        self._arguments = url, options

    def __reduce__(self) -> tuple[Any, ...]:
        return _Handler, self._arguments

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash(self._arguments[0])

    def copy_file(self, src: str, dst: str) -> None:
        # The parent's argument names differ from its implementation.
        self._handler.copy_file(src, dst)

    def write(self, path: str, content: bytes) -> None:
        """Writes a whole object."""
        stream = self._handler.open_output_stream(path)
        stream.write(content)
        stream.close()  # type: ignore[attr-defined]  # the stub lacks it


@dataclass(frozen=True)
class Objects:
    """The files of tables below a URL."""

    url: str
    options: dict[str, str] = field(repr=False)

    @cached_property
    def _handler(self) -> _Handler:
        return _Handler(f"{_SCHEME}{urlsplit(self.url).netloc}/", self.options)

    @cached_property
    def system(self) -> fs.FileSystem:
        """The file system of the whole bucket, so that objects can be copied within it."""
        return fs.PyFileSystem(self._handler)

    @property
    def base(self) -> str:
        return urlsplit(self.url).path.strip("/")

    def located(self, uri: str) -> str:
        return uri.lstrip("/")

    def read(self, path: str) -> bytes:
        with self.system.open_input_file(path) as file:
            return bytes(file.read())

    def create(self, path: str, content: bytes) -> bool:
        return False

    def list(self, directory: str) -> Sequence[fs.FileInfo]:
        entries = self.system.get_file_info(fs.FileSelector(directory))
        return sorted((info for info in entries if info.is_file), key=lambda info: str(info.base_name))

    def sizes(self, directory: str) -> Mapping[str, int]:
        entries = self.system.get_file_info(fs.FileSelector(directory, recursive=True))
        return {info.path.removeprefix(f"{directory}/"): info.size for info in entries if info.is_file}

    def size(self, path: str) -> int | None:
        info = self.system.get_file_info(path)
        return int(info.size) if info.is_file else None

    def delete(self, path: str) -> None:
        self.system.delete_file(path)

    def clear(self, directory: str) -> None:
        self.system.delete_dir(directory)

    def take(self, source: Files, origin: str, path: str, *, renew: bool = False) -> None:
        """Copies on the server, within its bucket."""
        if source.system == self.system:
            self.system.copy_file(origin, path)
        else:
            self._handler.write(path, source.read(origin))


class LogRegister:
    """The writer's note as the newest commit of a Delta table without rows: of several processes that replace
    the same note, one succeeds."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._url, self._options = url, options
        self._table: DeltaTable | None = None

    def read(self) -> Mapping[str, str] | None:
        try:
            if self._table is None:
                self._table = DeltaTable.create(
                    self._url,
                    _NOTE,
                    mode="ignore",
                    storage_options=self._options,
                    configuration={
                        "delta.logRetentionDuration": "interval 3600 seconds",
                        "delta.enableExpiredLogCleanup": "true",
                    },
                )
            self._table.update_incremental()
            newest = self._table.history(1)[0]
        except (DeltaError, OSError) as error:
            raise self._failure(error) from error
        return {name: str(newest[name]) for name in (*_HOLDER, "version")} if newest.get("id") else None

    def write(self, note: Mapping[str, str]) -> bool:
        assert self._table is not None, "read first"
        properties = CommitProperties(
            custom_metadata={name: note[name] for name in _HOLDER}, max_commit_retries=0
        )
        try:
            write_deltalake(self._table, _NOTE.empty_table(), mode="append", commit_properties=properties)
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            raise self._failure(error) from error
        return True

    def clear(self) -> None:
        self.write(dict.fromkeys(_HOLDER, ""))

    def _failure(self, error: Exception) -> PlatformError:
        return PlatformError(
            f"cannot use the note of who writes at {self._url}: {first_line(error)}",
            "See docs/cluster.md, 'Tables on S3'.",
        )


def capabilities(url: str, options: dict[str, str]) -> Capabilities:
    """The capabilities of tables below a URL of object storage."""
    register = LogRegister(f"{url}/_writer", options)
    return Capabilities(files=Objects(url, options), durable=True, keeps_home=True, register=register)

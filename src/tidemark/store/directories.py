"""Tables in directories of this machine, or of a file system shared by all machines of a cluster."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow import fs

from tidemark.contract.store import Capabilities, Files


@dataclass(frozen=True)
class Directories:
    """The files of tables below the directory `base`."""

    base: str
    system: fs.FileSystem = field(default_factory=fs.LocalFileSystem, compare=False)
    options: None = None

    def located(self, uri: str) -> str:
        return uri

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def create(self, path: str, content: bytes) -> bool:
        # As delta-rs does it: a link, unlike a new name, never replaces a file.
        whole = Path(path).with_name(f"_commit_{uuid.uuid4()}.json.tmp")
        try:
            whole.write_bytes(content)
            os.link(whole, path)
        finally:
            whole.unlink(missing_ok=True)
        return True

    def list(self, directory: str) -> Sequence[fs.FileInfo]:
        entries = self.system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
        return sorted((info for info in entries if info.is_file), key=lambda info: str(info.base_name))

    def sizes(self, directory: str) -> Mapping[str, int]:
        entries = self.system.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
        return {str(Path(info.path).relative_to(directory)): info.size for info in entries if info.is_file}

    def size(self, path: str) -> int | None:
        try:
            return Path(path).stat().st_size
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def clear(self, directory: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(directory)

    def take(self, source: Files, origin: str, path: str, *, renew: bool = False) -> None:
        """Creates a hard link, or a copy on another file system."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.system != self.system:
            target.write_bytes(source.read(origin))
            return
        try:
            os.link(origin, path)
        except FileExistsError:
            pass
        except OSError:
            shutil.copy2(origin, path)
        if renew:
            os.utime(path)


def capabilities(base: str) -> Capabilities:
    """The capabilities of tables in directories below `base`."""
    return Capabilities(files=Directories(base), durable=False, keeps_home=True)

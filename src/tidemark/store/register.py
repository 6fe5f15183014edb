"""The writer's note in a file beside the checkpoints, for example in a volume."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from tidemark.errors import PlatformError

# A note that stays incomplete is one whose writer was killed while it wrote.
_READS = 5
_PAUSE_SECONDS = 0.02


class FileRegister:
    """A note that every process with access to the file sees. The last writer wins."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Mapping[str, str] | None:
        for _ in range(_READS):
            try:
                entry: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
                return entry
            except FileNotFoundError:
                return None
            except ValueError:  # just being written
                time.sleep(_PAUSE_SECONDS)
        return {"id": "", "what": "another writer", "host": "another machine"}

    def write(self, note: Mapping[str, str]) -> bool:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({**note, "renewal": uuid.uuid4().hex}), encoding="utf-8")
        except OSError as error:
            raise PlatformError(
                f"cannot write {self._path}: {error.strerror}",
                "Give WRITE VOLUME on the volume of checkpoint_location.",
            ) from error
        return True

    def clear(self) -> None:
        self._path.unlink(missing_ok=True)

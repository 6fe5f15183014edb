"""Senders for many files at once, closed while their files do not grow, or where there would be too many of them."""

from __future__ import annotations

import time

from tidemark.importing.file_import import Send
from tidemark.importing.importer import Options, open_sender
from tidemark.importing.producer import Sender
from tidemark.importing.progress import Progress

IDLE_SECONDS = 60.0
# Each has about four threads and eight open files.
MOST_OPEN = 50


class SenderPool:
    """One sender per first line; files with the same first line share it and its id."""

    def __init__(self, progress: Progress, options: Options) -> None:
        self._progress = progress
        self._options = options
        self._open: dict[bytes, tuple[Sender, float]] = {}

    def get(self, first_line: bytes) -> Sender:
        """The sender, opened if necessary. The progress then includes the commits of earlier senders."""
        # To be the last one again: the first was used least recently.
        pooled = self._open.pop(first_line, None)
        if pooled is None and len(self._open) >= MOST_OPEN:
            self._open.pop(next(iter(self._open)))[0].close()
        sender = pooled[0] if pooled else open_sender(first_line, self._progress, self._options)
        self._open[first_line] = sender, time.monotonic()
        return sender

    def send_for(self, first_line: bytes) -> Send:
        return lambda batch, entry: self.get(first_line).send(batch, entry)

    def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        for first_line, (sender, used) in list(self._open.items()):
            if time.monotonic() - used >= seconds:
                del self._open[first_line]
                sender.close()

    def close(self) -> None:
        self.close_idle(0.0)

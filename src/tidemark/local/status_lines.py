"""One status line per part: redrawn in place on a terminal, one line per change elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO


class StatusLines:
    """Writes the state of some named parts to `out`."""

    def __init__(self, names: Sequence[str], out: TextIO) -> None:
        self._names = names
        self._out = out
        self._terminal = out.isatty()
        self._states = [""] * len(names)
        self._drawn: list[str] = []

    def show(self, parts: Sequence[tuple[str, str]]) -> None:
        """Shows (state, text) of each part; without a terminal only those whose state has changed."""
        width = max(map(len, self._names), default=0)
        lines = [f"{name:<{width}}  {text}" for name, (_, text) in zip(self._names, parts, strict=True)]
        if self._terminal:
            if lines != self._drawn:
                self._erase()
                columns = shutil.get_terminal_size().columns
                self._out.write("".join(f"{line[: columns - 1]}\n" for line in lines))
                self._drawn = lines
        else:
            states = [state for state, _ in parts]
            changed = [line for line, old, new in zip(lines, self._states, states, strict=True) if old != new]
            self._out.write("".join(f"{line}\n" for line in changed))
            self._states = states
        self._out.flush()

    def say(self, message: str) -> None:
        """Writes a line that stays, above the status lines."""
        self._erase()
        self._out.write(f"{message}\n")
        self._out.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{len(self._drawn)}F\x1b[J")
            self._drawn = []

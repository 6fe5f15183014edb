"""A sample of the imported lines, of which the import says the formats."""

from __future__ import annotations

from tidemark.importing.lines import Block

# All of the first lines, then every n-th, up to a limit.
FIRST_LINES = 20_000
ONE_OF = 100
MOST_LINES = 60_000


class Sample:
    """Takes lines out of blocks. `seen` is their number, `taken` the number of the lines in the sample; `lines`
    are these by the names of their columns."""

    def __init__(self) -> None:
        self.seen = 0
        self.taken = 0
        self.lines: dict[str, list[bytes]] = {}

    def look(self, block: Block) -> None:
        """Takes lines of the block."""
        lines = block.lines
        first = max(0, FIRST_LINES - self.seen)
        chosen = lines[:first] + lines[first::ONE_OF]
        self.seen += len(lines)
        chosen = chosen[: MOST_LINES - self.taken]
        self.taken += len(chosen)
        if chosen:
            self.lines.setdefault(block.fields, []).extend(chosen)

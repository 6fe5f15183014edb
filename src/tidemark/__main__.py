"""The `tidemark` command, also as `python -m tidemark`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command. Ctrl-C ends it quietly also during the imports, which take longer than some commands."""
    try:
        from tidemark.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()

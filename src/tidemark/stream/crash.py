"""Named points at which a test can kill the process.

`TIDEMARK_CRASH_AT=<point>[@n]` makes the process send itself SIGKILL the n-th time (default first) that
it passes the point. Unset, as in production, a point costs one comparison.
"""

from __future__ import annotations

import itertools
import os
import signal

_passes = itertools.count(1)


def crash_point(name: str) -> None:
    """Kills the process if the environment names this point."""
    wanted, _, nth = os.environ.get("TIDEMARK_CRASH_AT", "").partition("@")
    if name == wanted and next(_passes) == int(nth or 1):
        os.kill(os.getpid(), signal.SIGKILL)

"""Settings and stores know figures' declarations and readers, and small commands still start without pandas."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import tidemark.settings, tidemark.store.deltars, tidemark.operate.notes, tidemark.cli.report
print("pandas" in sys.modules)
"""


def test_small_commands_import_no_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"

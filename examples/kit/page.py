"""What the page of a job is told on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tidemark.settings import load


def home_of(arguments: Sequence[str]) -> Path:
    """The home whose tables a page shows: `--home`, else TIDEMARK_HOME, else that of the working directory.

    For a script that Streamlit runs, which hands on what follows `--`. Raises SettingError.
    """
    parser = argparse.ArgumentParser(prog="page.py", description="Shows a job's tables.")
    parser.add_argument("--home", help="The home that the job was started with.")
    # Ending the program would leave the reader before a page that never comes.
    given, _ = parser.parse_known_args(arguments)
    return load({"home": given.home}).home

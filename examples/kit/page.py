"""The command line of a job's page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tidemark.settings import load


def home_of(arguments: Sequence[str]) -> Path:
    """The home whose tables a page shows: `--home`, else TIDEMARK_HOME, else that of the working directory.

    For a script run by Streamlit, which passes on the arguments after `--`. Raises SettingError.
    """
    parser = argparse.ArgumentParser(prog="page.py", description="Shows a job's tables.")
    parser.add_argument("--home", help="The home of the job.")
    # Exiting would leave the page empty.
    given, _ = parser.parse_known_args(arguments)
    return load({"home": given.home}).home

"""Changes to the home's `tidemark.toml` by a form. Everything else in the file stays, comments too.

The file is validated as the pipeline validates it before it is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.declared import FILE, Kind, declared
from tidemark.figures.selection import SelectionError
from tidemark.figures.toml_tables import text_of
from tidemark.settings import edit, trouble

from .. import who

MOST_CHARACTERS = 100
# The environment variable by which `tidemark dashboard` says whether its form may change the file.
EDITS = "TIDEMARK_DASHBOARD_EDITS"


def save(home: Path, kind: Kind, name: str, values: Mapping[str, Any] | None) -> None:
    """Writes one table of the file, or removes it if there are no values. Raises SelectionError where the result would
    not be usable, or the file cannot be changed."""
    if fixed := why_fixed(home):
        raise SelectionError(fixed)
    require_site(home, kind, name, values)
    if name != name.strip() or not name.isprintable() or not 0 < len(name) <= MOST_CHARACTERS:
        raise SelectionError(f"a name has 1 to {MOST_CHARACTERS} characters, without blanks at its ends")
    path = home / FILE
    try:
        text = edit.with_table(text_of(path), kind, name, values)
    except SettingError as error:
        raise SelectionError(str(error)) from error
    if problem := trouble(text, FILE):
        raise SelectionError(problem)
    try:
        edit.replace(path, text)
    except OSError as error:
        raise SelectionError(f"{path} cannot be written: {error}") from error
    who.record("definition changed", f"{kind}.{name}")


def require_site(home: Path, kind: Kind, name: str, values: Mapping[str, Any] | None) -> None:
    """Raises SelectionError if a definition is, or would be, of a site that an editor of some sites may not change."""
    sites = who.asking().right.sites
    if sites is None or kind not in ("goals", "alerts", "sites"):
        return  # funnels and segments are of no site
    there = declared(home).of(kind).get(name)
    concerned = (
        {name} if kind == "sites" else {each.get("site", "") for each in (there, values) if each is not None}
    )
    if not concerned <= sites:
        raise SelectionError(f"choose a site: you may change definitions of {', '.join(sorted(sites))} only")


def editable(home: Path | None) -> bool:
    """Whether the file can be changed from here."""
    return home is not None and not why_fixed(home)


def why_fixed(home: Path) -> str:
    """Why the file cannot be changed from here; empty if it can."""
    if not who.may("editor"):
        return "only editors change definitions and notes"
    path = home / FILE
    if os.environ.get(EDITS, "no") != "yes":
        return 'other machines may reach this dashboard; dashboard_edits = "yes" in the file allows to change it here'
    if not os.access(home, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        return f"{path} cannot be written by the dashboard; change it where the pipeline runs"
    return ""

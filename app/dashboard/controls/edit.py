"""Changes to the home's `tidemark.toml` by a form. Everything else in the file stays, comments too.

The file is validated as the pipeline validates it before it is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from tidemark.figures.declared import FILE, Kind
from tidemark.figures.selection import SelectionError
from tidemark.settings import trouble

MOST_CHARACTERS = 100
# The environment variable by which `tidemark dashboard` says whether its form may change the file.
EDITS = "TIDEMARK_DASHBOARD_EDITS"


def save(home: Path, kind: Kind, name: str, values: Mapping[str, Any] | None) -> None:
    """Writes one table of the file, or removes it if there are no values. Raises SelectionError where the result would
    not be usable, or the file cannot be changed."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if fixed := why_fixed(home):
        raise SelectionError(fixed)
    if name != name.strip() or not name.isprintable() or not 0 < len(name) <= MOST_CHARACTERS:
        raise SelectionError(f"a name has 1 to {MOST_CHARACTERS} characters, without blanks at its ends")
    path = home / FILE
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise SelectionError(f"{path} cannot be read: {error}") from error
    if kind not in document:
        document[kind] = tomlkit.table(is_super_table=True)
    tables: Any = document[kind]
    if values is None:
        tables.pop(name, None)
    elif name in tables:
        _update(tables[name], values)
    else:
        tables[name] = dict(values)
    if not tables:
        document.pop(kind)
    text = tomlkit.dumps(document)
    if problem := trouble(text, FILE):
        raise SelectionError(problem)
    try:
        _replace(path, text)
    except OSError as error:
        raise SelectionError(f"{path} cannot be written: {error}") from error


def editable(home: Path | None) -> bool:
    """Whether the file can be changed from here."""
    return home is not None and not why_fixed(home)


def why_fixed(home: Path) -> str:
    """Why the file cannot be changed from here; empty if it can."""
    path = home / FILE
    if os.environ.get(EDITS, "no") != "yes":
        return 'other machines may reach this dashboard; dashboard_edits = "yes" in the file allows to change it here'
    if not os.access(home, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        return f"{path} cannot be written by the dashboard; change it where the pipeline runs"
    return ""


def _update(table: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """Value by value, which keeps the comments between them."""
    for key in set(table) - set(values):
        del table[key]
    for key, value in values.items():
        if table.get(key) != value:
            table[key] = value


def _replace(path: Path, text: str) -> None:
    """Writes the file in one step, so no reader sees a part of it."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{FILE}.", delete=False
    ) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(file.name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
    Path(file.name).replace(path)

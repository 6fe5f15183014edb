"""The declarations that belong to tables, as far as somebody may see them."""

from __future__ import annotations

from pathlib import Path

from tidemark.figures.declared import Declared, declared, of_right
from tidemark.figures.goals import known_goals
from tidemark.figures.reader import Reader
from tidemark.figures.right import Right
from tidemark.figures.rows import Rows


def home_of(reader: Reader) -> Path | None:
    """The home whose settings belong to the tables, if they are in a directory."""
    root = reader.root
    return Path(root).parent if root and "://" not in root else None


def declarations(rows: Rows, right: Right) -> Declared:
    """Those in the settings file of the tables' home; elsewhere, the goals that the pipeline knows. Raises SettingError
    and ReadError."""
    place = home_of(rows.reader)
    if place is None:
        known = known_goals(rows)
        tables = Declared({"goals": {name: goal.declared for name, goal in known.items()}})
    else:
        tables = declared(place)
    return of_right(tables, right)

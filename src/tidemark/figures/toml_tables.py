"""Tables of `tidemark.toml` such as `[sites.NAME]`: their values by the fields of a dataclass."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of texts",
    str: "text",
}


def toml_of(path: Path) -> dict[str, Any]:
    """The content of a TOML file; empty if there is none. Raises SettingError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"cannot read {path}: {error}", "Correct or remove the file.") from error


def tables_of(what: str, found: Any, of: type, source: str) -> Mapping[str, dict[str, Any]]:
    """The tables `[what.NAME]` of a file, whose keys and types are those of the dataclass `of` with its defaults.

    A field whose default is None takes a number, one whose default is a tuple a list of texts (with the metadata
    `single`, also a text), and one with a factory a table of these; one with the metadata `also` takes values of these
    types, too, and one with the metadata `derived` is not in the file. Raises SettingError; it never shows the value of
    a field that is not in the dataclass's `repr`.
    """
    if not isinstance(found, dict) or not all(isinstance(values, dict) for values in found.values()):
        raise SettingError(f"{source}: {what} must be tables", f"Write [{what}.NAME], then its settings.")
    known = {each.name: each for each in fields(of) if not each.metadata.get("derived")}
    return {
        name: {key: _value(f"{what}.{name}", key, value, known, source) for key, value in values.items()}
        for name, values in found.items()
    }


def _value(table: str, key: str, value: Any, known: Mapping[str, Any], source: str) -> Any:
    if key not in known:
        raise SettingError(f"{source}: unknown setting {key!r} of {table}", f"Use one of {', '.join(known)}.")
    default = known[key].default
    if known[key].default_factory is dict:
        return _texts_of(f"{key} of {table}", value, source)
    wanted = (float if default is None else type(default), *known[key].metadata.get("also", ()))
    if wanted == (float,) and type(value) is int:
        value = float(value)
    if tuple in wanted:
        value = _texts([value] if known[key].metadata.get("single") and type(value) is str else value)
    if type(value) not in wanted:
        shown = repr(value) if known[key].repr else "***"
        kinds = " or ".join(_KINDS[each] for each in wanted)
        raise SettingError(f"{source}: {key} of {table} must be {kinds}, not {shown}", "Correct it.")
    return value


def _texts(value: Any) -> Any:
    """A list of texts as a tuple; any other value as it is."""
    is_list = type(value) is list and all(type(each) is str for each in value)
    return tuple(value) if is_list else value


def _texts_of(what: str, value: Any, source: str) -> dict[str, tuple[str, ...]]:
    found = (
        {}
        if not isinstance(value, dict)
        else {name: _texts([each] if type(each) is str else each) for name, each in value.items()}
    )
    if not found or not all(type(each) is tuple for each in found.values()):
        raise SettingError(
            f"{source}: {what} must be a table of texts or of lists of texts, not {value!r}", "Correct it."
        )
    return found

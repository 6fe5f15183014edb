"""Tables of `tidemark.toml` such as `[sites.NAME]`: their values by the fields of a dataclass."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError

# Each of them is work for every line or every report.
MOST_DEFINITIONS = 500
# A hundred years: libraries take no time of many more, before or after now.
MOST_SECONDS = 36_525 * 86_400
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: "a list of texts",
    str: "text",
}


def toml_of(path: Path) -> dict[str, Any]:
    """The content of a TOML file; empty if there is none. Raises SettingError."""
    return parsed(text_of(path), str(path))


def text_of(path: Path) -> str:
    """The text of a settings file; empty if there is none. Raises SettingError if it cannot be read."""
    try:
        # Opening a pipe without a writer waits for ever.
        if path.exists() and not path.is_file():
            raise SettingError(f"{path} is no regular file", "Replace it by one, or remove it.")
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"cannot read {path}: {error}", "Correct or remove the file.") from error


def parsed(text: str, source: str) -> dict[str, Any]:
    """The values of a TOML text. Raises SettingError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"cannot read {source}: {error}", "Correct or remove the file.") from error
    except RecursionError as error:
        raise SettingError(
            f"cannot read {source}: its values are nested too deeply", "Correct or remove the file."
        ) from error


def tables_of(
    what: str, tables: Any, of: type, source: str, *, most: int | None = None
) -> Mapping[str, dict[str, Any]]:
    """The tables `[what.NAME]` of a file, whose keys and types are those of the dataclass `of` with its defaults.

    A field whose default is None takes a number, one whose default is a tuple a list of texts (with the metadata
    `single`, also a text), and one with a factory a table of these; one with the metadata `also` takes values of these
    types, too, and one with the metadata `derived` is not in the file. Raises SettingError, also for more than `most`
    tables; it never shows the value of
    a field that is not in the dataclass's `repr`.
    """
    if not isinstance(tables, dict) or not all(isinstance(values, dict) for values in tables.values()):
        raise SettingError(f"{source}: {what} must be tables", f"Write [{what}.NAME], then its settings.")
    if most is not None and len(tables) > most:
        raise SettingError(f"{source}: {len(tables):,} tables [{what}.NAME], at most {most}", "Remove some.")
    return {name: table_of(f"{what}.{name}", values, of, source) for name, values in tables.items()}


def table_of(name: str, values: Any, of: type, source: str) -> dict[str, Any]:
    """The one table `[name]` of a file, as a table of `tables_of`. Raises SettingError."""
    if not isinstance(values, dict):
        raise SettingError(f"{source}: {name} must be a table", f"Write [{name}], then its settings.")
    known = {each.name: each for each in fields(of) if not each.metadata.get("derived")}
    return {key: _value(name, key, value, known, source) for key, value in values.items()}


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
    texts = (
        {}
        if not isinstance(value, dict)
        else {name: _texts([each] if type(each) is str else each) for name, each in value.items()}
    )
    if not texts or not all(type(each) is tuple for each in texts.values()):
        raise SettingError(
            f"{source}: {what} must be a table of texts or of lists of texts, not {value!r}", "Correct it."
        )
    return texts

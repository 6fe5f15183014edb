"""Changes to a settings file by the program: everything else in it stays, comments too."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.toml_tables import parsed


def with_table(
    text: str, kind: str, name: str, values: Mapping[str, Any] | None, comments: Sequence[str] = ()
) -> str:
    """The text of a settings file with these values as the table `[kind.name]`; without values, without the table. The
    comments stand below the name of a new table. Raises SettingError for a text that is no TOML, or that writes these
    tables inline or by dotted keys."""
    import tomlkit

    document = _document(text)
    if kind not in document:
        document[kind] = tomlkit.table(is_super_table=True)
    tables: Any = document[kind]
    other_form = SettingError(
        f"{kind} of the settings file is not written as tables", f"Write [{kind}.NAME], then its settings."
    )
    if not isinstance(tables, MutableMapping) or isinstance(tables, tomlkit.items.InlineTable):
        raise other_form
    if values is None:
        tables.pop(name, None)
    elif name in tables:
        _update(tables[name], values)
    else:
        table = tomlkit.table()
        for comment in comments:
            table.add(tomlkit.comment(comment))
        for key, value in values.items():
            table[key] = _plain(value)
        tables[name] = table
    if not tables:
        document.pop(kind)
    result = tomlkit.dumps(document)
    if _others(result, kind) != _others(text, kind):
        raise other_form  # A table within dotted keys takes what follows them.
    return result


def _others(text: str, kind: str) -> dict[str, Any]:
    return {name: value for name, value in parsed(text, "the settings").items() if name != kind}


def with_value(text: str, table: str, key: str, value: str) -> str:
    """The text of a settings file with a value in the table `[table]`. Raises SettingError for one that is no TOML."""
    document = _document(text)
    document.setdefault(table, {})[key] = value
    return str(document.as_string())


def _document(text: str) -> Any:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise SettingError(f"the settings cannot be read: {error}", "Correct them.") from error


def _plain(value: Any) -> Any:
    """Texts with quotes or backslashes inside as they are, without escapes, where TOML allows it."""
    import tomlkit

    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str) and set('"\\') & set(value) and value.isprintable() and "'" not in value:
        return tomlkit.string(value, literal=True)
    return value


def replace(path: Path, text: str) -> None:
    """Writes the file in one step, so no reader sees a part of it; of a symbolic link, the file that it names. A new
    one is its owner's alone. Raises OSError."""
    path = Path(os.path.realpath(path))
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        unfinished = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            unfinished.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o600)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _update(table: MutableMapping[str, Any], values: Mapping[str, Any]) -> None:
    """Value by value, which keeps the comments between them."""
    for key in set(table) - set(values):
        del table[key]
    for key, value in values.items():
        if table.get(key) != value:
            table[key] = value

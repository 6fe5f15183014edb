"""Own log formats: the tables `[formats.NAME]` of `tidemark.toml`, and files of one format each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError
from tidemark.figures.toml_tables import MOST_DEFINITIONS, tables_of, toml_of

NOTATIONS = ("apache", "nginx", "haproxy", "tomcat", "layout", "keys")
_TEXTS = ("about", "docs", "examples", "source")
_NAME = re.compile("[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class FormatSettings:
    """An own log format, in exactly one of these notations: Apache's `LogFormat`, nginx's `log_format`, HAProxy's
    `log-format`, Tomcat's `pattern`, Tidemark's own `layout` (see `tidemark.parse.layout.Layout`; of several the first
    that a line has is taken), or `keys`: for each field the paths of its values in a JSON object, the preferred one
    first.

    `pattern` is a regular expression that all lines match. In a `squeezed` layout several spaces count as one. Lines of
    a `detected` format need not name it. `about`, `docs` and `examples` describe it as in
    `tidemark.parse.format.Format`. `source` is the file that it is from.
    """

    apache: str = ""
    nginx: str = ""
    haproxy: str = ""
    tomcat: str = ""
    layout: tuple[str, ...] = field(default=(), metadata={"single": True})
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    about: str = ""
    docs: str = ""
    examples: tuple[str, ...] = ()
    pattern: str = ""
    squeezed: bool = False
    detected: bool = False
    source: str = field(default="", compare=False, metadata={"derived": True})

    @property
    def notation(self) -> str:
        """The one of NOTATIONS that it is declared in."""
        return next(name for name in NOTATIONS if getattr(self, name))

    @property
    def declared(self) -> str:
        """How lines are read, as text: the declaration itself if it is all that decides."""
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in _TEXTS and getattr(self, each.name)
        }
        only = next(iter(values.values())) if len(values) == 1 else None
        return only if isinstance(only, str) else json.dumps(values, ensure_ascii=False)


def formats_of(tables: Any, source: str) -> dict[str, FormatSettings]:
    """The tables `[formats.NAME]` of a file. Raises SettingError."""
    formats = {
        name: FormatSettings(**values, source=source)
        for name, values in tables_of(
            "formats", tables, FormatSettings, source, most=MOST_DEFINITIONS
        ).items()
    }
    for name, each in formats.items():
        if sum(bool(getattr(each, notation)) for notation in NOTATIONS) != 1:
            raise SettingError(
                f"{source}: format {name} needs exactly one of {', '.join(NOTATIONS)}", "Set one of them."
            )
    return formats


def format_files(directory: Path) -> dict[str, FormatSettings]:
    """The formats of the files `NAME.toml` of a directory; none if there is no directory. They are `detected` unless
    they say otherwise, and must have examples. Raises SettingError."""
    formats: dict[str, FormatSettings] = {}
    for path in sorted(directory.glob("[!.]*.toml")):
        if not _NAME.fullmatch(path.stem):
            raise SettingError(
                f"{path}: {path.stem!r} cannot name a format", "Use letters, digits, '_' and '-'."
            )
        formats |= formats_of({path.stem: {"detected": True, **toml_of(path)}}, str(path))
        if not formats[path.stem].examples:
            raise SettingError(
                f"{path} has no examples", "Add a list `examples` of lines, by which the format is tested."
            )
    return formats

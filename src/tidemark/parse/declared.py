"""The built-in formats by name."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from tidemark.parse import formats
from tidemark.parse.clf import Clf
from tidemark.parse.declaration import declared_format
from tidemark.parse.format import Format
from tidemark.parse.w3c import W3c
from tidemark.settings.formats import formats_of


@cache
def format_of(name: str) -> Format:
    """The built-in format of one of the names of `tidemark.parse.formats`.

    Besides the keys of own formats, its file may have `clf`, the layout of a format of the combined family, or those of
    `tidemark.parse.w3c.W3c`.
    """
    file = files(formats) / f"{name}.toml"
    if not file.is_file():
        format: Format = import_module(f"{formats.__name__}.{name}").FORMAT
        return format
    values = tomllib.loads(file.read_text(encoding="utf-8"))
    if "clf" in values:
        return Clf(name, pattern="", layouts=(values.pop("clf"),), **_described(values))
    if "header" in values:
        return W3c(name, **_described(values))
    declared = formats_of({name: {"detected": True, **values}}, str(file))[name]
    return declared_format(name, declared, usual_times=True)


def _described(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "examples": tuple(values["examples"])}


def declared_formats() -> tuple[Format, ...]:
    """All of them, in the order in which they are tried."""
    return tuple(map(format_of, formats.FORMATS))

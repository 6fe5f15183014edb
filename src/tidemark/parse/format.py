"""The declaration of a log format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemark.engine.arrays import Flags
from tidemark.parse.text import Lines
from tidemark.parse.values import Read
from tidemark.parse.writing import Template


@dataclass(frozen=True)
class Format(ABC):
    """A log format.

    `about` is a sentence about it, `docs` the page of the server's documentation, `examples` are lines of it. A format
    that is not `detected` is read only where the sender names it, because its lines look like another's. `verbatim`
    lines have no escapes, and tabs between their fields.
    """

    name: str
    about: str
    docs: str
    examples: tuple[str, ...]
    detected: bool = field(default=True, kw_only=True)
    verbatim: bool = field(default=False, kw_only=True)

    @abstractmethod
    def may_be(self, text: pa.Array) -> Flags:
        """A cheap test of lines: which ones may be of this format."""

    @abstractmethod
    def read(self, lines: Lines) -> Read:
        """The fields of lines; lines that lack a field of the format are not sound."""

    @abstractmethod
    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        """How many of the format's fields lines have before the first one that they lack, and that one's name."""

    @abstractmethod
    def template(self, columns: Collection[str]) -> Template:
        """How lines that say these of the columns `tidemark.parse.values.READ` are written, as far as the format has
        them."""

    def write(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Lines of columns, see `tidemark.parse.writing.Template.lines`. What is not in the columns is absent."""
        return self.template(frozenset(columns)).lines(columns)

    @property
    def column_names(self) -> str:
        """The names of the columns of a written W3C line; empty in other formats."""
        return ""

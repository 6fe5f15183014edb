"""The reports in Python, from the tables of a home: `from tidemark import reports`, then `reports.pages(range="7d")`.

There is a function for each report, and `sites`, `definitions` and `lines`; each takes the arguments of `ask` but its
name. `dir(reports)` lists them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidemark.figures.open import open_reader
from tidemark.figures.report_specs import ALL
from tidemark.figures.right import EVERYTHING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from tidemark.figures.rows import Rows

Text = str | int | datetime | None


@dataclass(frozen=True)
class Answer:
    """The answer of a report: `json` as `tidemark report --json` prints it."""

    json: dict[str, Any]
    _table: pd.DataFrame

    def pandas(self) -> pd.DataFrame:
        """The rows as a frame, with the columns of `--csv`."""
        return self._table

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pandas(self._table, preserve_index=False)


class Ask(Protocol):
    """A report as a function; `own` are its own parameters, such as `by`."""

    def __call__(
        self,
        *,
        home: str | Path | None = None,
        site: str | None = None,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        range: str | None = None,
        filter: str | Sequence[str] = (),
        tz: str | None = None,
        **own: Text,
    ) -> Answer: ...


def ask(
    name: str,
    /,
    *,
    home: str | Path | None = None,
    site: str | None = None,
    start: str | datetime | None = None,
    end: str | datetime | None = None,
    range: str | None = None,
    filter: str | Sequence[str] = (),
    tz: str | None = None,
    **own: Text,
) -> Answer:
    """The answer of the report `name` for the requests from `start` until before `end`, or of a `range` such as 7d;
    by default all. `home` is that of TIDEMARK_HOME by default.

    Raises SettingError for a question that cannot be asked, TableError where tables are missing or cannot be read.
    """
    from tidemark.figures.declarations import declarations
    from tidemark.figures.question import question
    from tidemark.figures.report import report

    rows = _rows(None if home is None else str(home))
    given = {"site": site, "from": start, "to": end, "range": range, "tz": tz, **own}
    values = {key: [_text(value)] for key, value in given.items() if value is not None}
    if filter:
        values["filter"] = [filter] if isinstance(filter, str) else list(filter)
    result = report(rows, question(name, values, declarations(rows, EVERYTHING)))
    return Answer(result.json, result.table)


def __getattr__(name: str) -> Ask:
    if name not in ALL:
        raise AttributeError(f"there is no report {name!r}; there are {', '.join(ALL)}")
    return partial(ask, name)


def __dir__() -> list[str]:
    return ["Answer", "ask", *ALL]


@cache
def _rows(home: str | None) -> Rows:
    """The tables of a home; its open tables are kept."""
    from tidemark.figures.rows import Rows

    return Rows(open_reader({**os.environ, **({"TIDEMARK_HOME": home} if home else {})}))


def _text(value: Text) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)

"""The reports in Python, and the notebook of the documentation."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.api.conftest import MINE
from tests.app import lakehouse
from tidemark import reports
from tidemark.errors import SettingError, TableError
from tidemark.figures.report_specs import ALL

NOTEBOOK = Path(__file__).parents[2] / "docs" / "reports.ipynb"


def test_a_function_for_each_report(home: Path, rows: list[dict[str, Any]]) -> None:
    assert set(ALL) <= set(dir(reports))
    day = timedelta(days=1)
    answer = reports.errors(
        home=home, site=MINE, start=lakehouse.START, end=lakehouse.START + day, filter="status=404"
    )
    wanted = [row for row in rows if row["site"] == MINE and row["status"] == 404
              and lakehouse.START <= row["event_time"] < lakehouse.START + day]  # fmt: skip
    assert answer.pandas()["requests"].sum() == len(wanted) > 0
    table = answer.arrow()
    assert table.column_names == ["path", "status", "requests", "visitors", "newest_event_time"]
    assert table.schema.field("newest_event_time").type == pa.timestamp("us", "UTC")
    lines = reports.lines(home=home, filter=["status=404"], limit=5).pandas()
    assert len(lines) == 5 and all("404" in line for line in lines["line"])


def test_errors_name_what_is_wrong(home: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="site: there is no site"):
        reports.overview(home=home, site="c.example")
    with pytest.raises(SettingError, match="It takes site, from, to, range, filter, tz"):
        reports.overview(home=home, page="/a")
    with pytest.raises(TableError, match="does not exist yet"):
        reports.overview(home=tmp_path)
    with pytest.raises(AttributeError, match="there is no report 'visits'"):
        _ = reports.visits


def test_the_notebook_runs(home: Path, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_HOME", str(home))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["overview"]["requests"] == len(rows)
    assert len(names["pages"]) > 3 and names["more"].abs().sum() > 0
    assert names["by_channel"]["sessions_sum"].to_pylist()

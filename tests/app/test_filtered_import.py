"""Figures of a filter equal the figures over an import of only the lines that pass, on every page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.app import lakehouse
from tests.app.recounted import KEPT, select
from tidemark.figures import (
    bots,
    countries,
    errors,
    latency,
    overview,
    pages,
    sessions,
    sources,
)
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows
from tidemark.figures.selection import Selection

HOUR = 3600
COUNTS = ("bin", "requests", "pageviews", "visitors", "bytes")
Figure = Callable[[Rows, Selection], Any]

OF_LINES: dict[str, Figure] = {
    "Overview, Pages: over time": lambda rows, each: overview.over_time(rows, each, HOUR)[list(COUNTS)],
    "Pages": pages.pages,
    "Live": overview.by_minute,
    "Countries": countries.countries,
    "Countries: over time": lambda rows, each: countries.visitors(rows, each, HOUR),
    "Countries: devices": lambda rows, each: countries.audience(rows, each, "device"),
    "Errors": errors.errors,
    "Errors: statuses": errors.statuses,
    "Errors: over time": lambda rows, each: errors.classes_over_time(rows, each, HOUR),
    "Errors: hours": errors.by_hour_and_weekday,
    "Errors: referrers": lambda rows, each: errors.referrers(rows, each, ["/missing"]),
    "Performance": latency.latency,
    "Performance: over time": lambda rows, each: latency.over_time(rows, each, HOUR),
    "Performance: heat": lambda rows, each: latency.heat(rows, each, HOUR),
    "Performance: pages": latency.slowest_pages,
    "Performance: Apdex": lambda rows, each: latency.apdex(rows, each, 0.05),
    "Bots": bots.bots,
    "Bots: over time": lambda rows, each: bots.over_time(rows, each, HOUR),
    "Bots: what they read": bots.read_by,
    "Bots: AI purposes": lambda rows, each: bots.ai_purposes(rows, each, HOUR),
}
OF_SESSIONS: dict[str, Figure] = {
    "Overview": overview.overview,
    "Pages: entries and exits": pages.with_sessions,
    "Pages: exits": lambda rows, each: sessions.by(rows, each, "exit_page"),
    "Sessions": sessions.summary,
    "Sessions: over time": lambda rows, each: sessions.over_time(rows, each, HOUR),
    "Sessions: durations": lambda rows, each: sessions.durations(rows, each, (1, 60)),
    "Sources": sources.sources,
    "Sources: over time": lambda rows, each: sources.over_time(rows, each, HOUR),
    "Bots: AI": lambda rows, each: bots.ai(rows, each, HOUR),
}


@pytest.mark.parametrize(
    "filters, figures",
    [
        (("path^/a", "method!=POST"), OF_LINES),
        (("status=404", "source~oo"), OF_LINES),
        (("bot_kind!=",), OF_LINES),
        (("country=DE|US", "device=mobile"), OF_LINES | OF_SESSIONS),
        (("browser=",), OF_LINES | OF_SESSIONS),
    ],
    ids=["path and method", "status and source", "bots", "country and device", "browser"],
)
def test_filtered_figures(tmp_path: Path, filters: tuple[str, ...], figures: dict[str, Figure]) -> None:
    generated = lakehouse.requests()
    every = pd.DataFrame(generated)
    passing = pd.concat([KEPT[each](every) for each in filters], axis=1).all(axis=1)
    lakehouse.build(tmp_path / "all", generated)
    lakehouse.build(
        tmp_path / "passing", [row for row, passes in zip(generated, passing, strict=True) if passes]
    )
    rows, only = (Rows(DeltaReader(tmp_path / name)) for name in ("all", "passing"))
    assert 0 < passing.sum() < len(generated)

    filled = 0
    for name, figure in figures.items():
        result, wanted = figure(rows, select(*filters, hours=None)), figure(only, Selection())
        assert plain(result) == plain(wanted), name
        filled += len(plain(wanted)) > 0
    assert filled > len(figures) // 2


def plain(figure: Any) -> Any:
    """Rows of a frame in any order; another figure as it is."""
    if not isinstance(figure, pd.DataFrame):
        return repr(figure)
    return sorted(map(str, figure.to_dict("records")))

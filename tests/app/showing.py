"""Runs a page of the dashboard over a home as Streamlit does, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest


def show(
    page: str,
    home: Path,
    site: str | None = None,
    preset: str = "24h",
    filters: tuple[str, ...] = (),
    sites: tuple[str, ...] | None = None,
    **address: str | list[str],
) -> AppTest:
    """Runs one page, with more parameters in its address, as a viewer of the `sites` if there are some; fails when the
    script failed."""

    def script(
        page: str,
        home: str,
        site: str | None,
        preset: str,
        filters: tuple[str, ...],
        sites: tuple[str, ...] | None,
    ) -> None:
        import importlib
        from pathlib import Path

        from app.dashboard.filters import Filters
        from tidemark.figures.permitted import permitted
        from tidemark.figures.reader_delta import DeltaReader
        from tidemark.figures.right import EVERYTHING, Right
        from tidemark.figures.selection import filters_of

        module = importlib.import_module(f"app.dashboard.panels.{page}")
        chosen = Filters(site, preset, conditions=filters_of(filters))
        right = EVERYTHING if sites is None else Right.of("viewer", sites)
        module.page(permitted(DeltaReader(Path(home)), right), chosen)

    arguments = {
        "page": page,
        "home": str(home),
        "site": site,
        "preset": preset,
        "filters": filters,
        "sites": sites,
    }
    at = AppTest.from_function(script, default_timeout=60, kwargs=arguments)
    at.query_params.update(address)
    at.run()
    assert not at.exception
    return at


def metrics(at: AppTest) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


def table(at: AppTest, *columns: str) -> Any:
    """The page's table that has these columns."""
    fits = [d.value for d in at.dataframe if set(columns) <= set(d.value.columns)]
    assert fits, [list(d.value.columns) for d in at.dataframe]
    return fits[0][list(columns)]


def listed(at: AppTest, panel: str) -> list[str]:
    """The values of a top list, such as `overview-pages_panel`, in its order."""
    lists = [json.loads(e.proto.json) for e in at.get("bidi_component") if f"-top-{panel}" in e.proto.id]
    return [row["label"] for one in lists for row in one["rows"]]

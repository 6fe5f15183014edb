"""Seconds of each panel of the dashboard's pages over a time range, in a process like the dashboard's own.

Before, libraries are loaded by a page, and the newest days are united, as the dashboard does when it starts. Answers of
queries are not remembered.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from tidemark.local.process import KEEPING_MEMORY

PAGES = (
    "overview", "live", "sources", "pages", "performance", "bots", "errors", "countries", "sessions", "goals",
    "funnels", "retention", "paths", "alerts", "reported", "quality", "pipeline",
)  # fmt: skip
# Pages whose panels a filter of a path changes.
FILTERED = tuple(page for page in PAGES if page not in ("live", "alerts", "reported", "quality", "pipeline"))
_LOADS = "quality"


def drawn(
    home: Path,
    *filters: str,
    pages: tuple[str, ...] = PAGES,
    reach: str = "all",
    environment: Mapping[str, str] = os.environ,
) -> list[Figure]:
    """Seconds of each panel of the pages, and of these pages with filters such as path=/. `reach` is their time
    range."""
    command = [sys.executable, "-m", "benchmarks.panels", str(home), json.dumps(pages), reach, *filters]
    environment = {**KEEPING_MEMORY, **environment}
    completed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    figures = []
    for line in completed.stdout.splitlines():
        label, panels, took = json.loads(line)
        figures += [Figure(f"{label}, each panel, s", panels)] if panels else []
        figures.append(Figure(f"{label}, all of it, s", [took]))
    return figures


def _main(home: str, pages: str, reach: str, *filters: str) -> None:
    from app.dashboard import ahead
    from app.dashboard.data import shared_unions
    from tidemark.figures.reader_delta import DeltaReader

    _draw(home, _LOADS, reach)
    begun = time.perf_counter()
    ahead.unite(DeltaReader(Path(home)), shared_unions())
    print(json.dumps(["newest days united before", [], time.perf_counter() - begun]), flush=True)
    for page in json.loads(pages):
        _tell(f"page {page}", home, page, reach)
        if filters and page in FILTERED:
            chosen = " ".join(f"{each.split('=')[0]} chosen" for each in filters)
            _tell(f"page {page} {chosen}", home, page, reach, *filters)


def _tell(label: str, home: str, page: str, reach: str, *filters: str) -> None:
    begun = time.perf_counter()
    panels = _draw(home, page, reach, *filters)
    took = time.perf_counter() - begun
    for name, seconds in panels.items():
        print(f"  {label}: {name} {seconds:.2f} s", file=sys.stderr, flush=True)
    print(json.dumps([label, list(panels.values()), took]), flush=True)


def _draw(home: str, page: str, reach: str, *filters: str) -> dict[str, float]:
    """Seconds by panel."""
    from streamlit.testing.v1 import AppTest

    from app.dashboard.data import shared_kept, shared_results

    def script(page: str, home: str, reach: str, filters: list[str]) -> None:
        import importlib
        from pathlib import Path

        from app.dashboard.filters import Filters
        from tidemark.figures.reader_delta import DeltaReader
        from tidemark.figures.selection import filters_of

        module = importlib.import_module(f"app.dashboard.panels.{page}")
        module.page(DeltaReader(Path(home)), Filters(None, reach, conditions=filters_of(filters)))

    importlib.import_module(f"app.dashboard.panels.{page}")
    asked = {"page": page, "home": home, "reach": reach, "filters": list(filters)}
    test = AppTest.from_function(script, default_timeout=120, kwargs=asked)
    for store in (shared_kept(), shared_results()):
        store.clear()  # of the previous page
    with _panel_times() as panels:
        test.run()
    assert not test.exception, test.exception
    assert panels, f"page {page} reported no panel"
    return panels


@contextmanager
def _panel_times() -> Iterator[dict[str, float]]:
    """Seconds by panel, from the dashboard's log."""
    times: dict[str, float] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg.startswith("panel %s took") and isinstance(record.args, tuple):
                times[str(record.args[0])] = float(str(record.args[1]))

    log, listener = logging.getLogger("tidemark.dashboard"), Listener()
    log.addHandler(listener)
    log.setLevel(logging.DEBUG)
    try:
        yield times
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(listener)


if __name__ == "__main__":
    _main(*sys.argv[1:])

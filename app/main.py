"""The dashboard's entry point: `streamlit run app/main.py`, with TIDEMARK_HOME in the environment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from dashboard import data, filters, start
from dashboard.panels import countries, live, pages, pipeline, quality, sessions
from dashboard.reader import Reader, ReadError
from dashboard.text import plain

PAGES = (
    ("Live", ":material/sensors:", "live", live.page, False),
    ("Countries", ":material/public:", "countries", countries.page, True),
    ("Sessions", ":material/route:", "sessions", sessions.page, True),
    ("Pages and traffic", ":material/bar_chart:", "pages", pages.page, True),
    ("Quality", ":material/verified:", "quality", quality.page, True),
    ("Pipeline", ":material/lan:", "pipeline", pipeline.page, True),
)

# A file of our own: Streamlit's named icons come from elsewhere when they are the browser tab's.
ICON = Path(__file__).parent / "icon.png"
STYLE = """<style>
.block-container {padding: 3.8rem 1.4rem 2rem; max-width: 1500px;}
@media (max-width: 640px) {
  [data-testid="stColumn"]:has(
    > div > [data-testid="stElementContainer"]:only-child [data-testid="stMetric"]
  ) {
    min-width: calc(50% - 1rem); flex: 1 1 calc(50% - 1rem);
  }
  .block-container {padding: 3.6rem 0.7rem 2rem;}}
</style>"""


def draw(title: str, page: Callable[[Reader, filters.Filters], None], ranged: bool) -> None:
    """One page: its heading, the filter bar, and its panels, or what to do when there is no data."""
    st.title(title, anchor=False)
    try:
        reader = data.shared_reader()
        if not start.has_data(reader):
            start.empty_state(reader)
            return
        extents = data.extents(reader)
        chosen = filters.choose(list(extents), extents, ranged=ranged)
    except ReadError as error:
        st.warning(plain(str(error)), icon=":material/error:")
        chosen, extents = filters.choose([], {}, ranged=ranged), {}
    filters.offer_jump(chosen, extents, ranged=ranged)
    page(reader, chosen)


def main() -> None:
    st.set_page_config("Tidemark", str(ICON), layout="wide")
    st.html(STYLE)
    entries = []
    for title, icon, path, page, ranged in PAGES:
        run = functools.partial(draw, title, page, ranged)
        entries.append(st.Page(run, title=title, icon=icon, url_path=path, default=path == "live"))
    st.navigation(entries, position="top").run()


main()

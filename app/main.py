"""The dashboard's entry point: `streamlit run app/main.py`, with TIDEMARK_HOME in the environment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from dashboard import data, filters, start
from dashboard.figures.reader import Reader, ReadError
from dashboard.panels import countries, live, others, pages, pipeline, quality, sessions
from dashboard.text import plain

PAGES = (
    ("Live", ":material/sensors:", "live", live.page, False),
    ("Countries", ":material/public:", "countries", countries.page, True),
    ("Sessions", ":material/route:", "sessions", sessions.page, True),
    ("Pages and traffic", ":material/bar_chart:", "pages", pages.page, True),
    ("Quality", ":material/verified:", "quality", quality.page, True),
    ("Pipeline", ":material/lan:", "pipeline", pipeline.page, True),
)
# Shown where another package declares tables.
OTHERS = ("Other tables", ":material/table:", "others", others.page, True)

# A file of our own: Streamlit's named icons come from elsewhere when they are the browser tab's.
ICON = Path(__file__).parent / "icon.png"
STYLE = """<style>
.block-container {padding: 3.8rem 1.4rem 2rem; max-width: 1500px;}
/* Panels side by side are equally high. */
[data-testid="stColumn"] > [data-testid="stVerticalBlock"] > [data-testid="stLayoutWrapper"]:last-child {flex-grow: 1;}
@media (max-width: 640px) {
  [data-testid="stColumn"]:has(
    > div > [data-testid="stElementContainer"]:only-child [data-testid="stMetric"]
  ) {
    min-width: calc(50% - 1rem); flex: 1 1 calc(50% - 1rem);
  }
  [data-testid="stMetricLabel"] p {white-space: normal;}
  .block-container {padding: 3.6rem 0.7rem 2rem;}}
</style>"""


def main() -> None:
    """Draws the chosen page under its heading and the filter bar, or what to do when there is no data.

    The bar is drawn here and not by the pages, so that its choices outlive a change of page.
    """
    st.set_page_config("Tidemark", str(ICON), layout="wide")
    st.html(STYLE)
    reader = data.shared_reader()
    chosen = filters.Filters()

    def run(page: Callable[[Reader, filters.Filters], None]) -> None:
        page(reader, chosen)

    pages = (*PAGES, OTHERS) if has_others(reader) else PAGES
    entries = [
        st.Page(functools.partial(run, page), title=title, icon=icon, url_path=path, default=path == "live")
        for title, icon, path, page, _ in pages
    ]
    current = st.navigation(entries, position="top")
    ranged = next(r for title, _, _, _, r in pages if title == current.title)
    st.title(current.title, anchor=False)
    if not start.has_data(reader):
        start.empty_state(reader)
        return
    try:
        extents = data.extents(reader)
    except ReadError as error:
        st.warning(plain(str(error)), icon=":material/error:")
        extents = {}
    chosen = filters.choose(list(extents), extents, page=current.title, ranged=ranged)
    filters.offer_jump(chosen, extents, ranged=ranged, history="countries")
    current.run()


def has_others(reader: Reader) -> bool:
    """Whether another package declares tables. An unreadable list of tables is told by the panels."""
    try:
        return bool(data.others(reader))
    except ReadError:
        return False


main()

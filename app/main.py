"""The dashboard's entry point: `streamlit run app/main.py`, with TIDEMARK_HOME in the environment."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from dashboard import ahead, data, start, who
from dashboard.controls import actions, address, bar, navigation, sharing, views
from dashboard.filters import Filters
from dashboard.panel import freshness
from dashboard.panels import (
    access,
    alerts,
    bots,
    countries,
    definitions,
    errors,
    funnels,
    goals,
    live,
    networks,
    others,
    overview,
    pages,
    paths,
    performance,
    pipeline,
    quality,
    reported,
    retention,
    sessions,
    sources,
)

from tidemark.access.asking import Asking
from tidemark.figures.extents import Extent
from tidemark.figures.reader import Reader, ReadError
from tidemark.figures.text import plain


@dataclass(frozen=True)
class Page:
    """A page of a section at the address `path`. `ranged` is False if it is about now, `filtered` if it is about
    requests, `whole` True if it is about the pipeline of all sites, `processed` if its range is of the time of
    processing."""

    section: str
    title: str
    path: str
    draw: Callable[[Reader, Filters], None]
    ranged: bool = True
    filtered: bool = True
    whole: bool = False
    processed: bool = False


PAGES = (
    Page("Overview", "Overview", "overview", overview.page),
    Page("Live", "Live", "live", live.page, ranged=False),
    Page("Audience", "Sources", "sources", sources.page),
    Page("Audience", "Pages", "pages", pages.page),
    Page("Audience", "Countries", "countries", countries.page),
    Page("Audience", "Networks", "networks", networks.page),
    Page("Audience", "Sessions", "sessions", sessions.page),
    Page("Behaviour", "Goals", "goals", goals.page),
    Page("Behaviour", "Funnels", "funnels", funnels.page),
    Page("Behaviour", "Retention", "retention", retention.page),
    Page("Behaviour", "Paths", "paths", paths.page),
    Page("Health", "Errors", "errors", errors.page),
    Page("Health", "Performance", "performance", performance.page),
    Page("Health", "Bots", "bots", bots.page),
    Page("Health", "Alerts", "alerts", alerts.page, filtered=False),
    Page("Trust", "Quality", "quality", quality.page, filtered=False, whole=True, processed=True),
    Page("Trust", "As reported", "as-reported", reported.page, filtered=False),
    Page("Trust", "Pipeline", "pipeline", pipeline.page, filtered=False, whole=True, processed=True),
    Page("Settings", "Definitions", "definitions", definitions.page, ranged=False, filtered=False),
)
DEFINITIONS = PAGES[-1]
# Shown where another package declares tables.
OTHERS = Page("Trust", "Other tables", "others", others.page, filtered=False, whole=True)
# Shown to those who manage people, keys and shares.
ACCESS = Page("Settings", "Access", "access", access.page, ranged=False, filtered=False)

# A file of our own: Streamlit's named icons come from elsewhere when they are the browser tab's.
ICON = Path(__file__).parent / "icon.png"
STYLE = Path(__file__).parent / "style.css"


def main() -> None:
    """Draws the chosen page under the sections, its heading and the filter bar, or what to do when there is no data.

    The bar is drawn here and not by the pages, so that its choices outlive a change of page.
    """
    st.set_page_config("Tidemark", str(ICON), layout="wide")
    st.html(STYLE)
    st.session_state.pop(actions.CHANGED, None)
    asking = who.asking()
    shared = asking.shared
    if asking.right.sites == frozenset():
        st.info("Nobody is logged in, or may see nothing here. Log in, or ask an admin.", icon=who.LOCK)
        return
    reader = data.shared_reader(asking.right)
    chosen = Filters()

    def run(page: Page) -> None:
        if page.whole and not asking.right.has_site(None):
            st.info(
                "This page is about all sites together. You may see some of them: choose another page, or ask an admin "
                "for the right to all sites.",
                icon=who.LOCK,
            )
        else:
            page.draw(reader, chosen)

    pages = pages_of(reader, asking)
    # Streamlit serves the first page at / and nowhere else, so its own address is a page that leads there.
    first = pages[0]
    entries = [
        st.Page(
            functools.partial(run, page),
            title=page.title,
            default=page is first,
            url_path="" if page is first else page.path,
        )
        for page in pages
    ]
    leads = st.Page(
        functools.partial(run, first), title=first.title, url_path=first.path, visibility="hidden"
    )
    current = st.navigation([*entries, leads], position="hidden")
    if current is leads:
        parameters = st.query_params
        st.switch_page(entries[0], query_params=[(name, parameters.get_all(name)) for name in parameters])
    wanted = st.session_state.pop(actions.WANTED, None)
    if wanted is not None:
        for entry in entries:
            if entry.url_path == wanted:
                st.switch_page(entry, query_params=address.link())
    page = next(page for page in pages if page.title == current.title)
    st.set_page_config(f"{page.title} · Tidemark", str(ICON), layout="wide")
    full = start.has_data(reader) or page in (ACCESS, DEFINITIONS)
    extents = extents_of(reader) if full else {}
    address.read(() if shared is not None else extents, page.title)
    navigation.skip_link()
    if shared is None:
        navigation.draw([(page.section, entry) for page, entry in zip(pages, entries, strict=True)], current)
    with st.container(horizontal=True, vertical_alignment="center", key="title", gap="small"):
        st.title(page.title, anchor=False, width="content")
        if full:
            chosen = bar.choose(
                list(extents),
                extents,
                page=page.title,
                ranged=page.ranged,
                filtered=page.filtered,
                home=data.home(reader),
                shared=shared,
            )
            with st.container(width="content"):
                sharing.offer(data.home(reader), page.path)
            with st.container(width="stretch", key="freshness"):
                freshness(reader, chosen)
        who.account()
    navigation.landmark()
    navigation.groups()
    if not full:
        start.empty_state(reader)
        return
    if bar.refuse():
        return
    if page.processed:
        st.caption("The range is of the time at which lines were processed.")
    bar.offer_jump(chosen, extents, ranged=page.ranged)
    views.show(reader, chosen)
    current.run()
    # Only now, because it takes the processor from the first page.
    ahead.begin(reader)


def extents_of(reader: Reader) -> dict[str, Extent]:
    """First and newest event time per site; none, with the reason on the page, where a table cannot be read."""
    try:
        extents: dict[str, Extent] = data.extents(reader)
    except ReadError as error:
        st.warning(plain(str(error)), icon=":material/error:")
        return {}
    return extents


def pages_of(reader: Reader, asking: Asking) -> tuple[Page, ...]:
    """The pages on offer: of a share, the one that it shows."""
    if asking.shared is not None:
        return tuple(page for page in PAGES if page.path == asking.shared.page)
    shown = (*PAGES, OTHERS) if has_others(reader) else PAGES
    return (*shown, ACCESS) if who.administers() and data.home(reader) is not None else shown


def has_others(reader: Reader) -> bool:
    """Whether another package declares tables. The panels report an unreadable list of tables."""
    try:
        return bool(data.others(reader))
    except ReadError:
        return False


main()

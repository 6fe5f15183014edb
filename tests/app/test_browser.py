"""The dashboard in a real browser, served by a real Streamlit over real tables."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import selenium_axe_python
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from app.dashboard.controls.edit import EDITS
from tests.app import scene, tables
from tests.app.tables import Request
from tidemark.local.ports import free_port

MAIN = Path(__file__).resolve().parents[2] / "app" / "server.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
PAGES = {
    "": "What moved most",
    "live": "Visitors, last 5 minutes",
    "sources": "Channels, sources and campaigns",
    "performance": "Slowest pages",
    "bots": "Visitors that may be bots",
    "errors": "Server errors (5xx)",
    "countries": "All countries",
    "networks": "Networks and organisations",
    "sessions": "Median duration",
    "pages": "Top entry pages",
    "goals": "Searches on the site",
    "definitions": "What changes of settings did",
    "funnels?step=%2F&step=%2Fpricing": "viewed no further page",
    "retention": "Dashed: so far",
    "paths": "makes it the start",
    "alerts": "What fired",
    "as-reported": "Days changed since",
    "quality": "Every line accounted for",
    "pipeline": "3 of 10 parts done",
    "others": "Top values of status",
}
WITHOUT_CHARTS = {"definitions"}
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
)  # fmt: skip

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
    pytest.mark.timeout(300),
]


def wait(until: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer; the last one when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        answer = until()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.25)


def serve(home: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1"]
    environment = os.environ | {"TIDEMARK_HOME": str(home), EDITS: "yes"}
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, cwd=home, stdout=log, stderr=log)
    try:

        def listens() -> bool:
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        assert wait(listens), (home / "server.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over a home with two days of traffic, attack strings among it."""
    home = tmp_path_factory.mktemp("home")
    scene.build(home, datetime.now(UTC), people=1500)
    yield from serve(home)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """An empty home and its server."""
    for url in serve(tmp_path):
        yield tmp_path, url


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture(autouse=True)
def _wide(browser: webdriver.Chrome) -> None:
    resize(browser, 1280)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def resize(browser: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def text(browser: webdriver.Chrome) -> str:
    return str(browser.execute_script("return document.body.innerText"))


def drawn(browser: webdriver.Chrome, words: str, seconds: float = 60) -> bool:
    return bool(wait(lambda: words in text(browser), seconds))


def metric(browser: webdriver.Chrome, label: str) -> str:
    """The value under a label; empty while it is not there."""
    return str(
        browser.execute_script(
            """for (const m of document.querySelectorAll('[data-testid="stMetric"]'))
                 if (m.querySelector('[data-testid="stMetricLabel"]').innerText.includes(arguments[0]))
                   return m.querySelector('[data-testid="stMetricValue"]').innerText.trim();
               return ''""",
            label,
        )
    )


def another(browser: webdriver.Chrome, label: str, before: str) -> str:
    """The value under a label if it is not the one before; empty otherwise."""
    value = metric(browser, label)
    return "" if value == before else value


def press(browser: webdriver.Chrome, label: str) -> None:
    def click() -> bool:
        return bool(
            browser.execute_script(
                """for (const b of document.querySelectorAll('button'))
                     if (b.innerText.trim().endsWith(arguments[0])) { b.click(); return true }
                   return false""",
                label,
            )
        )

    assert wait(click), text(browser)


def choose(browser: webdriver.Chrome, label: str, option: str) -> None:
    """Chooses from a list of the bar."""
    lists = wait(lambda: browser.find_elements(By.CSS_SELECTOR, f"[aria-label*='{label}']"))
    assert lists, text(browser)
    lists[0].click()
    result = wait(
        lambda: browser.find_elements(By.XPATH, f"//*[@role='option'][normalize-space()='{option}']")
    )
    assert result, text(browser)
    result[0].click()


def cells(browser: webdriver.Chrome) -> str:
    """The text of all tables, which are drawn on canvas with a readable copy behind."""
    return str(
        browser.execute_script(
            "return [...document.querySelectorAll('td')].map(c => c.textContent).join('\\n')"
        )
    )


AXE = (Path(selenium_axe_python.__file__).parent / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_each_page_shows_its_content_on_a_phone_and_wide_accessible_in_either_theme(
    browser: webdriver.Chrome, site: str, page: str
) -> None:
    resize(browser, 390)
    theme(browser, "light")
    browser.get(f"{site}/{page}{'&' if '?' in page else '?'}range=all")
    assert drawn(browser, PAGES[page]), text(browser)
    assert drawn(browser, "As of"), text(browser)
    chart = "[data-testid='stVegaLiteChart'] canvas, [data-testid='stVegaLiteChart'] svg"
    assert page in WITHOUT_CHARTS or wait(lambda: browser.find_elements(By.CSS_SELECTOR, chart))
    settle(browser)
    for failure in ("could not be drawn", "cannot be read", "No data yet"):
        assert failure not in text(browser)
    assert too_wide(browser) == [0, 0, []]
    assert uneven(browser) == []
    assert without_numbers(browser) == []
    assert violations(browser) == []

    # A theme has the same elements as the other, and a width the same colours: each is looked at once.
    resize(browser, 1280)
    theme(browser, "dark")
    assert wait(lambda: background(browser) < 128), "the page did not turn dark"
    settle(browser)
    assert drawn(browser, PAGES[page]), text(browser)
    assert violations(browser) == []


def settle(browser: webdriver.Chrome) -> None:
    """Waits until the page is drawn to its end, and nothing of it moves or fades any more."""
    assert wait(lambda: settled(browser)), text(browser)


def settled(browser: webdriver.Chrome) -> bool:
    """Whether the page has stayed as it is for some frames, however long the browser takes for each."""
    return bool(
        browser.execute_async_script(
            """const done = arguments[arguments.length - 1];
               const moves = each => each.playState === 'running' && each.effect.getComputedTiming().endTime < Infinity;
               const still = () => !!document.querySelector('.stApp[data-test-script-state="notRunning"]')
                 && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')
                 && !document.getAnimations().some(moves);
               const height = () => document.querySelector('[data-testid="stMain"]')?.scrollHeight;
               const before = height();
               const look = frames => {
                 if (!still()) done(false);
                 else if (frames) requestAnimationFrame(() => look(frames - 1));
                 else done(height() === before) };
               look(10)"""
        )
    )


def theme(browser: webdriver.Chrome, name: str) -> None:
    """The colours that the browser says its user prefers."""
    scheme = [{"name": "prefers-color-scheme", "value": name}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})


def background(browser: webdriver.Chrome) -> int:
    """How light the page is, 0 to 255."""
    app = "getComputedStyle(document.querySelector('.stApp')).backgroundColor"
    return int(browser.execute_script(f"return Math.max(...{app}.match(/\\d+/g).slice(0, 3))"))


def too_wide(browser: webdriver.Chrome) -> list[Any]:
    """By how many pixels the page can be scrolled sideways, and what is not within its width."""
    result: list[Any] = browser.execute_script(
        """const main = document.querySelector('[data-testid="stMain"]');
           const limit = document.documentElement.clientWidth;
           const over = [...main.querySelectorAll('[data-testid="stColumn"], [data-testid="stMetric"], '
             + '[data-testid="stVegaLiteChart"], [data-testid="stDataFrame"], h1, h5, button')]
             .filter(e => e.getBoundingClientRect().right > limit + 1 && !e.closest('canvas, .st-key-flow-chart'))
             .map(e => e.dataset.testid || e.innerText);
           return [main.scrollWidth - main.clientWidth, document.documentElement.scrollWidth - limit, over]"""
    )
    return result


def uneven(browser: webdriver.Chrome) -> list[Any]:
    """Figures that stand side by side and are not equally high."""
    result: list[Any] = browser.execute_script(
        """const heights = {};
           for (const each of document.querySelectorAll('[data-testid="stMetric"]')) {
             const {top, height} = each.getBoundingClientRect();
             (heights[Math.round(top)] ??= []).push([Math.round(height), each.innerText]);
           }
           return Object.values(heights).filter(row => new Set(row.map(([height]) => height)).size > 1)"""
    )
    return result


def without_numbers(browser: webdriver.Chrome) -> list[str]:
    """Panels with a chart whose numbers cannot be read as a table: a button, a fold, or a table in the panel."""
    result: list[str] = browser.execute_script(
        """const tables = '[class*="st-key-data-"], [data-testid="stDataFrame"], [data-testid="stTable"], '
             + '[class*="-table"]';
           return [...document.querySelectorAll('[class*="st-key-panel-"]')]
             .filter(e => e.querySelector('[data-testid="stVegaLiteChart"]') && !e.querySelector(tables))
             .map(e => e.innerText.slice(0, 100))"""
    )
    return result


def violations(browser: webdriver.Chrome) -> list[Any]:
    """Serious violations of WCAG 2.2 A and AA in what a page draws. Not ours to change are cells of Streamlit's
    tables, which have the same ids in each table, its curves in figures, the unseen marks of Vega's drags, which it
    cannot name, and elements that fade while they are drawn again."""
    if not browser.execute_script("return 'axe' in window"):
        browser.execute_script(AXE)
    result: list[Any] = browser.execute_async_script(
        """const done = arguments[arguments.length - 1];
           const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
           const rules = {'duplicate-id-active': {enabled: false}, 'target-size': {enabled: true}};
           const exclude = [['[data-stale="true"]'], ['[data-testid="stMetricChart"]'], ['.brush_brush_bg'],
             ['.brush_brush'], ['.zoom_brush_bg'], ['.zoom_brush']];
           const options = {runOnly, rules, resultTypes: ['violations']};
           axe.run({include: [['.block-container']], exclude}, options).then(r => done(
             r.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(
               v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 300))])))"""
    )
    return result


def test_the_bar_of_a_custom_range_covers_nothing(browser: webdriver.Chrome, site: str) -> None:
    for width in (390, 1280, 1500):
        resize(browser, width)
        browser.get(f"{site}/?range=custom")
        assert drawn(browser, "As of"), text(browser)
        assert wait(lambda: browser.find_elements(By.CSS_SELECTOR, ".st-key-filters input"))
        settle(browser)
        covered = browser.execute_script(
            """const box = e => e.getBoundingClientRect();
               const line = box(document.querySelector('.st-key-freshness p'));
               return [...document.querySelectorAll('.st-key-filters button, .st-key-filters input')]
                 .filter(e => box(e).right > line.left && box(e).left < line.right
                   && box(e).bottom > line.top && box(e).top < line.bottom).map(e => e.outerHTML)"""
        )
        assert covered == [], width
    assert too_wide(browser) == [0, 0, []]


def test_attack_strings_show_as_text_and_do_nothing(browser: webdriver.Chrome, site: str) -> None:
    browser.get(f"{site}/pages")
    assert drawn(browser, "Top pages")

    assert wait(lambda: all(a in cells(browser) for a in scene.ATTACKS)), cells(browser)
    assert browser.execute_script("return document.querySelectorAll('img[src=\"x\"], strong em').length") == 0
    click_first_cell(browser)
    assert wait(lambda: "filter=path" in browser.current_url), browser.current_url
    browser.get(f"{site}/quality")
    assert drawn(browser, "Rejected lines")
    assert wait(lambda: "<script>alert(1)</script> **bold**" in cells(browser)), cells(browser)
    with pytest.raises(Exception, match="no such alert"):
        _ = browser.switch_to.alert.text


@pytest.mark.parametrize("page, panel", [("", "overview-pages_panel"), ("bots", "bots-pages_panel")])
def test_a_list_opens_as_a_whole(browser: webdriver.Chrome, site: str, page: str, panel: str) -> None:
    browser.get(f"{site}/{page}?range=all")
    opens = wait(lambda: browser.find_elements(By.CSS_SELECTOR, f".st-key-whole-{panel} button"))
    assert opens, text(browser)

    def values() -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)"
        return list(browser.execute_script(script, f".st-key-panel-{panel} .toplist button.value"))

    assert wait(lambda: len(values()) > 5), text(browser)
    listed = values()
    browser.execute_script("arguments[0].click()", opens[0])

    def cells_of_table() -> set[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map(c => c.textContent)"
        return set(browser.execute_script(script, f".st-key-grid-all-{panel} td"))

    assert wait(lambda: cells_of_table() >= {*listed}), (listed, cells_of_table())


def click_first_cell(browser: webdriver.Chrome) -> None:
    """Clicks on the value in the first row of the page's first table."""
    settle(browser)
    canvas = browser.find_element(By.CSS_SELECTOR, "[data-testid='stDataFrame'] canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    box = canvas.size
    # From the middle of the table; the first column is that of the boxes which select rows.
    x, y = 50 - int(box["width"]) // 2, 50 - int(box["height"]) // 2
    webdriver.ActionChains(browser).move_to_element_with_offset(canvas, x, y).click().perform()


def test_filters_change_the_address_and_the_figures(browser: webdriver.Chrome, site: str) -> None:
    browser.get(f"{site}/countries")
    assert drawn(browser, "All countries")
    day = wait(lambda: metric(browser, "Visitors"))

    choose(browser, "Time range", "All time")
    assert wait(lambda: "range=all" in browser.current_url), browser.current_url
    whole = wait(lambda: another(browser, "Visitors", day))
    assert whole, day
    browser.back()
    assert wait(lambda: metric(browser, "Visitors") == day), "Back undoes a choice"
    assert "range=all" not in browser.current_url

    browser.get(f"{site}/countries?site=shop.example.com&range=all")
    assert wait(lambda: another(browser, "Visitors", whole)), whole
    chosen = "return document.querySelector(`[data-testid='stSelectbox']`)?.innerHTML ?? ''"
    assert wait(lambda: "shop.example.com" in browser.execute_script(chosen)), text(browser)


def test_a_value_filters_by_a_click_and_its_requests_open_down_to_the_line(
    browser: webdriver.Chrome, site: str
) -> None:
    browser.get(f"{site}/overview?range=all&times=UTC")
    assert drawn(browser, "What moved most")
    assert wait(lambda: browser.current_url.startswith(f"{site}/?")), browser.current_url
    assert "range=all" in browser.current_url
    assert "Page not found" not in text(browser)
    every = wait(lambda: metric(browser, "Visitors"))

    press(browser, "Mobile")
    assert wait(lambda: "filter=device" in browser.current_url), browser.current_url
    assert wait(lambda: another(browser, "Visitors", every)), every

    press(browser, "Requests")
    assert drawn(browser, "The newest 200 requests of all sites"), text(browser)
    assert drawn(browser, "Select a row to see its line as it was received.")
    assert wait(lambda: "mobile" in cells(browser)), cells(browser)


def focused(browser: webdriver.Chrome) -> str:
    """The control or cell that has the focus: its text or label, and its role."""
    return str(
        browser.execute_script(
            """const e = document.activeElement;
               if (!e.matches('a, button, input, [role], td, [data-testid="stDataFrame"] canvas')) return '';
               if (e.matches('canvas')) return 'gridcell';
               return [e.innerText, e.getAttribute('aria-label'), e.getAttribute('role')].join(' ')"""
        )
    )


def keys(browser: webdriver.Chrome, *pressed: str) -> None:
    webdriver.ActionChains(browser).send_keys(*pressed).perform()


def tab_to(browser: webdriver.Chrome, words: str, most: int = 200) -> None:
    """Presses Tab until what has the focus contains the words, or another of its group does, to which the arrows lead;
    after the end of the page it goes on at the top."""
    for _ in range(most):
        keys(browser, Keys.TAB)
        for _ in range(steps_to(browser, words)):
            keys(browser, Keys.ARROW_DOWN if is_vertical(browser) else Keys.ARROW_RIGHT)
        if words in focused(browser):
            return
    pytest.fail(f"no {words} within {most} tabs: {focused(browser)}")


def steps_to(browser: webdriver.Chrome, words: str) -> int:
    """How many arrows lead from what has the focus to another of its group that contains the words; 0 if none does."""
    return int(
        browser.execute_script(
            """const group = document.activeElement.closest('[role="toolbar"]');
               const stops = [...(group?.querySelectorAll('[tabindex]') ?? [])].filter(each => each.checkVisibility());
               const at = stops.indexOf(document.activeElement);
               const next = [...stops.slice(at), ...stops.slice(0, at)];
               return Math.max(0, next.findIndex(each =>
                 `${each.innerText} ${each.getAttribute('aria-label')}`.includes(arguments[0])))""",
            words,
        )
    )


def is_vertical(browser: webdriver.Chrome) -> bool:
    group = "document.activeElement.closest('[role=\"toolbar\"]')"
    return bool(browser.execute_script(f"return {group}.getAttribute('aria-orientation') === 'vertical'"))


def test_requests_and_their_lines_open_and_close_by_the_keyboard_alone(
    browser: webdriver.Chrome, site: str
) -> None:
    browser.get(f"{site}/errors?range=all")
    assert drawn(browser, PAGES["errors"])
    select_row_of_data(browser)
    assert drawn(browser, "3xx"), text(browser)
    tab_to(browser, "2xx")
    keys(browser, Keys.ENTER)

    assert drawn(browser, "The newest"), text(browser)
    assert drawn(browser, "status^2"), text(browser)
    select_row(browser)
    assert drawn(browser, "Rules: v1"), text(browser)
    tab_to(browser, "Close")
    keys(browser, Keys.ESCAPE)
    assert wait(lambda: not browser.find_elements(By.CSS_SELECTOR, "[role='dialog']"))


def select_row(browser: webdriver.Chrome) -> None:
    """Selects the second row of a dialog's table."""
    settle(browser)
    tab_to(browser, "gridcell")
    # The table hands the focus on to its first cell.
    assert wait(lambda: browser.execute_script("return document.activeElement.matches('td')"))
    keys(browser, Keys.ARROW_DOWN)
    webdriver.ActionChains(browser).key_down(Keys.SHIFT).send_keys(" ").key_up(Keys.SHIFT).perform()


def select_row_of_data(browser: webdriver.Chrome) -> None:
    """Opens the data of the page's first chart, and selects a row, by the keyboard."""
    settle(browser)
    tab_to(browser, "Data")
    keys(browser, Keys.ENTER)
    assert wait(lambda: browser.find_elements(By.CSS_SELECTOR, "[role='dialog']"))
    select_row(browser)


def pass_to(browser: webdriver.Chrome, site: str, page: str) -> None:
    """Follows the link to a page as soon as the link and the filter bar are there."""
    wanted = f"a[href*='{page}']"
    browser.execute_script(
        """const [wanted, bar] = [arguments[0], '[data-testid="stSelectbox"]'];
           const pass = () => {
             const link = document.querySelector(wanted);
             if (!link || !document.querySelector(bar)) return false;
             link.click(); return true };
           if (!pass()) new MutationObserver((_, watch) => pass() && watch.disconnect())
             .observe(document.body, {childList: true, subtree: true})""",
        wanted,
    )


@pytest.mark.parametrize("whole", [True, False], ids=["drawn", "half drawn"])
def test_filters_stay_when_the_page_changes(browser: webdriver.Chrome, site: str, whole: bool) -> None:
    browser.get(f"{site}/countries?site=shop.example.com&range=7d")
    if whole:
        assert drawn(browser, "All countries")

    for page, words in (("live", "Right now"), ("sources", "Top sources")):
        pass_to(browser, site, page)
        assert drawn(browser, words)
        assert wait(lambda: "range=7d" in browser.current_url), browser.current_url
        assert "site=shop.example.com" in browser.current_url


def test_an_empty_home_says_what_to_do_and_fills_by_itself(
    browser: webdriver.Chrome, own: tuple[Path, str]
) -> None:
    home, url = own
    browser.get(url)
    assert drawn(browser, "No data yet")
    for command in (f"tidemark --home {home} run", "import access.log", "demo"):
        assert drawn(browser, command), text(browser)

    tables.write_gold(home, [Request(datetime.now(UTC), f"v{i}") for i in range(3)])

    assert wait(lambda: "Top countries" in text(browser)), text(browser)


def test_new_rows_show_without_a_reload(browser: webdriver.Chrome, own: tuple[Path, str]) -> None:
    home, url = own
    requests = [Request(datetime.now(UTC), f"v{i}") for i in range(3)]
    tables.write_gold(home, requests)
    browser.get(f"{url}/live")
    assert wait(lambda: metric(browser, "Visitors, last 5 minutes") == "3"), text(browser)
    browser.execute_script("window.untouched = true")

    tables.write_gold(home, requests + [Request(datetime.now(UTC), f"w{i}") for i in range(4)])

    assert wait(lambda: metric(browser, "Visitors, last 5 minutes") == "7"), text(browser)
    assert browser.execute_script("return window.untouched")

    hidden = "Object.defineProperty(document, 'visibilityState', {get: () => 'hidden', configurable: true})"
    browser.execute_script(hidden)
    tables.write_gold(home, requests)
    time.sleep(4)
    assert metric(browser, "Visitors, last 5 minutes") == "7", "a page that is not seen is not drawn"
    browser.execute_script("delete document.visibilityState")
    assert wait(lambda: metric(browser, "Visitors, last 5 minutes") == "3"), text(browser)

    def refuse(line: bytes) -> None:
        tables.write(home, "silver/rejected", [tables.rejected(0, datetime.now(UTC), line, "bad_status")])

    refuse(b"first line")
    [rows] = (home / "tables/silver/rejected").glob("*.parquet")
    rows.unlink()
    os.mkfifo(rows)  # reading it waits for a writer
    browser.get(f"{url}/live")
    assert wait(lambda: "Reading the tables" in below_heading(browser, "live-rejected_panel")), text(browser)
    assert wait(lambda: metric(browser, "Visitors, last 5 minutes") == "3"), text(browser)
    refuse(b"second line")
    rows.open("wb").close()
    assert wait(lambda: "second line" in cells(browser)), text(browser)
    assert wait(lambda: "Reading" not in below_heading(browser, "live-rejected_panel")), text(browser)


def below_heading(browser: webdriver.Chrome, panel: str) -> str:
    """What the style shows at the end of a panel, if it can be seen."""
    return str(
        browser.execute_script(
            """const panel = document.querySelector(`[class*="st-key-panel-${arguments[0]}"]`);
               const style = panel && getComputedStyle(panel, '::after');
               return style && style.opacity > 0.5 && style.content""",
            panel,
        )
    )


def test_an_archive_is_pointed_out_with_a_way_to_it(browser: webdriver.Chrome, own: tuple[Path, str]) -> None:
    home, url = own
    old = datetime(2015, 5, 17, 10, tzinfo=UTC)
    tables.write_gold(home, [Request(old + timedelta(minutes=i), f"v{i}") for i in range(9)])
    tables.write(home, "silver/sessions", [tables.session(1, old, ["/"])])
    browser.get(f"{url}/countries")
    assert drawn(browser, "The newest line is from 2015-05-17 10:08:00")

    press(browser, "Show all data")

    assert wait(lambda: metric(browser, "Visitors") == "9"), text(browser)
    assert wait(lambda: "range=all" in browser.current_url), browser.current_url

    browser.get(f"{url}/live")
    assert drawn(browser, "The newest line is from 2015-05-17 10:08:00")
    link = wait(lambda: browser.find_elements(By.PARTIAL_LINK_TEXT, "Show all data"))
    assert link, text(browser)
    link[0].click()
    assert wait(lambda: "/?range=all" in browser.current_url), browser.current_url
    assert wait(lambda: metric(browser, "Visitors") == "9"), text(browser)


def open_page(browser: webdriver.Chrome, section: str, page: str, words: str) -> None:
    """Opens a page by the links of its section, from wherever the focus is; Tab goes on at the top after the end."""
    tab_to(browser, section)
    keys(browser, Keys.ENTER)
    if page != section:
        links = wait(lambda: browser.find_elements(By.XPATH, f"//a[normalize-space()='{page}']"))
        assert links, text(browser)
        settle(browser)  # the links of a section take the focus when they have opened
        tab_to(browser, page)
        keys(browser, Keys.ENTER)
    assert wait(lambda: browser.title == f"{page} · Tidemark"), browser.title
    assert drawn(browser, words), text(browser)
    settle(browser)


@pytest.fixture
def noon(browser: webdriver.Chrome) -> Iterator[None]:
    """A browser in a time zone where it is about noon, so that `today` has much in it at any hour."""
    ahead = 12 - datetime.now(UTC).hour
    # The names of these zones count westwards.
    zone = f"Etc/GMT{-ahead:+d}" if ahead else "UTC"
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
    yield
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


@pytest.mark.usefixtures("noon")
def test_ten_questions_are_answered_by_the_keyboard_alone(browser: webdriver.Chrome, site: str) -> None:
    browser.get(f"{site}/?range=7d")
    assert drawn(browser, PAGES[""])
    settle(browser)

    # The first stop skips to the figures, which are few stops away without it, too.
    tab_to(browser, "Skip to figures", 1)
    tab_to(browser, "Show visitors over time", 8)
    browser.refresh()
    assert drawn(browser, PAGES[""])
    settle(browser)

    # How many visitors came today, compared with yesterday?
    tab_to(browser, "Time range", 4)
    keys(browser, Keys.ARROW_DOWN)
    pick(browser, "Today")
    assert wait(lambda: "range=today" in browser.current_url), browser.current_url
    assert wait(lambda: metric(browser, "Visitors"))
    assert drawn(browser, "ompared with"), text(browser)
    # Which sources bring them, and from which countries?
    assert drawn(browser, "Top sources") and drawn(browser, "Top countries")

    # Which page had the most visitors, and which campaign brought sessions?
    open_page(browser, "Audience", "Pages", PAGES["pages"])
    assert wait(lambda: "/pricing" in cells(browser))
    open_page(browser, "Audience", "Sources", PAGES["sources"])
    assert wait(lambda: "launch" in cells(browser))
    # Which pages are missing, and who links to them? What is slow?
    open_page(browser, "Health", "Errors", PAGES["errors"])
    assert wait(lambda: "/old" in cells(browser) and "/blog" in cells(browser))
    open_page(browser, "Health", "Performance", PAGES["performance"])
    assert wait(lambda: metric(browser, "p95"))
    # Which bots read the site? Which part of the sessions converts?
    open_page(browser, "Health", "Bots", PAGES["bots"])
    assert wait(lambda: "GPTBot" in cells(browser))
    open_page(browser, "Behaviour", "Goals", PAGES["goals"])
    assert wait(lambda: "signup" in cells(browser))

    # What did one visitor do?
    open_page(browser, "Audience", "Sessions", PAGES["sessions"])
    select_row(browser)
    assert drawn(browser, "Open the session"), text(browser)
    tab_to(browser, "Open the session")
    keys(browser, Keys.ENTER)
    assert wait(lambda: browser.find_elements(By.CSS_SELECTOR, ".timeline li")), text(browser)
    dialog = "document.querySelector('[role=\"dialog\"]').getBoundingClientRect()"
    inside = f"return {dialog}.top >= 0 && {dialog}.bottom <= window.innerHeight"
    assert wait(lambda: browser.execute_script(inside)), text(browser)
    keys(browser, Keys.ESCAPE)
    assert wait(lambda: not browser.find_elements(By.CSS_SELECTOR, "[role='dialog']"))

    # What was behind the busiest hours?
    open_page(browser, "Overview", "Overview", PAGES[""])
    select_row_of_data(browser)
    assert drawn(browser, "Show requests"), text(browser)
    tab_to(browser, "Show requests")
    keys(browser, Keys.ENTER)
    assert drawn(browser, "Look at this time on all pages"), text(browser)
    tab_to(browser, "Look at this time")
    keys(browser, Keys.ENTER)
    assert wait(lambda: "range=custom" in browser.current_url), browser.current_url


def pick(browser: webdriver.Chrome, option: str) -> None:
    """Moves to an option of the open list, and chooses it."""
    for _ in range(30):
        active = (
            "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.innerText"
        )
        if browser.execute_script(f"return {active}") == option:
            break
        keys(browser, Keys.ARROW_DOWN)
    keys(browser, Keys.ENTER)

"""The dashboard in a real browser over a month of history: seconds of its pages, CPU and memory of its server.

The browser times a click until the first value of the new page is drawn, and until the whole page is drawn and nothing
of it waits. No new lines come meanwhile, so the cores of a viewer are those of waiting and of the clock. The reference
is an app with two pages, each of which has one st.metric and one chart that refresh as often as those of the dashboard:
Streamlit's own share. Needs Chromium and its driver on the path.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import psutil
from selenium import webdriver

from benchmarks.drain import write
from benchmarks.figures import Figure
from benchmarks.freshness import started
from benchmarks.growth import DAYS, FUNNEL
from tidemark.importing.importer import Options, import_files
from tidemark.local import broker, dashboard
from tidemark.local.ports import free_port
from tidemark.settings import Settings

# Lines of the last hour before a measurement, for the pages about now.
RECENT = 20_000
HOUR = 3600
_PATIENCE_SECONDS = 120.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)
# Addresses of the pages and the modules of their panels, in the order of the navigation.
PAGES = {
    "/": "overview", "/live": "live", "/sources": "sources", "/pages": "pages", "/countries": "countries",
    "/networks": "networks", "/sessions": "sessions", "/goals": "goals", "/funnels": "funnels",
    "/retention": "retention", "/paths": "paths", "/errors": "errors", "/performance": "performance", "/bots": "bots",
    "/quality": "quality", "/as-reported": "reported", "/pipeline": "pipeline",
}  # fmt: skip
RANGES = ("24h", "7d", "30d")
WATCH = """
window.watchPage = (module, begun) => new Promise(done => {
  const panels = `[class*="st-key-panel-${module}-"]`;
  const value = ['stMetricValue', 'stDataFrame', 'stVegaLiteChart', 'stText', 'stAlert', 'stHtml']
    .map(id => `${panels} [data-testid="${id}"]`).join();
  const waiting = '[data-stale="true"], [data-testid="stSkeleton"], [data-testid="stAppSkeleton"]';
  let first = null, whole = null;
  const look = () => {
    const now = performance.now();
    if (first === null && [...document.querySelectorAll(value)].some(e => !e.closest('[data-stale="true"]')))
      first = now;
    const drawn = document.querySelector('.stApp[data-test-script-state="notRunning"]')
      && !document.querySelector(waiting)
      && [...document.querySelectorAll('[data-testid="stVegaLiteChart"]')].every(e => e.querySelector('canvas, svg'));
    whole = first !== null && drawn ? whole ?? now : null;
    if (whole !== null && now - whole > 300) done([(first - begun) / 1000, (whole - begun) / 1000]);
    else setTimeout(look, 20);
  };
  look();
});
"""
CLICK = """
const [path, module, done] = arguments;
// The link to the first page is empty, below the directory of all pages.
const to = href => href.startsWith('#') ? null : new URL(href, new URL('./', location)).pathname;
const link = [...document.querySelectorAll('a[href]')].find(a => to(a.getAttribute('href')) === path);
if (!link) { done(null); return; }
const begun = performance.now();
link.click();
window.watchPage(module, begun).then(done);
"""
REFERENCE = """
import streamlit as st

def draw(name):
    @st.fragment(run_every=2)
    def panel():
        with st.container(key=f"panel-{name}-one"):
            st.metric("Visitors", 1234)
            points = [{"x": x, "y": x * x % 17} for x in range(48)]
            mark = {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}}
            st.vega_lite_chart({"data": {"values": points}, "mark": "line", "encoding": mark})
    panel()

def one():
    draw("one")

def two():
    draw("two")

st.navigation([st.Page(one, title="One", default=True), st.Page(two, title="Two")]).run()
"""


@dataclass
class Seen:
    """Seconds of several pages until the first value and until all of it."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def add(self, times: Sequence[float]) -> None:
        self.first.append(times[0])
        self.whole.append(times[1])

    def figures(self, label: str) -> list[Figure]:
        figures = []
        for name, values in (("first number", self.first), ("whole page", self.whole)):
            figures += [
                Figure(f"{label}: {name}, s", values),
                Figure(f"{label}: {name}, p95, s", [float(np.percentile(values, 95))]),
            ]
        return figures


def measure(
    *,
    lines: int,
    rounds: int,
    runs: int,
    viewers: int,
    seconds: int,
    ranges: Sequence[str] = RANGES,
    home: str = "",
) -> list[Figure]:
    """Seconds of `rounds` of clicks on all pages in each of the `ranges`, of `runs` fresh pages and starts of the
    server; cores over `seconds` without a viewer, with one and with `viewers`; memory. The lakehouse of so many `lines`
    is made at `home`, or measured again if it is there. Each figure is printed as soon as it is measured."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        settings = _filled(Path(home or directory) / "home", lines)
        app = Path(directory) / "reference.py"
        app.write_text(REFERENCE, encoding="utf-8")
        figures = []
        for figure in chain(
            _starts(settings, runs),
            _one_viewer(settings, rounds, runs, seconds, ranges),
            _many_viewers(settings, viewers, seconds),
            _reference(app, rounds, runs, seconds),
        ):
            print(f"  {figure.name}: {figure.median:.2f}", flush=True)
            figures.append(figure)
        return figures


def _filled(home: Path, lines: int) -> Settings:
    """A home with so many lines of the last month, and some of the last hour."""
    settings = Settings.of(home=home, broker_port=0, dashboard_port=0)
    now = int(time.time())
    if not settings.tables.is_dir():
        home.mkdir(parents=True, exist_ok=True)
        (home / "tidemark.toml").write_text(FUNNEL, encoding="utf-8")
        month = DAYS * 86_400
        _import(settings, lines, start=now - month, seconds=month - HOUR, visitors=max(lines // 20, 1_000))
    _import(settings, RECENT, start=now - HOUR, seconds=HOUR, visitors=RECENT // 20)
    return settings


def _import(settings: Settings, lines: int, *, start: int, seconds: int, visitors: int) -> None:
    log = settings.home / "access.log"
    write(log, lines, start=start, seconds=seconds, visitors=visitors)
    with broker.running(settings) as there:
        import_files([str(log)], Options(there.kafka, say=lambda text: None))
        log.unlink()
        kafka = ["--bootstrap-servers", there.kafka.bootstrap_servers]
        run = [sys.executable, "-m", "tidemark", "--home", str(settings.home), *kafka, "run", "--once"]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _starts(settings: Settings, runs: int) -> Iterator[Figure]:
    """Seconds from the start of a server until a page has its first number."""
    seconds = []
    for _ in range(runs):
        with _browser() as browser:
            begun = time.time()
            with started(settings, "dashboard"):
                _wait(lambda: dashboard.is_healthy(settings))
                first, _ = _opened(browser, dashboard.url(settings), "overview")
                seconds.append(browser.execute_script("return performance.timeOrigin") / 1000 + first - begun)
    yield Figure("server start to first number, s", seconds)


def _one_viewer(
    settings: Settings, rounds: int, runs: int, seconds: int, ranges: Sequence[str]
) -> Iterator[Figure]:
    with started(settings, "dashboard") as server, _browser() as browser:
        _wait(lambda: dashboard.is_healthy(settings))
        url = dashboard.url(settings)
        process = psutil.Process(server.pid)
        yield Figure("no viewer, cores", [_cores(process, seconds)])
        clicks, fresh = Seen(), Seen()
        for number in range(rounds):
            for reach in ranges:
                _opened(browser, f"{url}/?range={reach}", "overview")
                for path, module in (*list(PAGES.items())[1:], ("/", "overview")):
                    times = _clicked(browser, path, module)
                    print(f"  {reach} {path} {number}: {times[0]:.2f} {times[1]:.2f} s", flush=True)
                    clicks.add(times)
        yield from clicks.figures("click")
        for _ in range(runs):
            fresh.add(_opened(browser, f"{url}/", "overview"))
        yield from fresh.figures("fresh page")
        yield Figure("resident memory after these, MiB", [_resident(process)])
        for path, module in (("/live", "live"), ("/", "overview")):
            _opened(browser, f"{url}{path}", module)
            yield Figure(f"a viewer of {module}, cores", [_cores(process, seconds)])
        browser.minimize_window()
        assert browser.execute_script("return document.visibilityState") == "hidden", "the tab is not hidden"
        yield Figure("a hidden tab, cores", [_cores(process, seconds)])


def _many_viewers(settings: Settings, viewers: int, seconds: int) -> Iterator[Figure]:
    with started(settings, "dashboard") as server, _browser() as browser:
        _wait(lambda: dashboard.is_healthy(settings))
        url = dashboard.url(settings)
        process = psutil.Process(server.pid)
        for number in range(viewers):
            if number:
                browser.switch_to.new_window("window")
                _watching(browser)
            _opened(browser, f"{url}/", "overview")
        time.sleep(5)
        yield Figure(f"{viewers} viewers of overview, cores", [_cores(process, seconds)])
        among = Seen()
        for path, module in list(PAGES.items())[1:]:
            among.add(_clicked(browser, path, module))
        for handle in browser.window_handles:
            browser.switch_to.window(handle)
            assert browser.execute_script("return document.visibilityState") == "visible"
        yield from among.figures(f"click among {viewers} viewers")
        yield Figure(f"resident memory with {viewers} viewers, MiB", [_resident(process)])


def _reference(app: Path, rounds: int, runs: int, seconds: int) -> Iterator[Figure]:
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(app), "--server.port", str(port)]
    command += [
        "--server.address",
        "127.0.0.1",
        "--server.headless",
        "true",
        "--browser.gatherUsageStats",
        "false",
    ]
    url, label = f"http://127.0.0.1:{port}", "reference: a metric and a chart"
    clicks, fresh, starts = Seen(), Seen(), []
    with _browser() as browser:
        for number in range(runs):
            begun = time.time()
            server = subprocess.Popen(command, cwd=app.parent, stdout=subprocess.DEVNULL)
            try:
                _wait(lambda: _listens(url))
                first, _ = _opened(browser, url, "one")
                starts.append(browser.execute_script("return performance.timeOrigin") / 1000 + first - begun)
                fresh.add(_opened(browser, url, "one"))
                if number == runs - 1:
                    for _ in range(rounds * 5):
                        clicks.add(_clicked(browser, "/two", "two"))
                        clicks.add(_clicked(browser, "/", "one"))
                    process = psutil.Process(server.pid)
                    cores, resident = _cores(process, seconds), _resident(process)
            finally:
                server.terminate()
                server.wait(20)
    yield Figure(f"{label}: server start to first number, s", starts)
    yield from clicks.figures(f"{label}: click")
    yield from fresh.figures(f"{label}: fresh page")
    yield Figure(f"{label}: a viewer, cores", [cores])
    yield Figure(f"{label}: resident memory, MiB", [resident])


@contextmanager
def _browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    # Without a path, Selenium fetches a driver from the internet.
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    browser.set_script_timeout(_PATIENCE_SECONDS)
    try:
        _watching(browser)
        yield browser
    finally:
        browser.quit()


def _watching(browser: webdriver.Chrome) -> None:
    """Has the present window time its pages."""
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})


def _opened(browser: webdriver.Chrome, url: str, module: str) -> tuple[float, float]:
    """Seconds of a fresh page until its first value and until all of it."""
    browser.get(url)
    script = "const [module, done] = arguments; window.watchPage(module, 0).then(done)"
    first, whole = browser.execute_async_script(script, module)
    return first, whole


def _clicked(browser: webdriver.Chrome, path: str, module: str) -> tuple[float, float]:
    """The same of a click on a link."""
    times = browser.execute_async_script(CLICK, path, module)
    assert times is not None, f"the page has no link to {path}"
    return times[0], times[1]


def _cores(process: psutil.Process, seconds: int) -> float:
    """The cores that a process uses from now on."""
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float(sum(process.cpu_times()[:2]) - before) / seconds


def _resident(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


def _listens(url: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", urlsplit(url).port or 80)) == 0


def _wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not until():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {_PATIENCE_SECONDS:.0f} s")
        time.sleep(0.05)

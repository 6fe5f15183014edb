"""A person logs in, looks, and logs out; a share stands in a frame: in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from tests import processes
from tests.access.conftest import PASSWORD
from tests.app import scene
from tests.app.test_browser import browser, drawn, pytestmark, text, wait  # noqa: F401
from tidemark.access.audit import Audit
from tidemark.access.door import Door
from tidemark.access.shares import Share
from tidemark.local import dashboard
from tidemark.local.process import wait_until
from tidemark.settings import Settings

SHOP, OTHER = "shop.example.com", "www.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """`tidemark dashboard` of a home with two sites, with passwords."""
    home = tmp_path_factory.mktemp("home")
    scene.build(home, datetime.now(UTC), people=300)
    Door(home).people.add("ana", "viewer", (SHOP,), PASSWORD)
    environment = {**os.environ, "TIDEMARK_DASHBOARD_PORT": "0", "TIDEMARK_ACCESS_LOGIN": "password"}
    command = [sys.executable, "-m", "tidemark", "--home", str(home), "dashboard"]
    process = processes.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = Settings.of(home=home)
    try:
        assert wait_until(lambda: dashboard.is_healthy(settings), timeout=60, interval=0.2)
        yield home, dashboard.url(settings)
    finally:
        process.terminate()
        process.wait(60)


def downloads(home: Path) -> set[str]:
    """The files that were recorded as downloaded."""
    rows = Audit.of_home(home).rows()
    return {row["object"] for row in rows.to_pylist() if row["what"] == "download"} if rows else set()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory and its server, whose pages are of another site."""
    with ThreadingHTTPServer(
        ("127.0.0.2", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)
    ) as other:
        thread = Thread(target=other.serve_forever, daemon=True)
        thread.start()
        yield tmp_path, f"http://127.0.0.2:{other.server_port}"
        other.shutdown()


def test_a_viewer_logs_in_sees_their_site_and_logs_out(
    browser: webdriver.Chrome,  # noqa: F811
    server: tuple[Path, str],
) -> None:
    home, url = server
    browser.get(f"{url}/sessions?range=all")
    assert browser.current_url == f"{url}/login"
    for name, value in (("name", "ana"), ("password", PASSWORD)):
        browser.find_element(By.NAME, name).send_keys(value)
    browser.find_element(By.TAG_NAME, "button").click()
    assert drawn(browser, "Only analysts see single requests, sessions and visitors"), text(browser)
    assert "/sessions" in browser.current_url and "range=all" in browser.current_url
    assert "ana" in text(browser) and OTHER not in text(browser)
    # A table that is only seen is no download.
    browser.get(f"{url}/pages?range=all")
    # The page's tables are drawn in any order.
    buttons = wait(lambda: browser.find_elements(By.CSS_SELECTOR, ".st-key-csv-pages button"))
    assert buttons, text(browser)
    browser.execute_script("arguments[0].click()", buttons[0])
    assert wait(lambda: downloads(home)) == {"pages_all.csv"}
    browser.get(f"{url}/logout")
    browser.find_element(By.TAG_NAME, "button").click()
    assert wait(lambda: browser.current_url == f"{url}/login")
    browser.get(f"{url}/overview")
    assert browser.current_url == f"{url}/login"


def test_a_share_shows_its_page_in_a_frame_without_a_cookie_and_behind_a_password(
    browser: webdriver.Chrome,  # noqa: F811
    server: tuple[Path, str],
    elsewhere: tuple[Path, str],
) -> None:
    home, url = server
    browser.delete_all_cookies()
    door = Door(home)
    password = door.people.hashed(PASSWORD)
    token = door.shares.add(Share.of(SHOP, "pages", ["device=mobile"], embed=True), None)
    directory, other = elsewhere
    frame = f'<iframe src="{url}/share/{token}?site={OTHER}&range=all" width="1200" height="800"></iframe>'
    (directory / "page.html").write_text(frame)
    browser.get(f"{other}/page.html")
    browser.switch_to.frame(0)
    assert drawn(browser, f"{SHOP}, device=mobile"), text(browser)
    assert drawn(browser, "As of"), text(browser)
    assert OTHER not in text(browser) and "Overview" not in text(browser)
    browser.switch_to.default_content()

    locked = door.shares.add(Share.of(SHOP, "pages", ["device=mobile"], password), None)
    browser.get(f"{url}/share/{locked}")
    browser.find_element(By.NAME, "password").send_keys(PASSWORD)
    browser.find_element(By.TAG_NAME, "button").click()
    assert drawn(browser, f"{SHOP}, device=mobile"), text(browser)

    # In a frame of another site browsers keep the password over https only.
    framed = door.shares.add(Share.of(SHOP, "pages", [], password, embed=True), None)
    (directory / "page.html").write_text(frame.replace(token, framed))
    browser.get(f"{other}/page.html")
    browser.switch_to.frame(0)
    browser.find_element(By.NAME, "password").send_keys(PASSWORD)
    browser.find_element(By.TAG_NAME, "button").click()
    assert drawn(browser, "The password is right"), text(browser)

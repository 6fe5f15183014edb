"""Takes the pictures of docs/dashboard.md again: every page of the dashboard over a home, such as that of a demo.

    python scripts/pictures.py HOME [--out docs/images] [--pages overview live] [--width 390] [--dark] [--full]

Needs Chromium and its driver on the path.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tidemark.local.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
MAIN = ROOT / "app" / "main.py"
SERVER = MAIN.with_name("server.py")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
# Of the week with its story; the figures of a day have one before to compare with.
RANGES = {"overview": "24h", "funnels": "24h"}
HEIGHT = 1100
MOST_BYTES = 150_000
SETTLED = """return document.querySelectorAll('h5').length > 0
  && !document.querySelector('[data-testid="stStatusWidget"], [data-stale="true"], [data-testid="stSkeleton"]')"""


def pages() -> list[str]:
    """The addresses of all pages in app/main.py."""
    calls = [
        node for node in ast.walk(ast.parse(MAIN.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    made = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Page"]
    return [str(call.args[2].value) for call in made if isinstance(call.args[2], ast.Constant)]


def serve(home: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Starts a dashboard on any free port, and waits until it listens."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(SERVER), "--server.port", str(port)]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true"]
    server = subprocess.Popen(
        command,
        env=os.environ | {"TIDEMARK_HOME": str(home), "TIDEMARK_DASHBOARD_EDITS": "yes"},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.2)
    return server, f"http://127.0.0.1:{port}"


def browser(dark: bool) -> webdriver.Chrome:
    options = Options()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    return driver


def resize(driver: webdriver.Chrome, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def picture(driver: webdriver.Chrome, url: str, width: int, full: bool) -> bytes:
    """A picture of a page: its upper part, or the `full` page."""
    resize(driver, width, HEIGHT)
    driver.get(url)
    end = time.monotonic() + 60
    while time.monotonic() < end and not driver.execute_script(SETTLED):
        time.sleep(0.3)
    time.sleep(4)  # charts draw after their data have come
    high = driver.execute_script("return document.querySelector('[data-testid=\"stMain\"]').scrollHeight")
    resize(driver, width, int(high) + 40 if full else min(int(high) + 40, HEIGHT))
    time.sleep(1.5)
    return driver.get_screenshot_as_png()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("--pages", nargs="*", help="default: all of app/main.py but Other tables and Access")
    parser.add_argument("--range", help="of all pages")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--full", action="store_true", help="the whole page, in all its height")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    server, address = serve(asked.home.resolve())
    driver = browser(asked.dark)
    try:
        for page in asked.pages or [page for page in pages() if page not in ("others", "access")]:
            reach = asked.range or RANGES.get(page, "7d")
            place = "" if page == "overview" else page
            taken = picture(driver, f"{address}/{place}?range={reach}&times=UTC", asked.width, asked.full)
            image = Image.open(io.BytesIO(taken)).convert("RGB")
            file = asked.out / f"{page}.png"
            image.save(file, optimize=True)
            if file.stat().st_size > MOST_BYTES:
                # With few colours, the thin lines of charts lose theirs.
                image.quantize(256, kmeans=1, dither=Image.Dither.NONE).save(file, optimize=True)
            sys.stdout.write(f"{file}: {image.width} x {image.height}, {file.stat().st_size / 1000:.0f} kB\n")
    finally:
        driver.quit()
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()

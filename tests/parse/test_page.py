from __future__ import annotations

import pyarrow as pa
import pytest

from tidemark.parse.page import is_asset, is_pageview


@pytest.mark.parametrize(
    "path, asset",
    [
        ("/f.woff2", True), ("/I.JPG", True), ("/x.webmanifest", True), ("/a.min.js", True), ("/live/part7.m4s", True),
        ("/a.js;jsessionid=7", True), ("/a.js;v=1.2", True), ("/a.css;x=1;y=2", True), ("/style;v=1.css", True),
        ("/shop/cart;jsessionid=0A1B.node1", False), ("/logo.svgz", True), ("/seg-000001.ts", True),
        ("/sound.weba", True), ("/tune.mid", True), ("/a.cjs", True), ("/a.tsx", False), ("/paper.pdf", False),
        ("/feed.xml", False), ("/data.json", False), ("/robots.txt", False), ("/;a.js/page", False),
        ("/a.js/page", False), ("/css", False), ("/v1.2/docs", False), ("/download.php", False),
        ("/price.list.html", False), ("/", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_files_of_pages_are_assets(path: str | None, asset: bool) -> None:
    assert is_asset(pa.array([path], pa.string())).to_pylist() == [asset]
    assert is_asset(pa.array([path, "/;"])).to_pylist() == [asset, False]


def test_a_pageview_is_a_get_of_a_page_by_a_person_that_succeeds() -> None:
    rows = [
        ("GET", "/", 200, False, False, True),
        ("GET", "/", 304, False, False, True),
        ("GET", "/", 301, False, False, True),
        ("HEAD", "/", 200, False, False, False),
        ("POST", "/", 200, False, False, False),
        (None, "/", 200, False, False, True),
        (None, None, 200, False, False, False),
        ("GET", "/", 404, False, False, False),
        ("GET", "/", 200, True, False, False),
        ("GET", "/", 200, False, True, False),
    ]
    method, path, status, bot, asset, expected = (pa.array(column) for column in zip(*rows, strict=True))
    result = is_pageview({"method": method, "path": path, "status": status, "bot": bot, "asset": asset})
    assert result.equals(expected)

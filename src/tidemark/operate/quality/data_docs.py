"""Makes Great Expectations' Data Docs readable without the internet.

Its pages fetch styles and scripts from elsewhere, and its first page is empty without them.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from urllib.parse import quote

_REMOTE = re.compile(
    r"<script\b.*?</script>|<link\b[^>]*https?://[^>]*>|<img\b[^>]*https?://[^>]*>|<button\b.*?</button>"
    r"|<p>Stay current.*?</p>|background: url\('https?://[^;]*;",
    re.DOTALL,
)
_STYLE = """<style>
body { font-family: system-ui, sans-serif; color-scheme: light dark; max-width: 75rem; margin: 2rem auto; }
table { border-collapse: collapse; margin: 1rem 0 }
td, th { border: 1px solid #8886; padding: .35rem .7rem; text-align: left }
nav { height: auto !important }
.fa-check-circle::before { content: "\\2713" }
.fa-times::before { content: "\\2717" }
</style></head>"""


def make_offline(directory: Path) -> Path:
    """Removes remote content from the pages and adds a plain first page, whose path it returns."""
    for page in directory.rglob("*.html"):
        text = _REMOTE.sub("", page.read_text(encoding="utf-8"))
        page.write_text(text.replace("</head>", _STYLE, 1), encoding="utf-8")
    index = directory / "index.html"
    pages = sorted((directory / "validations").rglob("*.html"))
    rows = "".join(_index_row(directory, page) for page in pages)
    suites = "".join(
        f"<li>{_link(directory, page, page.relative_to(directory / 'expectations'))}</li>"
        for page in sorted((directory / "expectations").rglob("*.html"))
    )
    index.write_text(
        f"<!DOCTYPE html><html><head><meta charset='utf-8'><title>Data quality</title>{_STYLE}<body>"
        f"<h1>Data quality</h1><h2>Results</h2><table><tr><th>Suite</th><th>Result</th></tr>{rows}</table>"
        f"<h2>Expectation suites</h2><ul>{suites}</ul></body></html>",
        encoding="utf-8",
    )
    return index


def _index_row(directory: Path, page: Path) -> str:
    failed = re.search(r">\s*Failed\s*<", page.read_text(encoding="utf-8"))
    link = _link(directory, page, page.parents[2].relative_to(directory / "validations"))
    return f"<tr><td>{link}</td><td>{'failed' if failed else 'holds'}</td></tr>"


def _link(directory: Path, page: Path, name: Path) -> str:
    shown = ".".join(name.with_suffix("").parts) if name.suffix == ".html" else ".".join(name.parts)
    return f"<a href='{quote(str(page.relative_to(directory)))}'>{escape(shown)}</a>"

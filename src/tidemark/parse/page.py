"""Whether a request is for a page, and whether a person viewed it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Pieces, flags_of

# Files that belong to a page.
ASSETS = pa.array([
    "css", "js", "mjs", "map", "png", "jpg", "jpeg", "gif", "svg", "ico", "webp", "avif", "bmp",
    "woff", "woff2", "ttf", "otf", "eot", "mp4", "webm", "mp3", "wasm",
])  # fmt: skip


def is_asset(path: pa.Array) -> pa.Array:
    """Whether a path ends like a file that belongs to a page; false for NULL."""
    return pc.is_in(pc.utf8_lower(Pieces.of(path, ".", 1, last=True).at(1)), ASSETS)


def is_pageview(requests: Arrays) -> pa.Array:
    """Whether a request is a person's successful GET of a page, by `bot`, `asset`, `method` and `status`."""
    people = ~flags_of(requests["bot"]) & ~flags_of(requests["asset"])
    got = flags_of(pc.equal(requests["method"], "GET")) & flags_of(pc.less(requests["status"], 400))
    return pa.array(got & people)

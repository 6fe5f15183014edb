"""Whether a request is for a page, and whether a person viewed it."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, flags_of
from tidemark.parse.lists import version_of

# Files that belong to a page.
ASSETS = (
    "css", "js", "mjs", "cjs", "map", "webmanifest", "wasm", "woff", "woff2", "ttf", "otf", "eot",
    "png", "apng", "jpg", "jpeg", "jpe", "jfif", "gif", "svg", "svgz", "ico", "cur", "webp", "avif", "heic", "heif",
    "jxl", "jp2", "bmp", "tif", "tiff",
    "mp4", "m4s", "m4v", "mov", "webm", "ogv", "avi", "flv", "f4v", "mpg", "mpeg", "wmv", "mkv", "3gp", "ts", "m2ts",
    "vtt", "m3u8", "mpd", "mp3", "m4a", "aac", "ogg", "oga", "opus", "flac", "wav", "weba", "wma", "mid",
)  # fmt: skip
# The last part of a path may have parameters, such as `;jsessionid=7`.
_ASSET = rf"(?i)\.(?:{'|'.join(ASSETS)})(?:;[^/]*)?$"


@cache
def rules_version() -> str:
    """Changes with what an asset is."""
    return f"pages {version_of(_ASSET)}"


def is_asset(path: pa.Array) -> pa.Array:
    """Whether a path ends like a file that belongs to a page; false for NULL."""
    return pc.fill_null(pc.match_substring_regex(path, _ASSET), False)


def is_pageview(requests: Arrays) -> pa.Array:
    """Whether a request is a person's successful GET of a page, by `bot`, `asset`, `method`, `path` and `status`. A
    path without a method is of a format that has none."""
    people = ~flags_of(requests["bot"]) & ~flags_of(requests["asset"])
    unknown = pc.and_(pc.is_null(requests["method"]), pc.is_valid(requests["path"]))
    got = flags_of(pc.or_kleene(pc.equal(requests["method"], "GET"), unknown))
    got &= flags_of(pc.less(requests["status"], 400))
    return pa.array(got & people)

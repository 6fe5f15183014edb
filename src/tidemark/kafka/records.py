"""Records of lines: a value, and headers without defaults, which would take space in every record."""

from __future__ import annotations

import json

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes, Headers]

DEFAULT_SITE = "default"

# A shipper that cannot set headers of each record puts them into the JSON object around the line, with this prefix.
KEYS = ("site", "format", "fields", "id")
KEY_PREFIX = "tidemark_"
# Headers of a record that say what its line is.
HEADERS = (*KEYS, "chunk", "privacy")
# What every object with one of these keys contains.
KEY_MARK = f'"{KEY_PREFIX}'.encode()


def own_keys(line: bytes) -> dict[str, str]:
    """KEYS of a JSON object, as texts; empty for any other line."""
    if line[:1] != b"{" or KEY_MARK not in line:
        return {}
    try:
        parsed = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    values = {name: parsed.get(f"{KEY_PREFIX}{name}") for name in KEYS}
    return {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in values.items()
        if value is not None
    }

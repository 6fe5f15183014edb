"""Records of lines: a value, and headers without defaults, which would take space in every record."""

from __future__ import annotations

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes, Headers]

DEFAULT_SITE = "default"

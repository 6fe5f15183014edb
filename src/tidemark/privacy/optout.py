"""Requests that ask for privacy: the headers `Sec-GPC` and `DNT`, where a log has them."""

from __future__ import annotations

import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of
from tidemark.parse.detect import Detected

# The header as a JSON object has it, under the names that servers and people give it.
_IN_OBJECTS = r'(?i)"[\w.>-]*(?:sec[_-]?gpc|dnt)\\?"\s*:\s*\[?\s*\\?"?(?:1\b|true)'


def opted_out(detected: Detected) -> Flags:
    """Whether lines have one of these headers with the value 1."""
    asked: Flags = flags_of(pc.match_substring_regex(detected.lines.text, _IN_OBJECTS))
    return asked

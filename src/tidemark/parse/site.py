"""Valid names of sites."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

MOST_CHARACTERS = 200
_CONTROL = r"[\x00-\x1f\x7f-\x{9f}]"


def valid_names(names: pa.Array) -> pa.Array:
    """Whether each name has at most MOST_CHARACTERS characters and no control characters. Checks each distinct
    name once."""
    encoded = names.dictionary_encode()
    distinct = encoded.dictionary
    short = pc.less_equal(pc.utf8_length(distinct), MOST_CHARACTERS)
    return pc.and_(short, pc.invert(pc.match_substring_regex(distinct, _CONTROL))).take(encoded.indices)

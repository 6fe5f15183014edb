"""The columns of lines that are JSON objects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.parse.infer_kinds import LEAST_SHARE, Column
from tidemark.parse.objects import is_object, objects_of

# Paths that fewer of the objects have are left out.
_RARE = 0.02
_MOST_PATHS = 200
_EXAMPLES = 300


def columns_of_objects(text: pa.Array) -> tuple[list[Column], np.ndarray]:
    """The values of objects by their paths, and the rows of these objects; none if nearly all lines are not objects."""
    rows = np.flatnonzero(is_object(text))
    if len(rows) < LEAST_SHARE * len(text):
        return [], rows
    examples = text.take(pa.array(rows[:: max(len(rows) // _EXAMPLES, 1)])).to_pylist()
    counts = Counter[str]()
    for line in examples:
        counts.update(dict.fromkeys(_paths(_object(line)), 1))
    paths = [path for path, count in counts.items() if count > _RARE * len(examples)][:_MOST_PATHS]
    objects = objects_of(text.take(pa.array(rows)), paths)
    sound = np.flatnonzero(objects.sound)
    return [Column(path, objects.texts[path].take(pa.array(sound))) for path in paths], rows[sound]


def _object(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _paths(value: Any, before: str = "") -> Iterator[str]:
    """The paths of texts and numbers. A name with a dot inside has none."""
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if "." in name or not name:
            continue
        if isinstance(inner, Mapping):
            yield from _paths(inner, f"{before}{name}.")
        elif isinstance(inner, str | int | float | list) and not isinstance(inner, bool):
            yield before + name

"""Templates of lines, from the declarations of formats and their first examples."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.text import HIDDEN_BACKSLASH, HIDDEN_QUOTE
from tidemark.parse.writing import COLUMNS_OF, Composed, Slot, Template, quoted, unchanged

_DURATIONS = {"duration_s", "duration_ms", "duration_us", "duration_ns", "duration"}
# Fields whose values are those of one of these, too.
_REDUNDANT = {
    "request": {"target", "method"},
    "target": {"request"},
    "method": {"request"},
    "query": {"request", "target"},
    "protocol": {"request"},
    **{each: _DURATIONS - {each} for each in _DURATIONS},
}
# Stand around the number of a slot while an object becomes text.
_BEGIN, _END = "\ue000", "\ue001"


def of_layout(
    first: str,
    steps: Sequence[tuple[str, str]],
    sample: Sequence[str] | None,
    *,
    verbatim: bool,
    compose: Mapping[str, Composed],
) -> Template:
    """A layout's text in front, its fields with the text after each, and the fields' texts in the example, with hidden
    escapes. Fields with a leading underscore are as in the example."""
    texts, slots = [first], []
    samples: Sequence[str | None] = sample if sample is not None else [None] * len(steps)
    for (name, behind), text in zip(steps, samples, strict=True):
        if name.startswith(("_", "upstream")):
            constant = "-" if text is None else _restored(text, '\\"', "\\\\")
            texts[-1] += constant + behind
            continue
        name = "time" if name.startswith("time_") and name[5:].isdigit() else name
        if text is None and name == "time" and texts[-1].endswith("["):
            text = "21/Nov/2026:10:00:00 +0000"
        slots.append(Slot(name, None if text is None else _restored(text, '"', "\\")))
        texts.append(behind)
    return Template(tuple(texts), tuple(slots), unchanged if verbatim else quoted, compose)


def _restored(text: str, quote: str, backslash: str) -> str:
    return text.replace(HIDDEN_QUOTE, quote).replace(HIDDEN_BACKSLASH, backslash)


def of_object(
    keys: Mapping[str, Sequence[str]],
    marks: Sequence[str],
    example: str,
    columns: Collection[str],
    compose: Mapping[str, Composed],
) -> Template:
    """Objects like the example with the values of fields at the paths of `keys`. Columns that it lacks are added at the
    preferred path of a field that has them."""
    shape: dict[str, Any] = json.loads(example) if example else {}
    slots: list[Slot] = []

    def put(field: str, path: str, sample: object) -> bool:
        inner = sample[0] if isinstance(sample, list) and sample else sample
        bare = isinstance(inner, int | float)
        placed = f"{_BEGIN}{len(slots)}{'#' if bare else ''}{_END}"
        if not _put(shape, path.split("."), [placed] if isinstance(sample, list) else placed):
            return False
        slots.append(Slot(field, None if inner is None else _text(inner), bare))
        return True

    for field, paths in keys.items():
        there = [(path, value) for path in paths if (value := _at(shape, path.split("."))) is not None]
        if there:
            put(field, *there[0])
    present = {slot.field for slot in slots}
    for field, paths in keys.items():
        of_field = COLUMNS_OF.get(field, (field,))
        redundant = present & _REDUNDANT.get(field, set())
        wanted = paths and field not in present and not redundant and set(of_field) & set(columns)
        if wanted and put(field, paths[0], None):
            present.add(field)
    for path in marks:
        if _at(shape, path.split(".")) is None:
            _put(shape, path.split("."), "-")
    text = json.dumps(shape, separators=(",", ":"), ensure_ascii=False)
    parts = re.split(rf'"{_BEGIN}(\d+)#{_END}"|{_BEGIN}(\d+){_END}', text)
    order = [int(bare or string) for bare, string in zip(parts[1::3], parts[2::3], strict=True)]
    return Template(tuple(parts[::3]), tuple(slots[number] for number in order), quoted, compose)


def _at(shape: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = shape
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return None if isinstance(value, dict) else value


def _put(shape: dict[str, Any], path: Sequence[str], value: object) -> bool:
    """Whether there was a place for the value."""
    place: Any = shape
    for name in path[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            return False
    if isinstance(place.get(path[-1]), dict):
        return False
    place[path[-1]] = value
    return True


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def of_header(
    names: Sequence[str], fields: Mapping[str, Sequence[str]], example: str, taken: str
) -> Template:
    """Lines with the columns `names`, of which `fields` has those of each field, the preferred one first. Others are as
    in the example."""
    between = "\t" if "\t" in example else " "
    of_name = {column: field for field, columns in fields.items() for column in columns}
    texts, slots, seen = [""], [], set[str]()
    for number, (name, sample) in enumerate(zip(names, example.split(between), strict=True)):
        behind = between if number < len(names) - 1 else ""
        field = of_name.get(name, "")
        if not field or field in seen:
            texts[-1] += sample + behind
            continue
        seen.add(field)
        slots.append(Slot({"taken": taken, "timestamp": "time"}.get(field, field), sample))
        texts.append(behind)
    return Template(tuple(texts), tuple(slots), unchanged if between == "\t" else _plus)


def _plus(text: pa.Array) -> pa.Array:
    return pc.replace_substring(text, " ", "+")

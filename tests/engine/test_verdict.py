"""The rules that lines break, in the catalogue's order."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tidemark.engine.verdict import verdict

CONDITIONS = {
    "small": pc.field("n") < 10,
    "even": pc.equal(pc.bit_wise_and(pc.field("n"), 1), 0),
}


@pytest.mark.parametrize(
    ("numbers", "reasons"),
    [
        ([2, 3, 11, 12], [[], ["even"], ["small", "even"], ["small"]]),
        ([None, 4], [["small", "even"], []]),  # what cannot be said to hold does not
        ([], []),
    ],
)
def test_a_verdict_names_what_is_broken(numbers: list[int | None], reasons: list[list[str]]) -> None:
    result = verdict(CONDITIONS, {"n": pa.array(numbers, pa.int64())})
    assert result["reasons"].to_pylist() == reasons
    assert result["accepted"].to_pylist() == [names == [] for names in reasons]

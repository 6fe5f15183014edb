"""What was seen before is known by its offset, however it is cut into batches."""

from __future__ import annotations

import pyarrow as pa
import pytest

from examples.kit.positions import Positions
from tidemark.errors import TableError


def records(*places: tuple[str, int, int]) -> pa.Table:
    topics, partitions, offsets = zip(*places, strict=True)
    return pa.table(
        {
            "topic": topics,
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


def test_records_before_the_position_of_their_partition_are_left_out() -> None:
    positions = Positions({})
    first = records(("a", 0, 5), ("a", 1, 0), ("b", 0, 9))
    assert positions.unseen(first).equals(first)
    positions.advance(first)
    again = Positions(positions.as_facts())
    overlapping = records(("a", 0, 4), ("a", 0, 5), ("a", 0, 6), ("a", 1, 0), ("b", 0, 10), ("b", 1, 0))
    assert again.unseen(overlapping).to_pylist() == [
        {"topic": "a", "partition": 0, "offset": 6},
        {"topic": "b", "partition": 0, "offset": 10},
        {"topic": "b", "partition": 1, "offset": 0},
    ]
    assert again.of("a") == {0: 6, 1: 1}
    assert again.of("c") == {}
    # Older ones that come alone move nothing back, as they are left out first.
    again.advance(again.unseen(records(("a", 0, 2))))
    assert again.of("a") == {0: 6, 1: 1}


def test_positions_that_are_lost_are_reported() -> None:
    Positions({}).require_all(records(("a", 0, 3), ("a", 1, 0), ("b", 0, 9)), "a", {0: 3, 1: 0})
    Positions({"a 0": 7}).require_all(records(("a", 0, 7)), "a", {0: 3, 1: 0})
    with pytest.raises(TableError, match="states of what came before are gone"):
        Positions({}).require_all(records(("a", 0, 4)), "a", {0: 3, 1: 0})

"""Positions in Kafka that a query keeps itself, in one transaction with its results.

Spark writes its offsets down before each batch and its end after it, and waits for both: a batch is told by its
number. A query that knows by its own positions what it has seen does not need that. Spark may note its offsets now and
then, beside the batches (BESIDE), and hand over after a crash, in other batches, what was done before.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.errors import TableError

# Options of such a query. By itself Spark would take them for its Kafka sink alone, which writes twice after a crash.
BESIDE = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "1000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


class Positions:
    """The next offset of each partition of the topics that a query reads."""

    def __init__(self, known: Mapping[str, int]) -> None:
        """`known`: what `as_facts` gave."""
        self._next = {_place(name): offset for name, offset in known.items()}

    def unseen(self, records: pa.Table) -> pa.Table:
        """Those of the records (topic, partition, offset) that are at or after the position of their partition."""
        for (topic, partition), offset in self._next.items():
            there = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            records = records.filter(pc.invert(pc.and_(there, pc.less(records["offset"], offset))))
        return records

    def advance(self, records: pa.Table) -> None:
        """Sets the positions behind these records."""
        last = records.group_by(["topic", "partition"]).aggregate([("offset", "max")])
        for row in last.to_pylist():
            self._next[row["topic"], row["partition"]] = row["offset_max"] + 1

    def require_all(self, records: pa.Table, topic: str, begin: Mapping[int, int]) -> None:
        """Raises TableError where nothing was seen before, and yet these records do not begin where the topic does
        (`begin`, offset by partition): then the positions are lost, and what was kept with them."""
        if self._next:
            return
        of_topic = records.filter(pc.equal(records["topic"], topic))
        for row in of_topic.group_by("partition").aggregate([("offset", "min")]).to_pylist():
            if row["offset_min"] > begin[row["partition"]]:
                raise TableError(
                    f"topic {topic!r} is not read from its beginning, but the states of what came before are gone",
                    "Delete the query's checkpoint, too, or start a new home.",
                )

    def of(self, topic: str) -> dict[int, int]:
        """The next offset by partition; none of partitions that nothing came of."""
        return {partition: offset for (name, partition), offset in self._next.items() if name == topic}

    def as_facts(self) -> dict[str, int]:
        """As `Transactions` keeps them."""
        return {f"{topic} {partition}": offset for (topic, partition), offset in self._next.items()}


def _place(name: str) -> tuple[str, int]:
    topic, partition = name.split(" ")
    return topic, int(partition)

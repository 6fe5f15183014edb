"""Kafka offsets that a query keeps itself, in one transaction with its results.

Spark writes its offsets before each batch and a commit after it, and waits for both, because a batch is identified by
its number. A query that keeps its own offsets does not need this. Spark may write its offsets at intervals,
beside the batches (BESIDE), and after a crash pass processed records again in other batches.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.errors import TableError

# Options of such a query. By default Spark allows them only with its Kafka sink, which writes twice after a crash.
BESIDE = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "1000",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


class Positions:
    """The next offset of each partition of the topics that a query reads."""

    def __init__(self, known: Mapping[str, int]) -> None:
        """`known`: the result of `as_facts`."""
        self._next = {_place(name): offset for name, offset in known.items()}

    def unseen(self, records: pa.Table) -> pa.Table:
        """The records (topic, partition, offset) at or after the position of their partition."""
        for (topic, partition), offset in self._next.items():
            there = pc.and_(pc.equal(records["topic"], topic), pc.equal(records["partition"], partition))
            records = records.filter(pc.invert(pc.and_(there, pc.less(records["offset"], offset))))
        return records

    def advance(self, records: pa.Table) -> None:
        """Moves the positions behind these records."""
        last = records.group_by(["topic", "partition"]).aggregate([("offset", "max")])
        for row in last.to_pylist():
            self._next[row["topic"], row["partition"]] = row["offset_max"] + 1

    def require_all(self, records: pa.Table, topic: str, begin: Mapping[int, int]) -> None:
        """Raises TableError if there are no positions, but these records do not begin at the topic's beginning
        (`begin`, offset by partition): then the positions and the state kept with them are lost."""
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
        """The next offset by partition, without partitions that had no record."""
        return {partition: offset for (name, partition), offset in self._next.items() if name == topic}

    def as_facts(self) -> dict[str, int]:
        """The form that `Transactions` keeps."""
        return {f"{topic} {partition}": offset for (topic, partition), offset in self._next.items()}


def _place(name: str) -> tuple[str, int]:
    topic, partition = name.split(" ")
    return topic, int(partition)

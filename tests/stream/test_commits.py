"""The commits of a batch that is written again after a failure."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from bronze.access_log import TABLE as LINES
from tidemark.contract.store import Commit
from tidemark.engine.batches import Local
from tidemark.local.directories import prepare_home
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings
from tidemark.stream.commits import Committer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LINE = b'203.0.113.7 - - [01/Mar/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "Mozilla/5.0"'


class Unreadable(Local):
    """A batch whose rows cannot be read once more, to leave some out."""

    def without(self, keys: pa.Table) -> Local:
        raise OSError("Kafka does not answer")


def test_lines_whose_batch_failed_are_no_repeated_deliveries_of_themselves(home: Settings) -> None:
    prepare_home(home)
    pipeline = Pipeline.of(home)
    pipeline.require_key()
    for table in pipeline.tables:
        pipeline.store.ensure(table, table.reader_properties(home))
    committer = Committer(pipeline.requests(pipeline.validation()), pipeline)
    line = {
        "topic": "access-log",
        "partition": 0,
        "kafka_timestamp": NOON,
        "ingested_at": NOON,
        "value": LINE,
    }
    lines = [{**line, "site": "shop", "offset": n, "id": id} for n, id in enumerate(["a", "b", "a"])]
    rows = pa.Table.from_pylist(lines, LINES.arrow_schema)

    commit = Commit("requests/1", 0)
    with pytest.raises(OSError, match="does not answer"):
        committer.write(Unreadable(committer.work, committer.work.prepare(rows)), commit, NOON)
    facts = committer.write(Local(committer.work, committer.work.prepare(rows)), commit, NOON)
    assert (facts["accepted"], facts["duplicate"]) == (2, 1)

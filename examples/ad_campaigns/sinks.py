"""Sinks of the counts: Redis, as in the benchmark, or a Delta table if there is no Redis.

A sink adds the partial rows of a batch, PARTIAL, and takes each batch once, even if it is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from redis import Redis

from examples.kit.sinks import Upsert, same_windows
from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Change, Column, Table

Sink = Callable[[Store, pa.Table, Commit], None]

WINDOW_SECONDS = 10

COUNTS = Table(
    name="ad_campaigns.counts",
    about="One row per campaign and window of 10 seconds of event time.",
    kind="upsert",
    key=("campaign", "window_start"),
    time="window_start",
    reads="ad-events",
    columns=(
        Column("campaign", "string", "Campaign."),
        Column("window_start", "timestamp", "Start of the window, a multiple of 10 seconds."),
        Column("views", "long", "Ads of the campaign viewed in the window."),
        Column(
            "clock_ms",
            "long",
            "Least lag of Kafka's clock behind the events' own, in ms: the base of latency.",
        ),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)

PARTIAL = pa.schema(
    [
        ("campaign", pa.string()),
        ("window_start", pa.timestamp("us", "UTC")),
        ("views", pa.int64()),
        ("clock_ms", pa.int64()),
    ]
)


class Count(NamedTuple):
    """A window in a sink; times in milliseconds, `updated` by the wall clock."""

    views: int
    updated: int
    clock: int


def to_delta(store: Store, partial: pa.Table, commit: Commit) -> None:
    """Writes to the table COUNTS."""
    Upsert(COUNTS, lambda rows: rows, _added, same_windows).commit(store, partial, commit)


def _added(existing: pa.Table, incoming: pa.Table) -> Change:
    before = existing.select(incoming.column_names)
    both = pa.concat_tables([before, incoming.cast(before.schema)])
    summed = both.group_by(["campaign", "window_start"]).aggregate([("views", "sum"), ("clock_ms", "min")])
    summed = summed.rename_columns(["campaign", "window_start", "views", "clock_ms"])
    changed = summed.join(
        incoming.select(["campaign", "window_start"]), ["campaign", "window_start"], join_type="left semi"
    )
    now = pa.scalar(time.time_ns() // 1000, pa.timestamp("us", tz="UTC"))
    return Change(changed.append_column("updated_at", pa.repeat(now, changed.num_rows)))


# Counts and the batch number change in one step, so a repeated batch finds its number. Redis runs a
# script exclusively, and logs it as a whole.
_ADD = """
if tonumber(redis.call('HGET', 'batches', ARGV[1]) or '-1') >= tonumber(ARGV[2]) then return 0 end
for n = 4, #ARGV, 4 do
    local campaign, start, views, clock = ARGV[n], ARGV[n + 1], ARGV[n + 2], ARGV[n + 3]
    local window = campaign .. '/' .. start
    redis.call('HSETNX', campaign, start, window)
    redis.call('HINCRBY', window, 'seen_count', views)
    redis.call('HSET', window, 'time_updated', ARGV[3])
    local known = redis.call('HGET', window, 'clock')
    if not known or tonumber(clock) < tonumber(known) then redis.call('HSET', window, 'clock', clock) end
end
redis.call('HSET', 'batches', ARGV[1], ARGV[2])
return 1
"""


@dataclass(frozen=True)
class ToRedis:
    """Writes the benchmark's layout: a hash per campaign with the keys of its windows, a hash per window with
    `seen_count` and `time_updated`."""

    url: str

    def __call__(self, store: Store, partial: pa.Table, commit: Commit) -> None:
        starts = partial["window_start"].cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
        rows = zip(
            partial["campaign"].to_pylist(), starts, partial["views"].to_pylist(), partial["clock_ms"].to_pylist(),
            strict=True,
        )  # fmt: skip
        arguments = [value for row in rows for value in row]
        with Redis.from_url(self.url) as client:
            client.eval(_ADD, 0, commit.writer, commit.number, time.time_ns() // 1_000_000, *arguments)

    def counts(self, campaigns: set[str]) -> dict[tuple[str, int], Count]:
        """All windows by campaign and start in milliseconds."""
        result: dict[tuple[str, int], Count] = {}
        with Redis.from_url(self.url, decode_responses=True) as client:
            pipeline = client.pipeline(transaction=False)
            names: list[str] = []
            for campaign in sorted(campaigns):
                windows: Any = client.hvals(campaign)
                for window in windows:
                    names.append(window)
                    pipeline.hgetall(window)
            for name, values in zip(names, pipeline.execute(), strict=True):
                campaign, start = name.rsplit("/", 1)
                result[campaign, int(start)] = Count(
                    int(values["seen_count"]), int(values["time_updated"]), int(values["clock"])
                )
        return result


def counts_in_delta(rows: pa.Table) -> dict[tuple[str, int], Count]:
    """The same from the rows of COUNTS."""
    return {
        (row["campaign"], round(row["window_start"].timestamp() * 1000)): Count(
            row["views"], round(row["updated_at"].timestamp() * 1000), row["clock_ms"]
        )
        for row in rows.to_pylist()
    }

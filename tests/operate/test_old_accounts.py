"""Old rows of quality.accounts are summed per day; every sum and the check for lost batches stay exact."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from tests.operate.quality.rows import good, rows
from tidemark.contract.quality_tables import ACCOUNTS
from tidemark.operate import losses
from tidemark.operate.old_accounts import DAYS
from tidemark.operate.upkeep import maintain
from tidemark.pipeline import Pipeline
from tidemark.settings import Settings

PER_DAY = 96


def today() -> datetime:
    """Midnight before now, which is another one if the tests before take until the next day."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def add_batches(home: Pipeline, flow: str, days: range) -> None:
    """A batch every quarter of an hour of each day, counted back from today. Every seventh one has no line, every fifth
    one rejects a line, every eleventh one nothing else."""
    accounts, midnight = [], today()
    for batch in range(PER_DAY * len(days)):
        at = midnight - timedelta(days=days[batch // PER_DAY]) + timedelta(minutes=15 * (batch % PER_DAY))
        rejected = int(batch % 5 == 0 or batch % 11 == 0)
        accepted = 0 if batch % 7 == 0 or batch % 11 == 0 else batch
        counts = {
            "received": accepted + rejected,
            "accepted": accepted,
            "rejected": rejected,
            "late": accepted // 2,
        }
        times = {"started_at": at, "committed_at": at + timedelta(seconds=40)}
        accounts.append(good(ACCOUNTS, batch, flow=flow, **counts, **times))
    home.store.append_arrow(ACCOUNTS, rows(ACCOUNTS, *accounts))


def sums(home: Pipeline) -> Counter[tuple[str, str, str]]:
    """Each count by flow and day."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in home.store.read(ACCOUNTS).to_pylist():
        for name in ("received", "accepted", "rejected", "duplicate", "late"):
            counts[row["flow"], f"{row['started_at']:%Y-%m-%d}", name] += row[name]
    return counts


def test_old_rows_are_summed_per_day(home: Settings) -> None:
    pipeline = Pipeline.of(home)
    pipeline.store.ensure(ACCOUNTS)
    days = range(DAYS + 10, -1, -1)
    for flow in ("requests", "jobs.one"):
        add_batches(pipeline, flow, days)
    before = sums(pipeline)
    recent = [
        row
        for row in pipeline.store.read(ACCOUNTS).to_pylist()
        if row["started_at"] >= today() - timedelta(DAYS)
    ]

    maintain(pipeline)

    assert sums(pipeline) == before
    after = pipeline.store.read(ACCOUNTS).to_pylist()
    assert all(row in after for row in recent)
    assert len(after) - len(recent) == 2 * 10 * 4  # flows, days, kinds of batches
    assert len({(row["flow"], row["batch_id"]) for row in after}) == len(after)
    version = pipeline.store.version(ACCOUNTS)
    maintain(pipeline)
    assert pipeline.store.version(ACCOUNTS) == version


def test_the_last_batch_with_rejected_lines_stays_known(home: Settings) -> None:
    pipeline = Pipeline.of(home)
    pipeline.store.ensure(ACCOUNTS)
    add_batches(pipeline, "requests", range(DAYS + 2, DAYS, -1))
    expected = losses._accounted(pipeline)
    assert expected["silver.requests"] != expected["silver.rejected"] != 2 * PER_DAY - 1

    maintain(pipeline)

    assert losses._accounted(pipeline) == expected

"""The tables about the pipeline itself: accounts, sites, progress, results."""

from __future__ import annotations

from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table

# Upper bounds, in seconds, of the lateness histogram; a last bucket holds the rest.
LATENESS_BOUNDS = (1, 10, 60, 300, 1800, 10_800, 86_400)

ACCOUNTS = Table(
    name="quality.accounts",
    about="One row per committed micro-batch: received = accepted + rejected + duplicate, exactly.",
    kind="append",
    key=("flow", "batch_id"),
    time="committed_at",
    clock="committed_at",
    reads="the flow's batches",
    tells=lambda settings: {"late_seconds": settings.meaning.late_seconds},
    expects=(
        Expectation(
            "balanced",
            column("received") == column("accepted") + column("rejected") + column("duplicate"),
            "received",
            "Every line received was accepted, rejected or a duplicate.",
        ),
    ),
    columns=(
        Column("flow", "string", "Flow."),
        Column("batch_id", "long", "Micro-batch of the flow's checkpoint."),
        Column("received", "long", "Lines read."),
        Column("accepted", "long", "Lines that are in silver.requests; of a job, valid events."),
        Column("rejected", "long", "Lines that are in silver.rejected; of a job, dead letters."),
        Column("duplicate", "long", "Lines dropped because their delivery id was accepted before."),
        Column("late", "long", "Accepted lines further behind their site's newest than the lateness limit."),
        Column("started_at", "timestamp", "When the batch was read."),
        Column("committed_at", "timestamp", "When all its other tables were committed."),
    ),
)

SITES = Table(
    name="quality.sites",
    about="One row per site: newest event time, numbers of lines, lateness. Lines rejected for "
          "the site's name are not included.",
    kind="upsert",
    key=("site",),
    time="",
    reads="bronze.access_log",
    tells=lambda settings: {"lateness_bounds": ",".join(map(str, LATENESS_BOUNDS))},
    columns=(
        Column("site", "string", "Site."),
        Column("first_event_time", "timestamp", "Event time of its oldest accepted line."),
        Column("newest_event_time", "timestamp", "Event time of its newest accepted line."),
        Column("newest_kafka_timestamp", "timestamp", "Arrival of its newest line."),
        Column("accepted", "long", "Accepted lines."),
        Column("rejected", "long", "Rejected lines."),
        Column("late", "long", "Accepted lines that were late."),
        Column("lateness", "longs", "Accepted lines by distance behind the site's newest line of earlier batches: "
               "up to 1 s, 10 s, 1 min, 5 min, 30 min, 3 h, 1 day, and beyond."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip

PROGRESS = Table(
    name="quality.progress",
    about="One row per micro-batch: speed and freshness. Kept for a week.",
    kind="append",
    key=("flow", "batch_id"),
    time="recorded_at",
    clock="recorded_at",
    reads="the flow's batches",
    tells=lambda settings: {"stale_seconds": settings.watching.stale_seconds},
    columns=(
        Column("flow", "string", "Flow."),
        Column("batch_id", "long", "Micro-batch of the flow's checkpoint."),
        Column("recorded_at", "timestamp", "When the batch was done."),
        Column("rows", "long", "Rows read."),
        Column("duration_ms", "long", "Time taken by the batch, in milliseconds."),
        Column("rows_per_second", "double", "Rows per second of batch time."),
        Column("freshness_seconds", "double", "Age of the newest line when it was committed, in seconds."),
        Column("lag", "long", "Rows waiting after the batch; NULL if unknown."),
        Column("newest_event_time", "timestamp", "Newest event time seen by the flow."),
    ),
)

RESULTS = Table(
    name="quality.results",
    about="One row per expectation and run.",
    kind="append",
    key=("run_time", "table", "expectation"),
    time="run_time",
    clock="run_time",
    reads="every table",
    columns=(
        Column("run_id", "string", "Run."),
        Column("run_time", "timestamp", "When the run started."),
        Column("table", "string", "Checked table."),
        Column("expectation", "string", "Rule of the catalogue."),
        Column("column", "string", "Column of the rule."),
        Column("severity", "string", "critical, warning or info."),
        Column("success", "boolean", "Whether the expectation was met."),
        Column("observed_value", "string", "Observed value."),
        Column("unexpected_count", "long", "Rows that break the rule."),
        Column("details", "string", "Description of the expectation."),
    ),
)

INVENTORY = Table(
    name="quality.tables",
    about="One row per table: who declares it, and how much of its history it has where it was new to a home.",
    kind="upsert",
    key=("table",),
    time="",
    reads="the declared tables",
    quiet=True,
    columns=(
        Column("table", "string", "Table."),
        Column("package", "string", "Package that declares it; empty for Tidemark's own."),
        Column("complete", "boolean", "Whether it has all of its history."),
        Column("done", "long", "Parts of the history that are filled; NULL where no backfill has begun."),
        Column("total", "long", "Parts in all."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)

TABLES = (ACCOUNTS, SITES, PROGRESS, RESULTS, INVENTORY)

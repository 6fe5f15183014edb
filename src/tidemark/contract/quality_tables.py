"""The tables about the pipeline itself (accounts, sites, progress, results), of what it tells people (alerts, notes,
reported days), and of what people did."""

from __future__ import annotations

from tidemark.access.audit import ABOUT, COLUMNS, TABLE
from tidemark.contract.expression import column
from tidemark.contract.rules import Expectation
from tidemark.contract.table import Column, Table

# Upper bounds, in seconds, of the lateness histogram; a last bucket holds the rest.
LATENESS_BOUNDS = (1, 10, 60, 300, 1800, 10_800, 86_400)

ACCOUNTS = Table(
    name="quality.accounts",
    about="One row per committed micro-batch: received = accepted + rejected + duplicate, exactly. Upkeep sums "
    "rows older than 30 days per day, separately for batches with and without accepted and rejected lines.",
    kind="append",
    key=("flow", "batch_id"),
    time="committed_at",
    clock="committed_at",
    reads="the flow's batches",
    reader_settings=lambda settings: {"late_seconds": settings.meaning.late_seconds},
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
        Column("batch_id", "long", "Micro-batch of the flow's checkpoint; of a sum, the last one."),
        Column("received", "long", "Lines read."),
        Column("accepted", "long", "Lines that are in silver.requests; of a job, valid events."),
        Column("rejected", "long", "Lines that are in silver.rejected; of a job, dead letters."),
        Column("duplicate", "long", "Lines dropped because their delivery id was accepted before."),
        Column("late", "long", "Accepted lines further behind their site's newest than the lateness limit."),
        Column("started_at", "timestamp", "When the batch was read; of a sum, when the first one was."),
        Column(
            "committed_at", "timestamp", "When all its other tables were committed; of a sum, as started_at."
        ),
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
    reader_settings=lambda settings: {"lateness_bounds": ",".join(map(str, LATENESS_BOUNDS))},
    columns=(
        Column("site", "string", "Site."),
        Column("first_event_time", "timestamp", "Event time of its oldest accepted line."),
        Column("newest_event_time", "timestamp", "Event time of its newest accepted line."),
        Column("newest_kafka_timestamp", "timestamp", "Arrival of its newest line."),
        Column("reached_event_time", "timestamp", "Event time of its newest accepted line, where a line counts as at "
               "most 5 minutes ahead of its arrival."),
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
    reader_settings=lambda settings: {"stale_seconds": settings.watching.stale_seconds},
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
    about="One row per expectation and run. Kept for 30 days.",
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
        Column(
            "done",
            "long",
            "Parts of the history that are filled, or recomputed for changed settings of sites; else NULL.",
        ),
        Column("total", "long", "Parts in all."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)

ALERTS = Table(
    name="quality.alerts",
    about="One row per alert: a rule fired for a site, with the window at whose end it did. Late lines may raise one "
          "afterwards, or withdraw it.",
    kind="upsert",
    key=("rule", "site", "window_start"),
    time="window_start",
    reads="the tables that the rules watch",
    quiet=True,
    columns=(
        Column("rule", "string", "Rule."),
        Column("site", "string", "Site."),
        Column("window_start", "timestamp", "Start of the window that made the rule fire."),
        Column("window_end", "timestamp", "Its exclusive end."),
        Column("state", "string", "firing, ended or withdrawn."),
        Column("ended_at", "timestamp", "End of the window that ended the alert; NULL while it fires."),
        Column("metric", "string", "Figure that the rule watches."),
        Column("value", "double", "Its value in that window; p95 in seconds."),
        Column("bound", "double", "Bound that the value is beyond."),
        Column("definition", "string", "Hash of the rule's definition."),
        Column("about", "string", "The definition as text."),
        Column("late", "boolean", "Whether late lines raised the alert, after its window had been evaluated."),
        Column("fired_at", "timestamp", "When the alert was first recorded."),
        Column("withdrawn_at", "timestamp", "When it was withdrawn; NULL if it is not."),
        Column("due", "boolean", "Whether a message about the state waits to be delivered."),
        Column("delivered", "string", "State of the last message that was delivered; NULL if none was."),
        Column("delivered_at", "timestamp", "When it was delivered."),
        Column("delivered_to", "string", "The targets, as numbers and schemes; empty where the rule has none."),
        Column("failure", "string", "Why the message is not delivered; NULL if it is."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip

ALERT_RULES = Table(
    name="quality.alert_rules",
    about="One row per alert rule and site: up to where it is evaluated, and how it stands.",
    kind="upsert",
    key=("rule", "site"),
    time="",
    reads="the tables that the rules watch",
    quiet=True,
    columns=(
        Column("rule", "string", "Rule."),
        Column("site", "string", "Site."),
        Column("definition", "string", "Hash of the definition by which the windows are evaluated."),
        Column("about", "string", "The definition as text."),
        Column("judged_from", "timestamp", "Start of the first evaluated window."),
        Column("judged_until", "timestamp", "End of the last evaluated window."),
        Column("state", "string", "Of the last evaluated window: firing, ok, or unknown if it could not be evaluated."),
        Column("value", "double", "Value of the last evaluated window; NULL where it is undefined."),
        Column("bound", "double", "Nearest bound; NULL where the window could not be evaluated."),
        Column("seen_at", "timestamp", "All lines that arrived before are in the evaluation."),
        Column("swap", "long", "Number of the last rebuild of gold.traffic that is in the evaluation; -1: none."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip

NOTES = Table(
    name="quality.notes",
    about="One row per note: what happened at a time, for charts. Made by hand, or by Tidemark about itself.",
    kind="upsert",
    key=("note",),
    time="time",
    reads="people and the pipeline",
    quiet=True,
    columns=(
        Column("note", "string", "Hash of time, site and cause, and of the text of a note by hand."),
        Column("time", "timestamp", "When it happened."),
        Column("site", "string", "Site; empty for all."),
        Column("text", "string", "What happened."),
        Column("cause", "string", "hand, or what Tidemark notes by itself: rebuild, settings (a rebuild that "
               "applied changed ones to history), forget, rules (another rules_version), import (of an archive), gap "
               "(of the pipeline)."),
        Column("about", "string", "Subject of a note of Tidemark's own: goal NAME, tables NAME, sites, privacy, rules, "
               "lines, day DATE, pipeline, site NAME or visitor. NULL, like the next ones, in notes by hand or of "
               "earlier versions."),
        Column("state", "string", "Of a goal: counting, counted or removed. Of changed settings of sites: waiting, not "
               "applied or applied. Of rebuilt tables: applied, where settings were."),
        Column("details", "string", "Why settings are not applied, how many lines got other values, or which settings "
               "the history does not have."),
        Column("was", "string", "Value before: number of conversions, rules_version, or settings as a JSON object by "
               "name; or start of a range of time."),
        Column("now", "string", "Value after, or end of the range."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)  # fmt: skip

REPORTED = Table(
    name="quality.reported",
    about="Figures of each site and day (UTC) as they were when the day was over, and whenever they had changed since. "
          "As reported at a time is the last row until then.",
    kind="append",
    key=("site", "day", "metric", "reported_at"),
    time="day",
    clock="reported_at",
    reads="gold.traffic, gold.visitor_hours and silver.sessions",
    quiet=True,
    columns=(
        Column("site", "string", "Site."),
        Column("day", "timestamp", "Start of the day, UTC; sessions belong to the day on which they start."),
        Column("metric", "string", "requests, pageviews, visitors, sessions or bounce_rate."),
        Column("value", "double", "Its value; NULL for the bounce rate of a day without sessions."),
        Column("reported_at", "timestamp", "All lines that arrived before are counted."),
        Column("cause", "string", "day over, for the first row; then why the value is another: late lines, import, "
               "rebuild, settings or forget."),
    ),
)  # fmt: skip

DELIVERIES = Table(
    name="quality.deliveries",
    about="One row per report of the settings and period: whether it was sent, when and to which targets.",
    kind="upsert",
    key=("report", "period"),
    time="period_start",
    reads="the tables that the reports read",
    quiet=True,
    columns=(
        Column("report", "string", "Name of the report."),
        Column("period", "string", "First day of the period, in the site's time zone."),
        Column("site", "string", "Site; empty for all."),
        Column("period_start", "timestamp", "Start of the period."),
        Column("period_end", "timestamp", "Its exclusive end."),
        Column("state", "string", "sending, sent, or failed: a target did not take it within a day."),
        Column("attempts", "int", "Times that sending began."),
        Column("sent_at", "timestamp", "When the last target took it; NULL while it is not sent."),
        Column("sent_to", "string", "The targets that took it, as numbers and schemes."),
        Column("failure", "string", "Why it is not sent; NULL if it is."),
        Column("updated_at", "timestamp", "When the row last changed."),
    ),
)

ACCESS = Table(
    name=TABLE.replace("/", "."),
    about=ABOUT,
    kind="append",
    key=("time", "who", "what", "object"),
    time="time",
    clock="time",
    reads="the dashboard's server, and commands",
    quiet=True,
    columns=tuple(Column(*each) for each in COLUMNS),
)

TABLES = (
    ACCOUNTS,
    SITES,
    PROGRESS,
    RESULTS,
    INVENTORY,
    ALERTS,
    ALERT_RULES,
    NOTES,
    REPORTED,
    DELIVERIES,
    ACCESS,
)

"""The job: hashtags counted per minute in bounded sketches, and from those the trends of sliding windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from datasketches import frequent_strings_sketch
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from examples.kit.events import Events
from examples.kit.job import Job, Sources
from examples.kit.windows import tumbling_start
from examples.trending_topics.trends import Definition, Trend, error, trends, unite, window_ends
from tidemark.contract.store import Commit, Store, Where
from tidemark.contract.table import Change, Column, Table
from tidemark.stream.query import Query

MESSAGES = Events("messages", "id string, author string, event_time timestamp, text string")

# Topics that a minute's sketch counts without error, at about 30 bytes each.
TRACKED = 12_000

MINUTES = Table(
    name="trending.minutes",
    about="How often each topic was mentioned in a minute, as a sketch of bounded size.",
    kind="upsert",
    key=("minute",),
    columns=(
        Column("minute", "timestamp", "Start of the minute."),
        Column("mentions", "long", "Mentions of any topic."),
        Column("error", "long", "The most by which the sketch may be wrong about one topic."),
        Column("topics_sketch", "binary", "Frequent-items sketch of the topics (Apache DataSketches)."),
        Column("updated_at", "timestamp", "When the row was last written."),
    ),
    time="minute",
    reads="messages",
)

TRENDS = Table(
    name="trending.trends",
    about="The topics that rise most against their own baseline, per sliding window.",
    kind="upsert",
    key=("window_end", "rank"),
    columns=(
        Column("window_end", "timestamp", "End of the window, exclusive."),
        Column("rank", "long", "1 is the strongest trend."),
        Column("topic", "string", "The topic, in lower case."),
        Column("messages", "long", "Messages of the window with this topic."),
        Column("expected", "double", "Messages that its baseline lets expect."),
        Column("score", "double", "How far above, in standard deviations."),
        Column("updated_at", "timestamp", "When the row was last written."),
    ),
    time="window_end",
    reads="trending.minutes",
)


def job(definition: Definition = Definition(), tracked: int = TRACKED) -> Job:  # noqa: B008 - a frozen value
    """The job that reads MESSAGES and keeps both tables."""

    def queries(sources: Sources) -> Sequence[Query]:
        def write(batch: DataFrame, commit: Commit) -> None:
            # The aggregate is the micro-batch's own: what the stream knows is in the tables.
            incoming = per_minute(batch, tracked).toArrow()
            count(sources.store, incoming, commit)
            # From the minutes as they are now, which a repeated batch finds written already.
            rank(sources.store, incoming["minute"].to_pylist(), definition, commit)

        rows = mentions(sources.events(MESSAGES))
        return [Query("trends", lambda: rows, write, commits=(MINUTES, TRENDS))]

    return Job("trending", 1, (MESSAGES,), queries, tables=(MINUTES, TRENDS))


def mentions(messages: DataFrame) -> DataFrame:
    """`minute` and `topic` of each topic of each message (`event_time`, `text`), in lower case and once a
    message."""
    tags = F.regexp_extract_all(F.lower("text"), F.lit(r"#(\w+)"))
    return messages.select(
        tumbling_start(F.col("event_time"), 60).alias("minute"),
        F.explode(F.array_distinct(tags)).alias("topic"),
    )


def per_minute(rows: DataFrame, tracked: int) -> DataFrame:
    """`minute`, `mentions` and `topics_sketch` of rows as from `mentions`."""
    sketch = F.expr(f"approx_top_k_accumulate(topic, {tracked}).sketch")
    return rows.groupBy("minute").agg(F.count("*").alias("mentions"), sketch.alias("topics_sketch"))


def count(store: Store, incoming: pa.Table, commit: Commit) -> None:
    """Adds a batch's minutes to the table's."""
    if store.committed(MINUTES, commit.writer) >= commit.number:
        return
    wanted: Where = [[("minute", "in", incoming["minute"].to_pylist())]] if incoming.num_rows else []
    before = {row["minute"]: row for row in store.read(MINUTES, wanted).to_pylist()} if wanted else {}
    now = datetime.now(UTC)
    rows = []
    for row in incoming.to_pylist():
        old = before.get(row["minute"])
        if old is not None:
            row["mentions"] += old["mentions"]
            row["topics_sketch"] = unite([old["topics_sketch"], row["topics_sketch"]])
        sketch = frequent_strings_sketch.deserialize(row["topics_sketch"])
        rows.append({**row, "error": error(sketch), "updated_at": now})
    store.upsert(MINUTES, Change(pa.Table.from_pylist(rows, MINUTES.arrow_schema)), commit)


def rank(store: Store, minutes: Iterable[datetime], definition: Definition, commit: Commit) -> None:
    """Recomputes the windows that depend on these minutes, and writes the rows that have changed."""
    if store.committed(TRENDS, commit.writer) >= commit.number:
        return
    ends = window_ends(map(_number, minutes), definition)
    ranked = {(t.end, t.rank): t for t in _trends(store, ends, definition)}
    before = {(t.end, t.rank): t for t in read_trends(store, _ranges("window_end", ends))}
    changed = [trend for key, trend in ranked.items() if before.get(key) != trend]
    gone = [trend for key, trend in before.items() if key not in ranked]
    store.upsert(TRENDS, Change(_rows(changed), _rows(gone)), commit)


def read_trends(store: Store, where: Where = ((),)) -> list[Trend]:
    """The table's rows that fulfil `where` as values; none for an empty one."""
    if not where:
        return []
    names = ["window_end", "rank", "topic", "messages", "expected", "score"]
    rows = zip(*(column.to_pylist() for column in store.read(TRENDS, where, names)), strict=True)
    return [Trend(_number(end), *rest) for end, *rest in rows]


def _trends(store: Store, ends: Sequence[int], definition: Definition) -> list[Trend]:
    reach = definition.window + definition.history
    where = _ranges("minute", [minute for end in ends for minute in (end - reach, end)])
    if not where:
        return []
    rows = store.read(MINUTES, where, ["minute", "topics_sketch"])
    numbers = map(_number, rows["minute"].to_pylist())
    sketches = map(frequent_strings_sketch.deserialize, rows["topics_sketch"].to_pylist())
    known = dict(zip(numbers, sketches, strict=True))
    return [trend for end in ends for trend in trends(known, end, definition)]


def _ranges(column: str, minutes: Sequence[int]) -> Where:
    """Conditions for the minutes from the first to the last, with what lies far between left out."""
    far = 24 * 60
    groups: list[list[int]] = []
    for minute in sorted(minutes):
        if groups and minute - groups[-1][-1] < far:
            groups[-1].append(minute)
        else:
            groups.append([minute])
    return [[(column, ">=", _time(group[0])), (column, "<=", _time(group[-1]))] for group in groups]


def _rows(trends: Sequence[Trend]) -> pa.Table:
    now = datetime.now(UTC)
    rows = [{**trend._asdict(), "window_end": _time(trend.end), "updated_at": now} for trend in trends]
    return pa.Table.from_pylist(rows, TRENDS.arrow_schema)


def _number(minute: datetime) -> int:
    return int(minute.replace(tzinfo=minute.tzinfo or UTC).timestamp()) // 60


def _time(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)

"""Every declared table comes out the same, however its source is split, ordered and spread over executors."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from silver import requests
from tests.recovery.killing import traffic
from tidemark import pipeline
from tidemark.contract.aggregation import Aggregation
from tidemark.contract.table import Change, Table
from tidemark.engine import executors
from tidemark.engine.work import ALL, Part, Work
from tidemark.figures.quantiles import buckets
from tidemark.parse.columns import Knowledge
from tidemark.settings.sections import MeaningSettings

# Those that follow others are in tests/stream/test_following.py.
AGGREGATED = [table for table in pipeline.TABLES if table.aggregation and not table.follows]
NEWEST = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="module")
def accepted() -> pa.Table:
    """Rows of silver.requests: generated traffic, some of it at the same second and on the edges of windows."""
    pairs = traffic(seed=3, lines=6_000)
    size = len(pairs)
    moments = [NEWEST - timedelta(minutes=1)] * size
    lines = pa.table(
        {
            "topic": ["log"] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
            "site": [site for site, _ in pairs],
            "value": pa.array([line for _, line in pairs], pa.binary()),
            "format": pa.nulls(size, pa.string()),
            "fields": pa.nulls(size, pa.string()),
            "chunk": pa.nulls(size, pa.string()),
            "kafka_timestamp": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )
    validated = requests.validation(Knowledge(b"k" * 32)).add(lines)
    rows = Work().rows(requests.TABLE, Part("accepted"), validated).cast(requests.TABLE.arrow_schema)
    assert rows.num_rows > 5_000
    edges = rows.slice(0, 400)
    on_the_hour = replaced(edges, event_time=pc.floor_temporal(edges["event_time"], unit="hour"))
    return pa.concat_tables([timed(rows), on_the_hour, odd(rows.slice(400, 400))]).combine_chunks()


def replaced(rows: pa.Table, **columns: object) -> pa.Table:
    """The rows with other values in these columns."""
    for name, values in columns.items():
        field = rows.schema.field(name)
        column = values if isinstance(values, pa.ChunkedArray) else pa.array(values, field.type)
        rows = rows.set_column(rows.column_names.index(name), field, column)
    return rows


def timed(rows: pa.Table) -> pa.Table:
    """The rows with durations: none, nothing, and up to hours."""
    chance = random.Random(11)
    durations = [
        chance.choice([None, 0, 1, 2**63 - 1, round(chance.lognormvariate(11, 3))]) for _ in range(len(rows))
    ]
    return replaced(
        rows, duration_us=durations, latency_bucket=buckets(pa.array(durations), 0.01).to_pylist()
    )


def odd(rows: pa.Table) -> pa.Table:
    """The rows with what few lines have: missing text, paths that are cut, and signs of several bytes."""
    chance = random.Random(12)
    long = "/ä" * 150
    paths = [None, "", "/", "/robots.txt", "/ünïcode/日本", long, long[:200], long + "b", "/" * 200]

    def some(values: Sequence[object]) -> list[object]:
        return [chance.choice(values) for _ in range(len(rows))]

    # A visitor has one address and one program.
    visitors = [chance.randrange(8) for _ in range(len(rows))]

    def of_visitor(first: object, second: object) -> list[object]:
        return [second if visitor % 2 else first for visitor in visitors]

    return replaced(
        rows,
        visitor_id=[f"odd{visitor}" for visitor in visitors],
        country=of_visitor("ZZ", "DE"),
        browser=of_visitor(None, "Firefox"),
        os=of_visitor("Linux", None),
        device=of_visitor("other", "mobile"),
        path=some(paths),
        method=some([None, "GET", "PROPFIND"]),
        protocol=some([None, "HTTP/3"]),
        host=some([None, "a.example", "ä.example"]),
        status=some([200, 404, 503]),
        bot=some([False, False, True]),
        asset=some([False, True]),
        bot_name=some([None, "GPTBot", "bot"]),
        bot_kind=some([None, "ai-crawler", "other"]),
        bot_verified=some([None, "verified", "forged"]),
        disallowed=some([None, False, True]),
        network=some([None, "hosting"]),
        as_org=some([None, "Example Ltd"]),
        search_term=some([None, "shoes", "Schuhe für 日本", long]),
    )


def aggregation(table: Table, rows: pa.Table) -> Aggregation:
    assert table.aggregation
    newest = dict.fromkeys(pc.unique(rows["site"]).to_pylist(), NEWEST)
    return table.aggregation(MeaningSettings()).at(newest)


def content(table: Table, rows: pa.Table) -> list[dict[str, object]]:
    plain = rows.select([name for name in table.column_names if name != "updated_at"])
    return plain.sort_by([(name, "ascending") for name in table.key]).to_pylist()  # type: ignore[no-any-return]


def applied(table: Table, rows: pa.Table, change: Change) -> pa.Table:
    """The table after a change, as a store makes it."""
    by_key = {tuple(row[name] for name in table.key): row for row in rows.to_pylist()}
    for row in change.deleted.to_pylist() if change.deleted else ():
        del by_key[tuple(row[name] for name in table.key)]
    by_key |= {tuple(row[name] for name in table.key): row for row in change.rows.to_pylist()}
    return pa.Table.from_pylist(list(by_key.values()), table.arrow_schema)


def whole(table: Table, rows: pa.Table) -> list[dict[str, object]]:
    aggregate = aggregation(table, rows)
    change = aggregate.combine(
        table.arrow_schema.empty_table(), aggregate.partial(rows.select(list(aggregate.needs)))
    )
    assert change.deleted is None or not change.deleted.num_rows
    return content(table, change.rows)


def parts(rows: pa.Table, chance: random.Random) -> list[pa.Table]:
    """The rows in any order, in pieces of any size, some of them empty."""
    order = list(range(rows.num_rows))
    chance.shuffle(order)
    bounds = sorted(chance.choices(range(rows.num_rows), k=6))
    return [rows.take(order[a:b]) for a, b in zip([0, *bounds], [*bounds, rows.num_rows], strict=True)]


@pytest.mark.parametrize("table", AGGREGATED, ids=lambda table: table.name)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_split_in_any_order_merges_to_the_same_rows(table: Table, seed: int, accepted: pa.Table) -> None:
    chance = random.Random(seed)
    aggregate = aggregation(table, accepted)
    partials = [aggregate.partial(part.select(list(aggregate.needs))) for part in parts(accepted, chance)]
    while len(partials) > 1:  # any tree
        one, other = chance.sample(range(len(partials)), 2)
        merged = aggregate.merge(pa.concat_tables([partials[one], partials[other]]))
        partials = [each for n, each in enumerate(partials) if n not in (one, other)] + [merged]
    assert content(table, aggregate.combine(table.arrow_schema.empty_table(), partials[0]).rows) == whole(
        table, accepted
    )


@pytest.mark.parametrize("table", AGGREGATED, ids=lambda table: table.name)
def test_batch_after_batch_ends_with_the_same_rows(table: Table, accepted: pa.Table) -> None:
    aggregate = aggregation(table, accepted)
    rows = table.arrow_schema.empty_table()
    for part in parts(accepted, random.Random(5)):
        partial = aggregate.partial(part.select(list(aggregate.needs)))
        # What a store would read: nothing that `touched` leaves out is ever changed.
        rows = applied(table, rows, aggregate.combine(_read(rows, aggregate.touched(partial)), partial))
    assert content(table, rows) == whole(table, accepted)


def test_text_that_is_encoded_for_all_tables_makes_the_same_rows(accepted: pa.Table) -> None:
    work = Work(aggregations={table.name: (aggregation(table, accepted), ALL) for table in AGGREGATED})
    # As text comes from the lines: encoded, with no value for NULL.
    coded = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in accepted.columns]
    for rows in (accepted, pa.table(coded, accepted.column_names)):
        encoded = work.encoded(rows)
        assert pa.types.is_dictionary(encoded.schema.field("visitor_id").type)
        for name in work.aggregations:
            assert work.partial(name, encoded) == work.partial(name, accepted), name


def _read(rows: pa.Table, where: Sequence[Sequence[tuple[str, str, object]]]) -> pa.Table:
    from tidemark.store.arrow_change import expression as _expression

    expression = _expression(where)  # type: ignore[arg-type]
    return (
        rows.filter(expression)
        if where and expression is not None
        else rows.slice(0, 0)
        if not where
        else rows
    )


@pytest.mark.parametrize("tasks", [2, 40], ids=["few-tasks", "tasks-merged-in-a-tree"])
def test_executors_make_the_same_rows(tasks: int, accepted: pa.Table, spark: SparkSession) -> None:
    aggregates = {table.name: aggregation(table, accepted) for table in AGGREGATED}
    work = Work(aggregations={name: (each, ALL) for name, each in aggregates.items()})
    outcome = executors.run(
        work, executors.Spread(spark.createDataFrame(accepted).repartition(tasks)), {}, ""
    )
    for table in AGGREGATED:
        change = aggregates[table.name].combine(
            table.arrow_schema.empty_table(), outcome.partials[table.name]
        )
        assert content(table, change.rows) == whole(table, accepted), table.name


def test_every_table_that_is_revised_says_how_its_rows_are_made() -> None:
    assert {table.name for table in pipeline.LAYER_TABLES if table.kind == "upsert"} == {
        table.name for table in pipeline.LAYER_TABLES if table.aggregation
    }
    kinds = {table.name: table.kind for table in pipeline.LAYER_TABLES}
    assert all(
        table.follows == (kinds[table.reads] == "upsert")
        for table in pipeline.LAYER_TABLES
        if table.aggregation
    )
    assert {
        table.name for table in pipeline.LAYER_TABLES if table.kind == "append" and not table.lines
    } == set()

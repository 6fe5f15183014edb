"""The job: sessions kept from views, and co-visits kept from the changes of the sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from examples.kit.changes import FollowedTable, changes
from examples.kit.events import Events
from examples.kit.job import Job, Sources
from examples.kit.sinks import Upsert
from examples.recommendations.visits import Session, co_visits, join, session_of, sessionize
from tidemark.contract.store import Commit, Where
from tidemark.contract.table import Change, Column, Table
from tidemark.stream.query import Query

VIEWS = Events("views", "id string, visitor string, item string, event_time timestamp")

# A gap of this length ends a session.
GAP = timedelta(minutes=30)


SESSIONS = FollowedTable(
    name="recommendations.sessions",
    about="What one visitor viewed without a long pause.",
    kind="upsert",
    key=("visitor", "start_time"),
    columns=(
        Column("visitor", "string", "Who."),
        Column("start_time", "timestamp", "Event time of the first view."),
        Column("end_time", "timestamp", "Event time of the last view."),
        Column("views", "long", "Views, of the same item too."),
        Column("items", "strings", "Distinct items, in order of name."),
        Column("updated_at", "timestamp", "When the row was last written."),
    ),
    time="start_time",
    reads="views",
)

CO_VISITS = Table(
    name="recommendations.co_visits",
    about="In how many sessions two items were viewed; an item with itself: in how many it was.",
    kind="upsert",
    key=("item", "also"),
    columns=(
        Column("item", "string", "One item."),
        Column("also", "string", "The other; every pair is there both ways round."),
        Column("sessions", "long", "Sessions with both, at least 1."),
        Column("updated_at", "timestamp", "When the row was last written."),
    ),
    time="",
    reads="recommendations.sessions",
)


def job(gap: timedelta = GAP) -> Job:
    """The job that reads VIEWS and keeps both tables."""

    def queries(sources: Sources) -> Sequence[Query]:
        def keep_sessions(batch: DataFrame, commit: Commit) -> None:
            sink = Upsert(
                SESSIONS,
                lambda views: sessionize(views, gap),
                lambda existing, incoming: merge_sessions(existing, incoming, gap),
                lambda _, incoming: sessions_near(incoming, gap),
            )
            sink.write(sources.store, batch, commit)

        def keep_co_visits(batch: DataFrame, commit: Commit) -> None:
            Upsert(CO_VISITS, co_visits, add_counts, pairs_of).write(sources.store, batch, commit)

        return [
            Query("sessions", partial(sources.events, VIEWS), keep_sessions, commits=(SESSIONS,)),
            Query(
                "co-visits",
                partial(changes, sources, SESSIONS),
                keep_co_visits,
                commits=(CO_VISITS,),
                reads=(SESSIONS,),
            ),
        ]

    return Job("recommendations", 1, (VIEWS,), queries, tables=(SESSIONS, CO_VISITS))


def merge_sessions(existing: pa.Table, incoming: pa.Table, gap: timedelta) -> Change:
    """Merges a batch's sessions with those of the table that they affect."""
    before = {(s.visitor, s.start): s for s in map(session_of, existing.to_pylist())}
    after = join([*before.values(), *map(session_of, incoming.to_pylist())], gap)
    kept = {(session.visitor, session.start) for session in after}
    changed = [session for session in after if before.get((session.visitor, session.start)) != session]
    return Change(_rows(changed), _rows([s for key, s in before.items() if key not in kept]))


def sessions_near(incoming: pa.Table, gap: timedelta) -> Where:
    """The rows with which incoming sessions may merge."""
    if incoming.num_rows == 0:
        return ()
    first, last = pc.min(incoming["start_time"]).as_py(), pc.max(incoming["end_time"]).as_py()
    visitors = pc.unique(incoming["visitor"]).to_pylist()
    return [[("end_time", ">", first - gap), ("start_time", "<", last + gap), ("visitor", "in", visitors)]]


def pairs_of(_: Table, incoming: pa.Table) -> Where:
    """The rows of the items whose counts change."""
    return [[("item", "in", pc.unique(incoming["item"]).to_pylist())]] if incoming.num_rows else ()


def add_counts(existing: pa.Table, incoming: pa.Table) -> Change:
    """Adds the changes to the counts; deletes a pair that no session has any more."""
    before = {(row["item"], row["also"]): row["sessions"] for row in existing.to_pylist()}
    now = datetime.now(UTC)
    rows = [
        {**row, "sessions": before.get((row["item"], row["also"]), 0) + row["sessions"], "updated_at": now}
        for row in incoming.to_pylist()
    ]
    kept, gone = ([row for row in rows if (row["sessions"] > 0) is some] for some in (True, False))
    return Change(
        *(pa.Table.from_pylist(part, CO_VISITS.arrow_schema) for part in (kept, gone)),
    )


def _rows(sessions: Sequence[Session]) -> pa.Table:
    now = datetime.now(UTC)
    names = ("visitor", "start_time", "end_time", "views", "items")
    rows = [dict(zip(names, astuple(session), strict=True)) | {"updated_at": now} for session in sessions]
    return pa.Table.from_pylist(rows, SESSIONS.arrow_schema)

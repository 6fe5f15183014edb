"""Lines with a delivery id that a rebuild would accept a second time.

A rejected line was not accepted, so a second delivery of it is rejected, too. If a rebuild
accepts such lines, it must accept only the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from tidemark.contract.expression import column
from tidemark.engine.arrays import Arrays, Vectorized, flags_of
from tidemark.engine.groups import has_key_of
from tidemark.operate.rows import Rows
from tidemark.stream.deliveries import KEY, Ids, with_digest

# The reason in silver.rejected of a line that breaks no rule: a rebuild accepted another delivery of it.
TWICE = "delivered_twice"
_BY_KEY = list(KEY)


def surplus(
    bronze: Rows,
    validation: Vectorized,
    accepted_before: Rows,
    since: datetime | None,
    days: int,
) -> pa.Table | None:
    """Keys of bronze lines that the current rules accept although another line with their id is accepted.

    `validation` adds `accepted` to lines of bronze. It applies to those ingested from `since` on (default: all). For
    the others `accepted_before` has the keys of the lines accepted so far, which take precedence. Returns None if no
    line has an id.
    """
    if bronze.where(column("id").length() > 0).is_empty():
        return None
    lines = bronze.frame()
    named = with_digest(lines)
    several = named.groupBy("_digest").agg(F.count("*").alias("_n")).where("_n > 1").select("_digest")
    lines = named.join(several, "_digest", "left_semi").drop("_digest", "_time")
    before = accepted_before.frame().select(*KEY)
    lines_since = lines if since is None else lines.where(F.col("ingested_at") >= F.lit(since))
    accepted = with_digest(validation.to_frame(lines_since).where("accepted")).select(
        *KEY, "_time", "_digest"
    )
    if since is not None:
        kept = lines.where(F.col("ingested_at") < F.lit(since)).join(before, _BY_KEY, "left_semi")
        accepted = accepted.unionByName(with_digest(kept).select(*KEY, "_time", "_digest"))
    flagged = accepted.join(before.withColumn("_old", F.lit(0)), _BY_KEY, "left")
    rows = flagged.withColumn("_old", F.coalesce("_old", F.lit(1))).toArrow()
    rows = rows.sort_by([(name, "ascending") for name in ("_old", "_time", *KEY)])
    return rows.select(_BY_KEY).filter(pa.array(Ids.of(rows).repeated(days)))


def turning_away(validation: Vectorized, keys: pa.Table) -> Vectorized:
    """The validation, which additionally rejects lines with these keys as repeated deliveries if they would be
    accepted."""
    inputs = tuple(dict.fromkeys([*validation.inputs, *KEY]))
    return Vectorized(
        inputs, validation.results, partial(_turned_away, validation.make, keys.select(_BY_KEY))
    )


def _turned_away(make: Callable[[Arrays], Arrays], keys: pa.Table, lines: Arrays) -> Arrays:
    arrays = make(lines)
    own = pa.table({name: lines[name] for name in KEY})
    again = has_key_of(own, keys, _BY_KEY) & flags_of(arrays["accepted"])
    reasons = [[TWICE] if repeated else None for repeated in again]
    return {
        **arrays,
        "accepted": pa.array(flags_of(arrays["accepted"]) & ~again),
        "reasons": pc.if_else(pa.array(again), pa.array(reasons, pa.list_(pa.string())), arrays["reasons"]),
    }


def collides(tail: Rows, tail_accepted: Rows, lines: Rows, accepted_now: Rows, accepted_before: Rows) -> bool:
    """Whether an accepted line that arrived later (of `tail`, in `tail_accepted`) has the id of a newly accepted one of
    `lines`: in `accepted_now`, not in `accepted_before`."""
    fresh = with_digest(lines.frame()).join(accepted_now.frame().select(*KEY), _BY_KEY, "left_semi")
    fresh = fresh.join(accepted_before.frame().select(*KEY), _BY_KEY, "left_anti")
    later = tail.frame().join(tail_accepted.frame().select(*KEY), _BY_KEY, "left_semi")
    return not with_digest(later).join(fresh.select("_digest"), "_digest", "left_semi").isEmpty()

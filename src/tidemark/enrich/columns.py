"""Adds what is known about an address, a user agent and a referrer to parsed requests.

One Arrow UDF for all of it: each batch is reduced to its distinct values, looked up once, and spread
over the rows again, so Python's work grows with the number of distinct values, not of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.enrich import country, referrer, user_agent
from tidemark.enrich.visitor import visitor_id

_RESULT = (
    "country string, visitor_id string, browser string, os string, device string, bot boolean, "
    "referrer_host string, channel string, address_ok boolean, ingested_at timestamp"
)
# The columns that rows are enriched by.
INPUTS = ("site", "client_ip", "user_agent", "referrer", "query", "host")


@dataclass(frozen=True)
class Knowledge:
    """What rows are enriched with; `key` never shows in a plan or a log."""

    key: bytes
    geo_database: str = ""

    def __repr__(self) -> str:
        return f"Knowledge({self.version})"

    @property
    def version(self) -> str:
        """Versions of the geo data, the bot list and the user-agent rules."""
        return f"{country.data_version(self.geo_database)}, {user_agent.rules_version()}"


def enrich(requests: DataFrame, knowledge: Knowledge) -> DataFrame:
    """Adds `country`, `visitor_id`, `browser`, `os`, `device`, `bot`, `referrer_host`, `channel`,
    `address_ok` (whether `client_ip` is a valid address), `rules_version`, and `ingested_at`, the
    time of the look-up.

    Takes `site`, `client_ip`, `user_agent`, `referrer`, `query` and `host`; keeps all columns.
    Rows without a `client_ip` get NULLs, but for `ingested_at`.

    The time comes from here because Spark writes its own `current_timestamp` into the generated code,
    which would then be compiled anew for every micro-batch.
    """
    campaign: Column = F.when(F.contains(F.col("query"), F.lit("utm_")), F.col("query"))
    look_up = _udf(knowledge)
    found = look_up(*(campaign if name == "query" else F.col(name) for name in INPUTS))
    names = [part.split()[0] for part in _RESULT.split(", ")]
    return (
        requests.withColumn("_found", found)
        .withColumns({name: F.col(f"_found.{name}") for name in names})
        .withColumn("rules_version", F.lit(knowledge.version))
        .drop("_found")
    )


def _udf(knowledge: Knowledge) -> Callable[..., Column]:
    @F.arrow_udf(returnType=_RESULT)  # type: ignore[attr-defined, untyped-decorator, unused-ignore]
    def look_up(
        site: pa.Array,
        client_ip: pa.Array,
        agent: pa.Array,
        source: pa.Array,
        campaign: pa.Array,
        host: pa.Array,
    ) -> pa.Array:
        return describe(knowledge, site, client_ip, agent, source, campaign, host)

    return look_up  # type: ignore[no-any-return, unused-ignore]


def describe(knowledge: Knowledge, *columns: pa.Array) -> pa.StructArray:
    """The enrichment of six equally long arrays, in the order of `enrich`'s inputs."""
    site, client_ip, agent, source, campaign, host = (_Coded.of(column) for column in columns)
    codes = country.lookup(knowledge.geo_database)([ip or "" for ip in client_ip.values])
    valid = [ip is not None and country.is_address(ip) for ip in client_ip.values]
    agents = [user_agent.describe(value or "") for value in agent.values]

    visitors = _Pairs.of(site, client_ip, agent)
    ids = [
        visitor_id(knowledge.key, s or "", ip, ua or "") if ip is not None else None
        for s, ip, ua in visitors.values
    ]
    sources = _Pairs.of(source, campaign, host)
    origins = [referrer.origin(*values) for values in sources.values]

    arrays = [
        client_ip.spread([code if ok else None for code, ok in zip(codes, valid, strict=True)], pa.string()),
        visitors.spread(ids, pa.string()),
        agent.spread([a.browser for a in agents], pa.string()),
        agent.spread([a.os for a in agents], pa.string()),
        agent.spread([a.device for a in agents], pa.string()),
        agent.spread([a.bot for a in agents], pa.bool_()),
        sources.spread([o.host for o in origins], pa.string()),
        sources.spread([o.channel for o in origins], pa.string()),
        client_ip.spread(
            [ok if ip is not None else None for ok, ip in zip(valid, client_ip.values, strict=True)],
            pa.bool_(),
        ),
        pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC")), len(columns[0])),
    ]
    names = [part.split()[0] for part in _RESULT.split(", ")]
    return pa.StructArray.from_arrays(arrays, names=names)


@dataclass(frozen=True)
class _Coded:
    """A column as its distinct values and, for each row, the index of its value."""

    values: list[Any]
    indices: np.ndarray[Any, Any]

    @staticmethod
    def of(column: pa.Array) -> _Coded:
        encoded = column.dictionary_encode(null_encoding="encode")
        return _Coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))

    def spread(self, values: Sequence[Any], type: pa.DataType) -> pa.Array:
        """One value per distinct value -> one value per row."""
        return pa.array(values, type).take(pa.array(self.indices))


class _Pairs(_Coded):
    """Distinct combinations of several coded columns."""

    @staticmethod
    def of(*columns: _Coded) -> _Pairs:
        code = np.zeros(len(columns[0].indices), dtype=np.int64)
        for column in columns:
            code = code * len(column.values) + column.indices
        _, first, indices = np.unique(code, return_index=True, return_inverse=True)
        values = [tuple(c.values[c.indices[row]] for c in columns) for row in first]
        return _Pairs(values, indices)

"""Enriches lines with facts about the address, the user agent, the referrer and the query.

Each distinct value of a batch is looked up once, and the results are spread over the rows, so the work grows with
the number of distinct values, not of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tidemark.engine.arrays import Arrays, spread
from tidemark.parse import channels, mmdb, networks, page, user_agent
from tidemark.parse.bots import FORGED_KIND
from tidemark.parse.channels import Campaign, Origin, origin_of
from tidemark.parse.formats import VERSION
from tidemark.parse.reading import PLAIN, Reading
from tidemark.parse.robots import forbids
from tidemark.parse.sources import comparable, host_of
from tidemark.parse.tags import NO_TAGS, UTM, tagged, tags_of
from tidemark.parse.visitor import visitor_id

# The columns of `describe`, as Spark types.
KNOWN = (
    "country string, network string, asn int, as_org string, city string, region string, visitor_id string, "
    "browser string, os string, device string, bot boolean, bot_name string, bot_kind string, bot_verified string, "
    "ai_purpose string, disallowed boolean, referrer_host string, channel string, source string, utm_source string, "
    "utm_medium string, utm_campaign string, utm_term string, utm_content string, click_id string, search_term string, "
    "ingested_at timestamp, rules_version string"
)
# Those of them that data about addresses decides on.
OF_ADDRESS = ("country", "network", "asn", "as_org", "city", "region", "bot_kind", "bot_verified")


@dataclass(frozen=True)
class Knowledge:
    """Data for the enrichment; `key` never appears in a plan or a log."""

    key: bytes
    geo_database: str = ""
    reading: Reading = PLAIN
    asn_database: str = ""
    city_database: str = ""

    def __repr__(self) -> str:
        return f"Knowledge({self.version})"

    @property
    def version(self) -> str:
        """Versions of the geo data and other databases of addresses, the bot list, the rules for user agents and
        channels, what an asset is, the lists of sources and networks, the log formats and the settings of sites."""
        formats = f"formats {VERSION}" + (f"-{self.reading.version}" if self.reading.version else "")
        databases = {"asn_database": self.asn_database, "city_database": self.city_database}
        data = [mmdb.version(self.geo_database, "geo_database")]
        data += [mmdb.version(path, setting) for setting, path in databases.items() if path]
        rules = (user_agent.rules_version(), channels.rules_version(), page.rules_version())
        return ", ".join([*data, *rules, f"networks {networks.version(self.reading.networks)}", formats])


def describe(
    knowledge: Knowledge, site: pa.Array, fields: Arrays, *, origins: bool = True
) -> dict[str, pa.Array]:
    """The columns KNOWN of parsed lines (`tidemark.parse.detect.fields`) of sites, without `origins` those of the
    address and the user agent only. `ingested_at` is the time of the look-up. Also those columns of the lines that were
    dictionary-encoded for it.

    The time is set here because Spark writes its own `current_timestamp` into the generated code and would compile
    it again for every micro-batch.
    """
    rows = len(site)
    columns = (site, *(fields[name] for name in ("client_ip", "user_agent", "host", "referrer")))
    site, client_ip, agent, host, referrer = (_Coded.of(column) for column in columns)
    codes = mmdb.countries(knowledge.geo_database, client_ip.values)
    kinds = networks.kinds_of(client_ip.values, knowledge.reading.networks)
    agents = [user_agent.describe(value or "") for value in agent.values]

    visitors = _Coded.combined(site, client_ip, agent)
    ids = [visitor_id(knowledge.key, s or "", ip or "", ua or "") for s, ip, ua in visitors.values]

    return {
        "country": client_ip.spread(codes, pa.string()),
        "network": client_ip.spread(kinds, pa.string()),
        **_from_databases(knowledge, client_ip),
        "visitor_id": visitors.spread(ids, pa.string()),
        "browser": agent.spread([a.browser for a in agents], pa.string()),
        "os": agent.spread([a.os for a in agents], pa.string()),
        "device": agent.spread([a.device for a in agents], pa.string()),
        "bot": agent.spread([a.bot is not None for a in agents], pa.bool_()),
        "bot_name": agent.spread([a.bot and a.bot.name for a in agents], pa.string()),
        **_verified(knowledge.reading, client_ip, agent, agents),
        "ai_purpose": agent.spread([a.bot and a.bot.ai_purpose for a in agents], pa.string()),
        "disallowed": _disallowed(knowledge.reading, site, agent, agents, fields),
        **(_origins(knowledge.reading, site, host, referrer, fields["query"]) if origins else {}),
        "ingested_at": pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC")), rows),
        "rules_version": _Coded([knowledge.version], np.zeros(rows, np.int32)).column,
        "client_ip": client_ip.column,
        "user_agent": agent.column,
        "referrer": referrer.column,
    }


def _from_databases(knowledge: Knowledge, client_ip: _Coded) -> dict[str, pa.Array]:
    """The columns that only the user's own databases have."""
    rows, addresses = len(client_ip.indices), client_ip.values
    columns = {"asn": pa.nulls(rows, pa.int32())}
    columns |= {name: pa.nulls(rows, pa.string()) for name in ("as_org", "city", "region")}
    if knowledge.asn_database:
        systems = mmdb.systems(knowledge.asn_database, addresses)
        columns["asn"] = client_ip.spread([each.asn for each in systems], pa.int32())
        columns["as_org"] = client_ip.spread([each.organisation for each in systems], pa.string())
    if knowledge.city_database:
        places = mmdb.places(knowledge.city_database, addresses)
        columns["city"] = client_ip.spread([each.city for each in places], pa.string())
        columns["region"] = client_ip.spread([each.region for each in places], pa.string())
    return columns


_VERDICTS = (None, networks.VERIFIED, networks.FORGED)


def _verified(
    reading: Reading, client_ip: _Coded, agent: _Coded, agents: Sequence[user_agent.Agent]
) -> dict[str, pa.Array]:
    """The kinds of bots, and whether their addresses are those that their operators publish."""
    names = [each.bot and each.bot.name for each in agents]
    kinds = [each.bot and each.bot.kind for each in agents]
    verdict = np.zeros(len(agent.indices), np.int64)
    verifiable = [name is not None and networks.verifiable(name, reading.networks) for name in names]
    asked = np.flatnonzero(np.array(verifiable, np.bool_)[agent.indices])
    if len(asked):
        bots = _Coded(names, agent.indices[asked])
        callers = _Coded.combined(_Coded(client_ip.values, client_ip.indices[asked]), bots)
        addresses, claimed = zip(*callers.values, strict=True)
        verified = networks.verified(claimed, addresses, reading.networks)
        verdict[asked] = np.array([_VERDICTS.index(each) for each in verified])[callers.indices]
    forged = verdict == _VERDICTS.index(networks.FORGED)
    return {
        "bot_kind": _Coded([*kinds, FORGED_KIND], np.where(forged, len(kinds), agent.indices)).column,
        "bot_verified": _Coded(list(_VERDICTS), verdict).column,
    }


def _disallowed(
    reading: Reading, site: _Coded, agent: _Coded, agents: Sequence[user_agent.Agent], fields: Arrays
) -> pa.Array:
    """Whether the site's robots.txt forbids a bot's request; NULL for people, and for sites whose robots.txt is not
    known."""
    rows = len(site.indices)
    robots = [reading.robots(name or "") for name in site.values]
    if not any(robots):
        return pa.nulls(rows, pa.bool_())
    bots = np.array([each.bot is not None for each in agents], bool)[agent.indices]
    asked = np.flatnonzero(bots & np.array([bool(text) for text in robots], bool)[site.indices])
    targets = (_Coded.of(fields[name].take(pa.array(asked))) for name in ("path", "query"))
    requests = _Coded.combined(
        _Coded(robots, site.indices[asked]), _Coded(agent.values, agent.indices[asked]), *targets
    )
    forbidden = [
        forbids(text, ua or "", path or "", query or "") for text, ua, path, query in requests.values
    ]
    place = np.full(rows, -1)
    place[asked] = requests.indices
    return pa.array(forbidden, pa.bool_()).take(pa.array(place, mask=place < 0))


def _origins(
    reading: Reading, site: _Coded, host: _Coded, referrer: _Coded, query: pa.Array
) -> dict[str, pa.Array]:
    """The columns that tell where requests come from, and what was searched for."""
    from_host = referrer.mapped(lambda value: value and host_of(value))
    queries = _Coded.of(tagged(query))
    tags = [tags_of(value) if value else NO_TAGS for value in queries.values]
    campaign = _Coded(tags, queries.indices).mapped(Campaign.of)
    ways = _Coded.combined(site, host, from_host, campaign)

    def origin(site: str | None, host: str | None, referring: str | None, campaign: Campaign) -> Origin:
        own = {comparable(each) for each in (*reading.own_hosts(site or ""), host or "")}
        return origin_of(referring, referring is not None and comparable(referring) in own, campaign)

    origins = [origin(*values) for values in ways.values]
    return {
        "referrer_host": from_host.column,
        "channel": ways.spread([each.channel for each in origins], pa.string()),
        "source": ways.spread([each.source for each in origins], pa.string()),
        **{
            name: queries.spread([getattr(each, name) for each in tags], pa.string())
            for name in (*UTM, "click_id", "search_term")
        },
    }


@dataclass(frozen=True)
class _Coded:
    """A column as its distinct values and, for each row, the index of its value."""

    values: list[Any]
    indices: np.ndarray[Any, Any]

    @staticmethod
    def of(column: pa.Array) -> _Coded:
        encoded = column.dictionary_encode(null_encoding="encode")
        return _Coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))

    @staticmethod
    def combined(*columns: _Coded) -> _Coded:
        """The distinct combinations of several columns."""
        code = np.zeros(len(columns[0].indices), dtype=np.int64)
        for column in columns:
            code = code * len(column.values) + column.indices
        encoded = pa.array(code).dictionary_encode()
        parts, rest = [], encoded.dictionary.to_numpy()
        for column in reversed(columns):
            rest, part = np.divmod(rest, max(len(column.values), 1))
            parts.append([column.values[index] for index in part.tolist()])
        return _Coded(list(zip(*reversed(parts), strict=True)), encoded.indices.to_numpy())

    def mapped(self, function: Callable[[Any], Any]) -> _Coded:
        """The column with a function of each value, whose distinct results are the values."""
        number: dict[Any, int] = {}
        codes = [number.setdefault(function(value), len(number)) for value in self.values]
        return _Coded(list(number), np.array(codes, np.int64)[self.indices] if codes else self.indices)

    @property
    def column(self) -> pa.Array:
        """The column of strings, dictionary-encoded."""
        return self.spread(self.values, pa.string())

    def spread(self, values: Sequence[Any], type: pa.DataType) -> pa.Array:
        """One value per distinct value -> one value per row; text is dictionary-encoded."""
        array, rows = pa.array(values, type), pa.array(self.indices)
        return spread(array, rows) if pa.types.is_string(type) else array.take(rows)

"""Lines as rows of bronze, and what the pipeline makes of them in a privacy mode."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from silver import requests
from tidemark.parse.columns import Knowledge
from tidemark.parse.reading import PLAIN, Reading
from tidemark.privacy.masking import Masking
from tidemark.privacy.salts import Salts
from tidemark.settings.privacy import Privacy, SitePrivacy

KEY = b"k" * 32
EXACT, MASKED, ANONYMOUS = SitePrivacy(), SitePrivacy("masked"), SitePrivacy("anonymous")
ARRIVED = datetime(2026, 11, 27, tzinfo=UTC)
# What a mode changes on purpose.
CHANGED = {"value", "format", "fields", "privacy", "ingested_at", "client_ip", "remote_user"}
CHANGED_BY_ANONYMOUS = {*CHANGED, "user_agent", "visitor_id"}


def bronze(
    lines: Sequence[bytes],
    *,
    format: Sequence[str | None] | None = None,
    fields: Sequence[str | None] | None = None,
    privacy: Sequence[str | None] | None = None,
    site: str | Sequence[str] = "shop",
) -> pa.Table:
    none = [None] * len(lines)
    texts = {"format": format or none, "fields": fields or none, "privacy": privacy or none, "chunk": none}
    return pa.table(
        {
            "value": pa.array(lines, pa.binary()),
            "site": [site] * len(lines) if isinstance(site, str) else list(site),
            "kafka_timestamp": pa.array([ARRIVED] * len(lines), pa.timestamp("us", tz="UTC")),
            **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        }
    )


def masking(home: Path, mode: SitePrivacy, key: bytes = KEY) -> Masking:
    return Masking(Privacy(mode), key, Salts(home / "salts.json"), seals=True)


def validated(
    lines: pa.Table, home: Path, mode: SitePrivacy = EXACT, reading: Reading = PLAIN
) -> list[dict[str, object]]:
    """The rows of lines, as the pipeline makes them."""
    return columns(lines, masking(home, mode), reading).to_pylist()


def columns(lines: pa.Table, masking: Masking, reading: Reading = PLAIN) -> pa.Table:
    """The same as a table, of lines that may be of several sites."""
    return requests.validation(Knowledge(KEY, reading=reading), masking).add(lines)


def as_bronze(rows: Sequence[dict[str, object]]) -> pa.Table:
    """The masked lines of rows, as bronze has them."""
    columns = {name: [row[name] for row in rows] for name in ("format", "fields", "privacy")}
    return bronze([row["value"] for row in rows], **columns)  # type: ignore[misc, arg-type]


def without(row: dict[str, object], names: set[str]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}

"""Results of a quality run as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidemark.errors import QualityError

_COLUMNS = ("table", "expectation", "severity", "ok", "unexpected", "observed")


def lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of quality.results as an aligned table, failed ones last, and a summary."""
    cells = [
        (
            r["table"],
            r["expectation"],
            r["severity"],
            "yes" if r["success"] else "NO",
            "?" if r["unexpected_count"] is None else f"{r['unexpected_count']:,}",
            r["observed_value"],
        )
        for r in sorted(results, key=lambda r: not r["success"])
    ]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cells, strict=True)]
    failed = sum(not r["success"] for r in results)
    return [
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in (_COLUMNS, *cells)),
        f"{len(results)} expectations, {failed} failed",
    ]


def raise_critical(results: Sequence[dict[str, Any]]) -> None:
    """Raises QualityError with the failed critical expectations, if any."""
    failed = [r for r in results if not r["success"] and r["severity"] == "critical"]
    if failed:
        named = ", ".join(f"{r['table']}: {r['expectation']}" for r in failed)
        raise QualityError(f"critical expectations failed ({named})", "See docs/operations.md, 'Quality'.")

"""Goals as they are declared, and the same as conditions of the recount."""

from __future__ import annotations

from tidemark.figures.declared import Goal

GOALS = {
    "product": (Goal(path="/products/*"), "path LIKE '/products/%'"),
    "missing": (Goal(path="*", status=404), "http AND status = 404"),
    "found": (Goal(search=True), "search_term IS NOT NULL"),
    "style": (Goal(download=("css",)), "lower(path) LIKE '%.css'"),
}
CONDITIONS = {name: condition for name, (_, condition) in GOALS.items()}

"""Goals as they are declared, and the same as conditions of the recount."""

from __future__ import annotations

from tidemark.settings.questions import GoalSettings

GOALS = {
    "product": (GoalSettings(path="/products/*"), "path LIKE '/products/%'"),
    "missing": (GoalSettings(path="*", status=404), "http AND status = 404"),
    "found": (GoalSettings(search=True), "search_term IS NOT NULL"),
    "style": (GoalSettings(download=("css",)), "lower(path) LIKE '%.css'"),
}
CONDITIONS = {name: condition for name, (_, condition) in GOALS.items()}

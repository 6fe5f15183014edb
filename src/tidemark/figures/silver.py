"""Names of silver's tables, and the conditions on requests that many figures share."""

from __future__ import annotations

from tidemark.figures.query import Where

REQUESTS = "silver/requests"
SESSIONS = "silver/sessions"
STEPS = "silver/session_steps"
VIEW = Where("pageview", "=", True)
PEOPLE = Where("bot", "=", False)

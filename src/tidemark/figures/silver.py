"""Names of silver's tables, and the conditions on requests that many figures share."""

from __future__ import annotations

from tidemark.figures.query import Where

REQUESTS = "silver/requests"
SESSIONS = "silver/sessions"
STEPS = "silver/session_steps"
# Paths of errors and search terms in the keys of gold tables are at most this long, so that a row is short whatever a
# client sends.
MOST_CHARACTERS = 200
# Steps of a session in silver.session_steps, so that a crawler that poses as a visitor does not make endless rows.
MOST_STEPS = 200
VIEW = Where("pageview", "=", True)
PEOPLE = Where("bot", "=", False)

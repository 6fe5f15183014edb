"""Tidemark turns web-server logs into live, exact, replayable analytics on a Delta lakehouse."""

__version__ = "0.1.0"

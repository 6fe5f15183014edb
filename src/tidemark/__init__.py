"""Tidemark: web-server logs in; live, exact, replayable analytics out, on a Delta lakehouse."""

__version__ = "0.1.0"

"""Tidemark's commands as processes of their own."""

from __future__ import annotations

import dataclasses
import os

from tidemark.settings import Settings


def environment(settings: Settings) -> dict[str, str]:
    """The environment that gives a command these settings."""
    changed = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if getattr(settings, field.name) != field.default
    }
    return {**os.environ, **{f"TIDEMARK_{name.upper()}": str(value) for name, value in changed.items()}}

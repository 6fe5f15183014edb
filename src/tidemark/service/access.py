"""The record of access, for commands on the machine of a home."""

from __future__ import annotations

import os

from tidemark.access.audit import Audit
from tidemark.contract.quality_tables import ACCESS
from tidemark.settings import Settings
from tidemark.store import lakehouse


def audit_of(settings: Settings) -> Audit:
    """quality.access among the home's other tables, wherever these are. Raises SettingError."""
    there = lakehouse.of(settings)
    if files := there.can.files:
        return Audit(there.path(ACCESS), options=files.options)
    return Audit.of_home(settings.home, {**os.environ, **settings.environment()})

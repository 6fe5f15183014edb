"""Fixtures for tests of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.store.lakehouse import Lakehouse


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    """An empty lakehouse in a directory."""
    return Lakehouse(str(tmp_path / "checkpoints"), str(tmp_path / "tables"))

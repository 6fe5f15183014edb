"""A home for tests that only read it."""

from __future__ import annotations

import pytest
import streamlit as st

from app.dashboard.figures.reader_delta import DeltaReader
from app.dashboard.figures.rows import Direct
from tests.app import lakehouse
from tests.app.recounted import Scene


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """No page shows what another test has read."""
    st.cache_data.clear()
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """The rows of a home, and its silver.requests as a frame."""
    home = tmp_path_factory.mktemp("home")
    lines = lakehouse.build(home, lakehouse.requests())
    return Direct(DeltaReader(home)), lines

"""A home for tests that only read it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner

from tests.app import lakehouse
from tests.app.recounted import Scene
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows


@pytest.fixture(scope="session", autouse=True)
def _packages_scanned_once() -> Iterator[None]:
    """Each run of a page looks through all installed packages for components, which takes longer than most pages."""
    with pytest.MonkeyPatch.context() as patch:
        scan = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


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
    return Rows(DeltaReader(home)), lines

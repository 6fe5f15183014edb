from __future__ import annotations

import dataclasses

import pytest

from tidemark.errors import SettingError, TableError
from tidemark.settings import Settings
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore


def test_tables_are_in_the_home_or_where_tables_location_says(home: Settings) -> None:
    here = lakehouse.of(home)
    there = lakehouse.of(dataclasses.replace(home, tables_location="s3a://bucket/logs/"))
    assert here.on_this_machine and here.path("gold.pages") == f"{home.tables}/gold/pages"
    assert not there.on_this_machine and there.path("gold.pages") == "s3a://bucket/logs/gold/pages"
    assert there.sql_name("gold.pages") == "delta.`s3a://bucket/logs/gold/pages`"
    assert there.checkpoint_root == here.checkpoint_root


@pytest.mark.parametrize("catalog", ["", "main"])
def test_a_tables_location_that_is_no_url_or_beside_a_catalog_is_refused(
    home: Settings, catalog: str
) -> None:
    location = "s3a://bucket/logs" if catalog else "/mnt/logs"
    with pytest.raises(SettingError, match="Name a URL such as s3a"):
        lakehouse.of(dataclasses.replace(home, tables_location=location, catalog=catalog))


def test_delta_rs_refuses_tables_that_are_not_in_directories(home: Settings) -> None:
    house = lakehouse.of(dataclasses.replace(home, tables_location="s3a://bucket/logs"))
    with pytest.raises(TableError, match=r"not on those of s3a://bucket/logs\..*Tables on S3"):
        DeltaRsStore(house)

from __future__ import annotations

import pytest

from tidemark.errors import SettingError, TableError
from tidemark.pipeline import TABLES
from tidemark.settings import Settings
from tidemark.store.catalog import ICEBERG, extra_properties
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import Lakehouse
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.store.object_storage import storage_options


def test_tables_are_in_the_home_or_where_tables_location_says(home: Settings) -> None:
    local = lakehouse_of(home)
    there = lakehouse_of(home.changed(tables_location="s3a://bucket/logs/"))
    assert local.can.files and local.path("gold.pages") == f"{home.tables}/gold/pages"
    assert there.can.files and there.path("gold.pages") == "s3a://bucket/logs/gold/pages"
    assert there.directory("gold.pages") == "logs/gold/pages"
    assert there.sql_name("gold.pages") == "delta.`s3a://bucket/logs/gold/pages`"
    assert there.checkpoint_root == local.checkpoint_root


@pytest.mark.parametrize("catalog", ["", "main"])
def test_a_tables_location_that_is_no_url_or_beside_a_catalog_is_refused(
    home: Settings, catalog: str
) -> None:
    location = "s3a://bucket/logs" if catalog else "/mnt/logs"
    with pytest.raises(SettingError, match="Name a URL such as s3a"):
        lakehouse_of(home.changed(tables_location=location, catalog=catalog))


def test_what_a_store_cannot_do_is_a_capability(home: Settings) -> None:
    kinds = {
        "directories": lakehouse_of(home),
        "S3": lakehouse_of(home.changed(tables_location="s3a://bucket/logs")),
        "HDFS": lakehouse_of(home.changed(tables_location="hdfs://name/logs")),
        "catalog": Lakehouse(checkpoint_root=str(home.checkpoints), catalog_schema="`a`.`b`"),
    }
    can = {kind: lakehouse.can for kind, lakehouse in kinds.items()}
    assert {kind for kind, each in can.items() if each.files} == {"directories", "S3"}
    assert {kind for kind, each in can.items() if not each.durable} == {"directories"}
    assert {kind for kind, each in can.items() if not each.keeps_home} == {"catalog"}
    assert {kind for kind, each in can.items() if each.replaces} == {"catalog"}
    assert {kind for kind, each in can.items() if each.register} == {"S3", "catalog"}


def test_delta_rs_refuses_tables_that_it_does_not_reach(home: Settings) -> None:
    lakehouse = lakehouse_of(home.changed(tables_location="hdfs://name/logs"))
    with pytest.raises(TableError, match=r"not on those of hdfs://name/logs\."):
        DeltaRsStore(lakehouse)


def test_options_for_s3_are_set_once() -> None:
    hadoop = "spark.hadoop.fs.s3a."
    assert storage_options({}) == {}
    assert storage_options({f"{hadoop}endpoint": "http://127.0.0.1:9000", f"{hadoop}access.key": "k"}) == {
        "aws_endpoint_url": "http://127.0.0.1:9000", "aws_allow_http": "true", "aws_access_key_id": "k",
    }  # fmt: skip
    result = storage_options({f"{hadoop}endpoint": "s3.eu-central-1.amazonaws.com"})
    assert result == {"aws_endpoint_url": "https://s3.eu-central-1.amazonaws.com", "aws_allow_http": "false"}


def test_only_new_gold_tables_of_a_catalog_have_iceberg_metadata() -> None:
    there = {"catalog": "main", "checkpoint_location": "/volume/checkpoints"}
    tables = {table.name: table for table in TABLES}
    for settings, name, wanted in (
        (Settings.of(iceberg=True, **there), "gold.pages", ICEBERG),
        (Settings.of(iceberg=True, **there), "silver.requests", {}),
        (Settings.of(**there), "gold.pages", {}),
        (Settings.of(iceberg=True), "gold.pages", {}),
    ):
        assert extra_properties(lakehouse_of(settings), tables[name]) == wanted
    assert ICEBERG["delta.universalFormat.enabledFormats"] == "iceberg"

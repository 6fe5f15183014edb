"""A home knows its tables, and opens the store and the session when something needs them first."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from gold import traffic
from silver import requests
from tidemark.home import ACTIVITY, Home
from tidemark.pipeline import LAYER_TABLES, Pipeline
from tidemark.settings import Settings
from tidemark.store.catalog import SparkStore
from tidemark.store.deltars import DeltaRsStore


def test_tables_in_directories_need_no_session(home: Settings) -> None:
    assert isinstance(Home.of(home).store, DeltaRsStore)
    assert not home.home.exists()


def test_flows_commit_through_the_store_of_the_setting(home: Settings, spark: SparkSession) -> None:
    assert isinstance(Home.of(home).on(spark).store, DeltaRsStore)
    by_spark = Home.of(home.changed(store="spark"))
    assert isinstance(by_spark.store, DeltaRsStore)  # a few rows
    assert isinstance(by_spark.on(spark).store, SparkStore)
    assert isinstance(by_spark.on(spark).on_files().store, DeltaRsStore)


def test_a_home_of_some_tables_keeps_the_rest(home: Settings, spark: SparkSession) -> None:
    whole = replace(Home.of(home, LAYER_TABLES), session=spark)
    one = whole.only([traffic.TABLE])
    assert one.tables == (traffic.TABLE,) and one.spark is spark and one.lakehouse == whole.lakehouse


def test_a_plain_home_can_be_sent_to_another_process(home: Settings) -> None:
    whole = Home.of(home, LAYER_TABLES)
    assert whole.lakehouse.can.files
    sent = pickle.loads(pickle.dumps(whole.plain))
    assert sent.graph.names == whole.graph.names and sent.settings == home
    assert isinstance(sent.store, DeltaRsStore)


def test_a_pipeline_knows_who_streams_a_table(home: Settings) -> None:
    pipeline = Pipeline.of(home)
    checkpoint = Path(pipeline.lakehouse.checkpoint(ACTIVITY, 1))
    assert pipeline.readers == {requests.TABLE.name: [checkpoint]}
    assert isinstance(pipeline.plain, Home) and not isinstance(pipeline.plain, Pipeline)

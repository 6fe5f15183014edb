"""Tables and reports as files of a directory and of an S3 server."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from tests.app import lakehouse
from tests.app.test_replaced import replace
from tests.importing.bucket import ENVIRONMENT, SECRET, Bucket, server
from tidemark.cli import tidemark
from tidemark.errors import InputError, SettingError
from tidemark.figures.permitted import ForbiddenError, permitted
from tidemark.figures.query import Query
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.right import Right
from tidemark.figures.selection import Selection
from tidemark.service.export import rows_of


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    directory = tmp_path_factory.mktemp("home")
    rows = lakehouse.requests(visitors=30)
    rows[0]["path"] = "=1+1"
    return directory, lakehouse.build(directory, rows)


def call(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(tidemark, ["export", *arguments, "--home", str(home)])


def test_a_table_is_one_file_with_the_rows_of_the_range(
    home: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    directory, lines = home
    chosen = ["--from", "2026-03-10", "--to", "2026-03-11", "--filter", "country=DE"]
    done = call(directory, "gold.visitors_by_country", "--to", str(tmp_path / "out"), *chosen)

    file = tmp_path / "out" / "gold.visitors_by_country.parquet"
    result = pq.read_table(file)
    assert done.output.splitlines()[-1] == f"{result.num_rows:,} rows of gold.visitors_by_country: {file}"
    day = pd.Timestamp("2026-03-10", tz="UTC")
    kept = lines[lines["event_time"].between(day, day + pd.Timedelta(days=1), inclusive="left")]
    assert sum(result["requests"].to_pylist()) == (kept["country"] == "DE").sum()
    assert [each.name for each in file.parent.iterdir()] == [file.name]  # nothing temporary


def test_requests_are_csv_and_json_lines_and_a_file_is_not_replaced_unless_asked(
    home: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    directory, lines = home
    for form in ("csv", "jsonl"):
        assert call(directory, "silver.requests", "--to", str(tmp_path), "--format", form).exit_code == 0
    with (tmp_path / "silver.requests.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    objects = [json.loads(line) for line in (tmp_path / "silver.requests.jsonl").read_text().splitlines()]
    assert len(rows) == len(objects) == len(lines)
    assert sorted(row["visitor_id"] for row in rows) == sorted(lines["visitor_id"])
    # A spreadsheet must not compute it.
    assert (
        [row["path"] for row in rows].count("'=1+1") == [each["path"] for each in objects].count("=1+1") == 1
    )

    again = call(directory, "silver.requests", "--to", str(tmp_path), "--format", "csv")
    assert isinstance(again.exception, InputError) and "silver.requests.csv exists" in str(again.exception)
    assert (
        call(directory, "silver.requests", "--to", str(tmp_path), "--format", "csv", "--overwrite").exit_code
        == 0
    )


@pytest.mark.parametrize("table", ["gold.visitors_by_country", "silver.sessions", "overview"])
def test_a_site_that_is_not_there_is_an_error_and_no_file(
    home: tuple[Path, pd.DataFrame], tmp_path: Path, table: str
) -> None:
    done = call(home[0], table, "--to", str(tmp_path), "--site", "c.example")
    assert isinstance(done.exception, SettingError) and "there is no site 'c.example'" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_a_report_is_a_file_too(home: tuple[Path, pd.DataFrame], tmp_path: Path) -> None:
    directory, _ = home
    range_of = ["--from", "2026-03-11T12:00", "--until", "2026-03-11T20:00"]
    assert call(directory, "explain:requests", "--to", str(tmp_path), *range_of).exit_code == 0
    assert call(directory, "overview", "--to", str(tmp_path), "--format", "jsonl").exit_code == 0
    assert pq.read_table(tmp_path / "explain-requests.parquet").num_rows > 5
    assert json.loads((tmp_path / "overview.jsonl").read_text().splitlines()[0])["figure"] == "requests"


def test_a_table_that_is_replaced_meanwhile_is_written_from_the_beginning(
    home: tuple[Path, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, lines = home
    shutil.copytree(directory, tmp_path / "home")
    read, opened = DeltaReader.batches, []

    def overtaken(reader: DeltaReader, q: Query) -> pa.RecordBatchReader:
        """Replaces the table once, after it was opened."""
        rows = read(reader, q)
        if not opened:
            replace(DeltaTable(str(tmp_path / "home" / "tables" / q.table)))
        opened.append(q.table)
        return rows

    monkeypatch.setattr(DeltaReader, "batches", overtaken)
    done = call(tmp_path / "home", "silver.requests", "--to", str(tmp_path))
    file = tmp_path / "silver.requests.parquet"
    assert done.output.splitlines()[-1] == f"{len(lines):,} rows of silver.requests: {file}"
    assert opened == ["silver/requests"] * 2
    assert sorted(pq.read_table(file)["visitor_id"].to_pylist()) == sorted(lines["visitor_id"])


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with server() as running:
        running.client("s3").create_bucket(Bucket="exports")
        yield Bucket(running, "exports")


def test_an_object_of_a_bucket_appears_when_it_is_complete(
    home: tuple[Path, pd.DataFrame], bucket: Bucket
) -> None:
    directory, lines = home
    store = bucket.server.client("s3")

    def stored() -> list[str]:
        return [each["Key"] for each in store.list_objects_v2(Bucket=bucket.name).get("Contents", [])]

    def refused(request: WSGIEnvironment, start: StartResponse, answer: Callable[[], Any]) -> Any:
        """Only reading is allowed."""
        if request["REQUEST_METHOD"] in ("GET", "HEAD"):
            return answer()
        start("403 Forbidden", [("Content-Type", "application/xml")])
        return [f"<Error><Code>AccessDenied</Code><Secret>{SECRET}</Secret></Error>".encode()]

    place = ["silver.requests", "--to", f"{bucket.url}logs/", "--endpoint", bucket.server.url]
    bucket.server.fault = refused
    problem = str(call(directory, *place).exception)
    assert "s3://exports/logs/silver.requests.parquet may not be written" in problem
    assert "s3:PutObject" in problem and SECRET not in problem
    bucket.server.fault = None
    assert stored() == []

    done = call(directory, *place)
    assert done.output.splitlines()[-1].endswith(": s3://exports/logs/silver.requests.parquet")
    assert stored() == ["logs/silver.requests.parquet"]
    body = store.get_object(Bucket=bucket.name, Key=stored()[0])["Body"].read()
    assert pq.read_table(BytesIO(body)).num_rows == len(lines)
    assert "parquet exists" in str(call(directory, *place).exception)
    assert call(directory, *place, "--overwrite").exit_code == 0
    missing = ["gold.pages", "--to", "s3://no-bucket/", "--endpoint", bucket.server.url]
    assert "s3://no-bucket does not exist" in str(call(directory, *missing).exception)


def test_what_cannot_be_asked_says_so_and_leaves_no_file(
    home: tuple[Path, pd.DataFrame], tmp_path: Path
) -> None:
    directory, _ = home
    for arguments, problem in (
        (["gold.nothing"], "the table gold/nothing"),
        (["gold.traffic", "--filter", "country=DE"], "no column 'country'"),
        (["pages", "--filter", "nothing"], "is no filter"),
    ):
        done = call(directory, *arguments, "--to", str(tmp_path / "none"))
        assert done.exit_code and problem in str(done.exception)
    assert call(directory, "pages", "--to", "a", "--to", "b").exit_code == 2
    assert not (tmp_path / "none").exists()


def test_roles_apply(home: tuple[Path, pd.DataFrame]) -> None:
    reader = permitted(DeltaReader(home[0]), Right.of("viewer", ["a.example"]))
    with pytest.raises(ForbiddenError, match="Only analysts"):
        rows_of(reader, "silver.requests", Selection())
    result = rows_of(reader, "gold.pages", Selection()).read_all()
    assert set(result["site"].to_pylist()) == {"a.example"}

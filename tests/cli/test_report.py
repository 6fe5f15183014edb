"""`tidemark report` as a user calls it, on tables without a pipeline."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake

from tests.app import lakehouse
from tidemark.cli import tidemark
from tidemark.errors import SettingError, TableError
from tidemark.figures import explain
from tidemark.figures.report import REPORTS
from tidemark.figures.report_specs import BY_NAME

ROWS = lakehouse.requests(seed=5)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    directory = tmp_path_factory.mktemp("home")
    return directory, lakehouse.build(directory, ROWS)


def call(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(tidemark, ["report", *arguments, "--home", str(home)])


def test_the_overview_as_a_process_needs_no_spark(home: tuple[Path, pd.DataFrame]) -> None:
    directory, lines = home
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['streamlit'] = None\n"
        "from tidemark.cli import main; main()"
    )
    chosen = ["--from", "2026-03-10", "--site", "a.example"]
    arguments = ["report", "overview", "--json", "--home", str(directory), *chosen]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )

    kept = lines[
        (lines["event_time"] >= pd.Timestamp("2026-03-10", tz="UTC")) & (lines["site"] == "a.example")
    ]
    result = json.loads(done.stdout)
    assert (result["requests"], result["pageviews"]) == (len(kept), kept["pageview"].sum())
    assert result["visitors"] == kept[~kept["bot"]]["visitor_id"].nunique()
    assert 0 < result["bounce_rate"] < 1 and result["sessions"] > 0
    assert done.stderr == ""


DECLARED = """
[goals.read]
path = "/a*"
[goals.style]
download = ["css"]
[funnels.reading]
steps = ["/", "goal:read"]
"""


def test_funnels_goals_retention_and_paths(tmp_path: Path) -> None:
    """Three visitors, of whom two go on from the first page, and one comes back on the next day."""
    (tmp_path / "tidemark.toml").write_text(DECLARED, encoding="utf-8")
    plan = {"one": ["/", "/a", "/a"], "two": ["/", "/a/b"], "three": ["/"]}
    proto = next(row for row in ROWS if not row["bot"])
    usual = {
        "site": "s",
        "method": "GET",
        "status": 200,
        "asset": False,
        "pageview": True,
        "search_term": None,
    }
    rows = []
    for who, pages in plan.items():
        times = [lakehouse.START + timedelta(minutes=5 * i) for i in range(len(pages))]
        rows += [
            proto | usual | {"visitor_id": who, "path": page, "event_time": at}
            for page, at in zip(pages, times, strict=True)
        ]
    rows.append(proto | usual | {"visitor_id": "one", "path": "/style.css", "asset": True, "pageview": False,
                                 "event_time": lakehouse.START + timedelta(days=1)})  # fmt: skip
    lakehouse.build(tmp_path, [row | {"offset": i} for i, row in enumerate(rows)])

    funnel = json.loads(call(tmp_path, "funnel", "reading", "--json").stdout)
    goals = json.loads(call(tmp_path, "goals", "--json").stdout)
    days = json.loads(call(tmp_path, "retention", "--by", "day", "--json").stdout)
    paths = json.loads(call(tmp_path, "paths", "--from-page", "/", "--json").stdout)

    assert [(s["name"], s["count"]) for s in funnel["steps"]] == [("/", 3), ("read", 2)]
    assert goals["goals"] == [
        {"name": "read", "conversions": 2, "completions": 3}, {"name": "style", "conversions": 0, "completions": 1},
    ]  # fmt: skip
    assert days["cohorts"] == [{"start": "2026-03-09", "size": 3, "returned": [3, 1]}]
    assert paths["levels"][:2] == [
        [{"path": "/", "count": 3}],
        [{"path": "/a", "count": 1}, {"path": "/a/b", "count": 1}, {"path": "left", "count": 1}],
    ]
    for arguments in (["funnel", "reading"], ["goals"], ["retention"], ["paths", "--to-page", "/a"]):
        assert call(tmp_path, *arguments).exit_code == 0
        assert call(tmp_path, *arguments, "--csv").exit_code == 0
    unknown = call(tmp_path, "funnel", "other").exception
    assert isinstance(unknown, SettingError)
    assert "no funnel 'other'; there are reading" in str(unknown)


def test_every_report_is_json_csv_and_a_table_of_the_same_rows(home: tuple[Path, pd.DataFrame]) -> None:
    directory, _ = home
    assert list(BY_NAME) == list(REPORTS)
    for name in list(BY_NAME)[:9]:
        result = json.loads(call(directory, name, "--json", "--filter", "country=DE|US").stdout)
        repeated = call(directory, name, "--csv", "--filter", "country=DE", "--filter", "country=US").stdout
        table = list(csv.reader(io.StringIO(repeated)))
        text = call(directory, name, "--filter", "country=DE|US").stdout.splitlines()
        size = len(result["rows"]) if "rows" in result else len(result)
        assert size > 0
        assert len(table) == size + 1
        assert len(text) == min(size, 50) + 1
        assert text[0].split() == table[0]


@pytest.mark.parametrize("name", [name for name, spec in BY_NAME.items() if not spec.argument])
def test_every_report_is_printed(name: str, home: tuple[Path, pd.DataFrame]) -> None:
    directory, _ = home
    printed, saved = call(directory, name), call(directory, name, "--csv")
    assert (printed.exception, saved.exception) == (None, None)
    headings, *rows = csv.reader(io.StringIO(saved.stdout))
    lines = printed.stdout.splitlines()
    assert lines[0].split() == headings
    assert len(lines[1:51]) == min(len(rows), 50)


def test_cohorts_of_differing_length_are_printed_with_dashes(home: tuple[Path, pd.DataFrame]) -> None:
    first, *_, last = call(home[0], "retention").stdout.splitlines()[1:]
    assert "-" not in first.split()
    assert last.split()[-1] == "-"


def test_the_values_that_account_for_a_change(home: tuple[Path, pd.DataFrame]) -> None:
    directory, _ = home
    chosen = ["explain", "not_found", "--from", "2026-03-11T12:00", "--to", "2026-03-11T23:00"]
    result = json.loads(call(directory, *chosen, "--json").stdout)
    table = list(csv.reader(io.StringIO(call(directory, *chosen, "--csv").stdout)))

    assert (result["before_from"], result["before_to"]) == ("2026-03-11T01:00:00+00:00", result["from"])
    assert "status" in result["same"] and result["overlaps"] == []
    assert {row["dimension"] for row in result["rows"]} == set(explain.DIMENSIONS) - set(result["same"])
    for row in result["rows"]:
        assert row["change"] == row["now"] - row["before"]
        assert row["filters"][0] == "status=404" and len(row["filters"]) == 2
    assert table[0] == list(explain.COLUMNS) and len(table) == len(result["rows"]) + 1


def test_alerts_and_reported_days(home: tuple[Path, pd.DataFrame]) -> None:
    directory, lines = home
    day, hour = lakehouse.START, timedelta(hours=1)
    for name in ("alerts", "reported"):
        assert call(directory, name).exit_code == 0  # no rule yet, and no report
    alert = {"rule": "errors", "site": "a.example", "window_start": day + hour, "state": "ended", "value": 0.5,
             "bound": 0.1, "ended_at": day + 2 * hour, "due": False}  # fmt: skip
    lakehouse.write(directory, "quality.alerts", [alert, {**alert, "site": "b.example"}])
    rule = {"rule": "errors", "site": "a.example", "state": "ok", "judged_until": day + 9 * hour}
    lakehouse.write(directory, "quality.alert_rules", [rule])
    rows = [(30, 7.0, "day over"), (40, 9.0, "late lines")]
    lakehouse.write(
        directory, "quality.reported",
        [{"site": "a.example", "day": day, "metric": "requests", "value": value, "reported_at": day + after * hour,
          "cause": cause} for after, value, cause in rows],
    )  # fmt: skip
    of_site = ["--site", "a.example", "--json"]
    alerts = json.loads(call(directory, "alerts", *of_site).stdout)
    assert [each["site"] for each in alerts["alerts"]] == ["a.example"]
    assert (alerts["alerts"][0]["ended_at"], alerts["alerts"][0]["delivered_at"]) == (
        "2026-03-09T02:00:00+00:00",
        None,
    )
    assert [each["state"] for each in alerts["rules"]] == ["ok"]
    assert json.loads(call(directory, "alerts", *of_site, "--from", "2026-03-10").stdout)["alerts"] == []

    today = lines[(lines["site"] == "a.example") & (lines["event_time"] < pd.Timestamp(day + 24 * hour))]
    for as_of, wanted, causes in ((None, 7.0, "late lines, "), ("2026-03-10T16:00", 9.0, "")):
        arguments = [*of_site, *(["--as-of", as_of] if as_of else [])]
        [result] = json.loads(call(directory, "reported", *arguments).stdout)["days"]
        assert (result["metric"], result["reported"], result["now"]) == ("requests", wanted, len(today))
        assert result["causes"] == causes + "not reported yet"
    assert json.loads(call(directory, "reported", *of_site, "--as-of", "2026-03-10").stdout)["days"] == []
    for name in ("alerts", "reported"):
        table = list(csv.reader(io.StringIO(call(directory, name, "--csv").stdout)))
        assert len(table) == (3 if name == "alerts" else 2)
        assert call(directory, name).stdout.splitlines()[0].split() == table[0]
    assert call(directory, "overview", "--as-of", "2026-03-10").exit_code == 2
    assert call(directory, "alerts", "--filter", "country=DE").exit_code == 2


def test_rows_of_pages_and_errors(home: tuple[Path, pd.DataFrame]) -> None:
    directory, lines = home
    pages = json.loads(call(directory, "pages", "--json").stdout)["rows"]
    errors = json.loads(call(directory, "errors", "--json", "--filter", "status^4").stdout)["rows"]

    viewed = lines[lines["pageview"]]
    assert {p["path"]: p["pageviews"] for p in pages} == viewed["path"].value_counts().to_dict()
    assert {e["status"] for e in errors} == {404}
    assert sum(e["requests"] for e in errors) == (lines["status"] == 404).sum()
    assert errors[0]["newest_event_time"].endswith("+00:00")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--filter", "colour=red"], "no field 'colour' to filter by"),
        (["--from", "yesterday"], "'yesterday' is no time"),
        (["--site", "c.example"], "there is no site 'c.example'. There are: a.example, b.example."),
    ],
)
def test_what_cannot_be_read_is_reported_in_one_line(
    home: tuple[Path, pd.DataFrame], arguments: list[str], message: str
) -> None:
    error = call(home[0], "overview", *arguments).exception
    assert isinstance(error, SettingError)
    assert message in str(error) and "\n" not in str(error)


def test_a_site_whose_lines_were_all_rejected_is_there(tmp_path: Path) -> None:
    lakehouse.build(tmp_path, ROWS)
    times = [datetime(2026, 3, 10, tzinfo=UTC), None]
    sites = {"site": ["a.example", "garbled.example"], "first_event_time": times, "newest_event_time": times}
    types = {"first_event_time": pa.timestamp("us", "UTC"), "newest_event_time": pa.timestamp("us", "UTC")}
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in sites.items()})
    write_deltalake(str(tmp_path / "tables/quality/sites"), table, mode="overwrite")
    report = json.loads(call(tmp_path, "overview", "--json", "--site", "garbled.example").stdout)
    assert report["requests"] == 0


def test_a_home_without_tables_is_reported_in_one_line(tmp_path: Path) -> None:
    error = call(tmp_path, "overview").exception
    assert isinstance(error, TableError)
    assert "silver/requests does not exist yet" in str(error)


def test_a_table_whose_history_is_being_filled_is_not_counted_on(tmp_path: Path) -> None:
    lines = lakehouse.build(tmp_path, ROWS)
    path = str(tmp_path / "tables/gold/traffic")
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(0, 5), mode="overwrite")
    known = pa.table({"table": ["gold.traffic", "gold.pages"], "complete": [False, True]})
    write_deltalake(str(tmp_path / "tables/quality/tables"), known)

    completed = call(tmp_path, "overview", "--json")

    assert json.loads(completed.stdout)["requests"] == len(lines)
    assert completed.stderr == "The history of gold.traffic is being filled; counting from silver.\n"


def test_suspected_days_stand_beside_the_bots(home: tuple[Path, pd.DataFrame]) -> None:
    directory, lines = home
    result = json.loads(call(directory, "bots", "--json").stdout)

    robots_requests = lines[~lines["bot"] & (lines["path"] == "/robots.txt")]
    wanted = set(
        zip(robots_requests["visitor_id"], robots_requests["event_time"].dt.strftime("%Y-%m-%d"), strict=True)
    )
    robots = {(s["visitor_id"], s["day"][:10]) for s in result["suspected"] if "a" in s["reasons"]}
    assert robots == wanted

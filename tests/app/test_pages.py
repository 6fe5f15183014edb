"""Each page's figures, compared with figures computed from the requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import clock
from tests.app import tables
from tests.app.showing import metrics, show, table
from tests.app.tables import Request

ATTACK = "<img src=x onerror=alert(1)>"


# Ten seconds before a minute ends.
NOW = datetime(2026, 3, 10, 15, 41, 50, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


def test_live_counts_the_last_five_minutes(tmp_path: Path) -> None:
    minute = tables.floor(NOW, 60)
    requests = [Request(minute - timedelta(seconds=30), f"v{i % 4}") for i in range(120)]
    requests += [Request(minute - timedelta(minutes=3), "v1"), Request(minute - timedelta(minutes=3), "v9")]
    requests += [Request(minute - timedelta(minutes=3), "robot", bot=True)]
    requests += [Request(minute - timedelta(minutes=20), f"early{i}") for i in range(50)]
    tables.write_gold(tmp_path, requests)
    tables.write(tmp_path, "silver/rejected", [tables.rejected(0, NOW, b"\xff<b>", "not_utf8")])

    page = show("live", tmp_path)

    figures = metrics(page)
    assert figures["Visitors, last 5 minutes"] == "5"
    assert figures["Requests per second"] == "2.0"
    assert figures["Pageviews, last 5 minutes"] == "122"
    assert table(page, "reasons", "line").values.tolist() == [["not_utf8", "\\xff<b>"]]
    assert not page.error and not page.warning


def test_live_shows_the_alerts_of_a_job_beside(tmp_path: Path) -> None:
    at = NOW
    tables.write_gold(tmp_path, [Request(at, "v1")])
    assert not [d for d in show("live", tmp_path).dataframe if "rule" in d.value.columns]

    scan = {"rule": "scan", "client_ip": "192.0.2.1", "started_at": at - timedelta(minutes=9)}
    tables.write(tmp_path, "intrusion/traffic_alerts", [scan])
    assert table(show("live", tmp_path), "rule", "address").values.tolist() == [["scan", "192.0.2.1"]]

    logins = {"rule": "break-in", "client_ip": ATTACK, "started_at": at - timedelta(minutes=1)}
    tables.write(tmp_path, "intrusion/login_alerts", [logins])
    page = show("live", tmp_path)
    assert table(page, "rule", "address").values.tolist() == [["break-in", ATTACK], ["scan", "192.0.2.1"]]
    assert not page.error and not page.warning


def test_a_demo_explains_itself_until_it_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v1")])
    assert not explained(show("live", tmp_path))

    monkeypatch.setenv("TIDEMARK_DEMO", "1")
    page = show("live", tmp_path)
    assert explained(page)
    assert [code.value for code in page.code] == [
        f"tidemark --home {tmp_path} import access.log --site mine",
        f"tidemark --home {tmp_path} demo --chaos",
    ]
    (hide,) = [button for button in page.button if button.label == "Hide"]
    assert not explained(hide.click().run())


def explained(at: AppTest) -> bool:
    return any(text.value.startswith("Demo:") for text in at.text)


def test_live_falls_to_zero_when_traffic_stops(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW - timedelta(minutes=7), "v1")])

    figures = metrics(show("live", tmp_path))

    assert (figures["Visitors, last 5 minutes"], figures["Requests per second"]) == ("0", "0.0")


def test_countries_are_distinct_over_the_range(tmp_path: Path) -> None:
    at = NOW
    requests = [Request(at - timedelta(hours=h), "same", "DE") for h in range(1, 10)]
    requests += [Request(at - timedelta(hours=1), f"us{i}", "US") for i in range(3)]
    requests += [Request(at - timedelta(days=3), f"old{i}", "FR") for i in range(5)]
    requests += [Request(at - timedelta(hours=1), "crawler", "CN", bot=True)]
    tables.write_gold(tmp_path, requests)

    day, week = show("countries", tmp_path), show("countries", tmp_path, preset="7d")

    assert table(day, "country", "visitors", "pageviews", "requests").values.tolist() == [
        ["United States", 3, 3, 3],
        ["Germany", 1, 9, 9],
        ["China", 0, 0, 1],
    ]
    assert metrics(day) == {"Visitors": "4", "Countries": "2"}
    assert metrics(week) == {"Visitors": "9", "Countries": "3"}


def test_a_site_is_counted_alone_and_sites_are_added(tmp_path: Path) -> None:
    at = NOW - timedelta(hours=1)
    tables.write_gold(
        tmp_path, [Request(at, "v", site="a"), Request(at, "v", site="b"), Request(at, "w", site="b")]
    )

    assert metrics(show("countries", tmp_path))["Visitors"] == "3"
    assert metrics(show("countries", tmp_path, site="b"))["Visitors"] == "2"


def test_sessions(tmp_path: Path) -> None:
    at = NOW - timedelta(hours=1)
    rows = [
        tables.session(1, at, ["/"]),
        tables.session(2, at, ["/", "/a"], 30),
        tables.session(3, at, ["/a", "/", "/b"], 200, closed=False),
        tables.session(4, at, [ATTACK, "/a"], 4000),
        tables.session(5, at - timedelta(days=5), ["/old"]),
        tables.session(6, at - timedelta(days=1), ["/old"]),
    ]
    tables.write(tmp_path, "silver/sessions", rows)
    tables.write_gold(tmp_path, [Request(at - timedelta(days=5), "v"), Request(NOW, "v")])

    page = show("sessions", tmp_path)

    assert metrics(page) == {
        "Sessions": "4",
        "Open now": "1",
        "Median duration": "1 min 55 s",
        "Bounce rate": "25.0%",
        "Pages per session": "2.0",
        "Their pageviews": "8",
    }
    changes = {m.label: m.delta for m in page.metric}
    assert changes["Sessions"] == "+300.0%" and changes["Bounce rate"] == "-75.0 pp"
    assert changes["Median duration"] == "+1 min 55 s", "a median of 0 s is not nothing"
    assert len(table(page, "entry_page", "closed")) == 4


def test_pages_with_where_sessions_begin_and_end(tmp_path: Path) -> None:
    at = NOW - timedelta(hours=2)
    requests = [Request(at, f"v{i % 3}", path="/a") for i in range(6)]
    requests += [Request(at - timedelta(hours=3), "v0", path="/a"), Request(at, "v0", path=ATTACK)]
    requests += [Request(at, "bot", path="/a", bot=True), Request(at, "v0", path="/e", status=500)]
    tables.write_gold(tmp_path, requests)
    sessions = [
        tables.session(1, at, ["/"]),
        tables.session(2, at, ["/", "/a"], 30),
        tables.session(3, at, [ATTACK, "/a"], 4000),
        tables.session(4, at - timedelta(days=5), ["/old"]),
    ]
    tables.write(tmp_path, "silver/sessions", sessions)

    page = show("pages", tmp_path)

    shown = table(page, "path", "pageviews", "visitors", "entries", "exits")
    assert shown.values.tolist() == [["/a", 7, 3, 0, 2], [ATTACK, 1, 1, 1, 0]]
    entries, exits = (d.value for d in page.dataframe if "page" in d.value.columns)
    assert entries[["page", "sessions", "bounced"]].values.tolist() == [["/", 2, 0.5], [ATTACK, 1, 0.0]]
    assert exits[["page", "sessions"]].values.tolist() == [["/a", 2], ["/", 1]]


def test_quality(tmp_path: Path) -> None:
    at = NOW - timedelta(minutes=5)
    tables.write_gold(tmp_path, [Request(at, "v")])
    tables.write(
        tmp_path, "quality/accounts", [tables.account(0, at, 90, 5, 3, late=2), tables.account(1, at, 10)]
    )
    lines = [tables.rejected(i, at, b"=cmd|' /C calc'!A0", "malformed_line") for i in range(3)]
    tables.write(tmp_path, "silver/rejected", lines)
    results = [
        tables.result(at - timedelta(hours=1), "silver.requests", "not_null", False, severity="critical"),
        tables.result(at, "silver.requests", "not_null", severity="critical"),
        tables.result(at, "silver.requests", "in_set", False),
    ]
    tables.write(tmp_path, "quality/results", results)

    page = show("quality", tmp_path)

    assert metrics(page) == {
        "Received": "108",
        "Accepted": "100",
        "Rejected": "5",
        "Duplicate": "3",
        "Late": "2",
    }
    assert any("108 received" in s.value.replace("\\", "") for s in page.success)
    assert "1 of 2 expectations failed, none critical" in page.warning[0].value
    assert table(page, "result", "expectation").values.tolist() == [
        ["✗ failed", "in_set"],
        ["✓ holds", "not_null"],
    ]
    results[-1]["severity"] = "info"
    tables.write(tmp_path, "quality/results", results)
    page = show("quality", tmp_path)
    assert not page.warning
    assert "1 of 2 expectations hold; the rest are for information only" in page.info[0].value
    assert len(table(page, "rejected_at", "line")) == 3
    assert not any("nearest" in shown.value for shown in page.dataframe), (
        "a column without a text is not shown"
    )


def test_formats_by_site_and_the_nearest_one_of_a_rejected_line(tmp_path: Path) -> None:
    day = tables.floor(NOW, 86_400) - timedelta(days=1)
    hour = timedelta(hours=1)
    seen = [
        ("shop", "combined", day, 2),
        ("shop", "combined", day - 24 * hour, 3),
        ("shop", "caddy_json", day, 1),
    ]
    rows = [
        {"site": site, "format": name, "window_start": at, "requests": n,
         "first_event_time": at + hour, "newest_event_time": at + 2 * hour}
        for site, name, at, n in seen
    ]  # fmt: skip
    tables.write(tmp_path, "gold/formats", rows)
    bad = tables.rejected(0, NOW, b"x", "malformed") | {"nearest_format": "envoy", "failed_field": "status"}
    tables.write(tmp_path, "silver/rejected", [bad])

    page = show("quality", tmp_path)

    shown = table(page, "site", "format", "requests", "first", "newest")
    assert shown[["format", "requests"]].values.tolist() == [["combined", 5], ["caddy_json", 1]]
    assert (shown["newest"] - shown["first"]).tolist() == [25 * hour, hour]
    assert table(page, "nearest")["nearest"].tolist() == ["envoy, status"]


def test_accounts_that_do_not_balance_are_an_error(tmp_path: Path) -> None:
    tables.write(tmp_path, "quality/accounts", [tables.account(0, NOW, 90) | {"received": 95}])

    assert "do not balance, the difference is 5" in show("quality", tmp_path).error[0].value


def test_rejected_lines_can_be_searched(tmp_path: Path) -> None:
    tables.write(
        tmp_path,
        "silver/rejected",
        [tables.rejected(0, NOW, b"one [x]", "bad_date"), tables.rejected(1, NOW, b"two", "bad_size")],
    )
    page = show("quality", tmp_path)

    page.text_input(key="rejected-text").set_value("[x]").run()
    assert table(page, "line")["line"].tolist() == ["one [x]"]
    page.text_input(key="rejected-text").set_value("")
    page.selectbox(key="rejected-reason").set_value("bad_size").run()
    assert table(page, "line")["line"].tolist() == ["two"]


def test_pipeline(tmp_path: Path) -> None:
    at = NOW
    rows = [
        tables.progress("requests", 1, at - timedelta(seconds=9), lag=5000),
        tables.progress("requests", 2, at - timedelta(seconds=3), lag=12, rows_per_second=4321.4),
        tables.progress("activity", 1, at - timedelta(seconds=130), lag=7, duration_ms=2500),
    ]
    tables.write(tmp_path, "quality/progress", rows)
    tables.write(tmp_path, "quality/accounts", [tables.account(2, at, 10, 4, 0, 6)])

    page = show("pipeline", tmp_path)

    values = [m.value for m in page.metric]
    assert values == [
        "4,321",
        "800 ms",
        "12",
        "500 ms",
        "1,000",
        "2,000",
        "800 ms",
        "7",
        "2.5 s",
        "1,000",
    ]
    heads = [m.value for m in page.markdown if "batch" in m.value and ":material" in m.value]
    assert ":green[" in heads[0] and "requests" in heads[0]
    assert ":red[" in heads[1] and "activity" in heads[1]
    assert any("6 late and 4 rejected" in c.value for c in page.caption)
    assert len(table(page, "flow", "batch_id")) == 3


def test_a_panel_whose_tables_have_no_rows_does_not_ask_for_a_longer_range(tmp_path: Path) -> None:
    """As in the first moments of a home: sessions follow the lines."""
    before = NOW - timedelta(days=40)
    tables.write_gold(tmp_path, [Request(before, "v")])
    tables.write(tmp_path, "silver/sessions", [])
    yet, longer = "Nothing has been counted for this yet.", "Choose a longer one"

    def panels_that_say(message: str) -> int:
        return sum(message in text.value for text in show("pages", tmp_path, preset="1h").text)

    # Entries and exits are of sessions, requests and bytes of lines.
    assert (panels_that_say(yet), panels_that_say(longer)) == (2, 2)
    tables.write(tmp_path, "silver/sessions", [tables.session(1, before, ["/"])])
    assert (panels_that_say(yet), panels_that_say(longer)) == (0, 4)


def test_a_table_that_is_being_filled_says_so_where_it_is_read(tmp_path: Path) -> None:
    at = NOW
    tables.write_gold(tmp_path, [Request(at, "v")])
    tables.write(tmp_path, "quality/progress", [tables.progress("requests", 1, at)])
    known = [
        {"table": "gold.traffic", "package": "", "complete": True},
        {"table": "gold.pages", "package": "", "complete": False, "done": 3, "total": 10},
        {"table": "gold.visitors_by_country", "package": "", "complete": False},
    ]
    tables.write(tmp_path, "quality/tables", known)

    pipeline = show("pipeline", tmp_path)
    not_begun = "gold.visitors_by_country is incomplete: its backfill has not begun."
    assert not_begun in [t.value for t in pipeline.text]
    assert ["3 of 10 parts done" in e.proto.text for e in pipeline.get("progress")] == [True]
    message = ":material/history: gold.pages is incomplete: backfill of its history, 3 of 10 parts done."
    assert [
        c.value.replace("\\", "") for c in show("pages", tmp_path).caption if "incomplete" in c.value
    ] == [message]
    assert not any("incomplete" in c.value for c in show("sessions", tmp_path).caption)

    known_again = [
        {"table": "silver.requests", "package": "", "complete": True, "done": 4, "total": 9},
        known[0],
    ]
    tables.write(tmp_path, "quality/tables", known_again)
    pipeline = show("pipeline", tmp_path)
    message = "Changed settings of sites are being applied to history. Tables made so far: 0."
    assert message in [t.value for t in pipeline.text]
    assert ["4 of 9 parts done" in e.proto.text for e in pipeline.get("progress")] == [True]
    assert not any("incomplete" in c.value for c in show("pages", tmp_path).caption)

    whole = [{"table": row["table"], "package": "", "complete": True} for row in known]
    tables.write(tmp_path, "quality/tables", whole)
    assert "Every table has its whole history." in [t.value for t in show("pipeline", tmp_path).text]
    assert not any("incomplete" in c.value for c in show("pages", tmp_path).caption)


def test_tables_of_other_packages_are_shown_by_what_they_say_of_themselves(tmp_path: Path) -> None:
    at = NOW
    hour = tables.floor(at, 3600)
    tables.write_gold(tmp_path, [Request(at, "v")])
    counts = [("shop", hour, 200, 5), ("shop", hour, 404, 2), ("blog", hour - timedelta(hours=1), 404, 4)]
    tables.write(
        tmp_path,
        "gold/requests_by_status",
        [
            {
                "site": site,
                "window_start": start,
                "status": status,
                "requests": n,
                "bytes": n * 10,
                "visitors": 1,
            }
            for site, start, status, n in counts
        ],
    )
    tables.write(
        tmp_path,
        "quality/tables",
        [
            {"table": "gold.traffic", "package": "", "complete": True},
            {"table": "gold.requests_by_status", "package": "odd-package", "complete": True},
        ],
    )

    page = show("others", tmp_path)
    assert page.selectbox(key="other-table").options == ["gold.requests_by_status"]
    assert any("Declared by the package odd" in c.value for c in page.caption)
    top = table(page, "status", "requests", "bytes")
    assert top.values.tolist() == [["404", 6, 60], ["200", 5, 50]]
    newest = table(page, "site", "status", "visitors")
    assert sorted(newest.values.tolist()) == [["blog", 404, 1], ["shop", 200, 1], ["shop", 404, 1]]
    headings = [m.value for m in page.markdown if m.value.startswith("#####")]
    assert [h.replace("\\", "") for h in headings] == [
        "##### Requests over time, by site", "##### Top values of status", "##### Newest rows",
    ]  # fmt: skip

    of_one_site = show("others", tmp_path, site="blog")
    assert table(of_one_site, "status", "requests").values.tolist() == [["404", 4]]


def test_no_table_of_another_package(tmp_path: Path) -> None:
    assert [t.value for t in show("others", tmp_path).text] == ["No installed package declares a table."]


def test_pipeline_without_late_or_rejected_lines(tmp_path: Path) -> None:
    at = NOW
    tables.write(tmp_path, "quality/progress", [tables.progress("requests", 1, at)])
    tables.write(tmp_path, "quality/accounts", [tables.account(1, at, 10, 0, 0, 0)])
    page = show("pipeline", tmp_path)
    assert [e.value for e in (*page.error, *page.warning)] == []


def test_a_corrupt_table_is_a_message_in_its_panels_only(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])
    log = tmp_path / "tables/gold/pages/_delta_log/00000000000000000000.json"
    log.write_bytes(b"{broken")

    page = show("pages", tmp_path)

    assert len(page.warning) == 1 and "pages cannot be read" in page.warning[0].value.replace("\\", "")
    assert len(page.get("vega_lite_chart")) == 2


@pytest.mark.parametrize("page", ["countries", "live"])
def test_visitors_of_no_known_country_leave_the_map_empty(page: str, tmp_path: Path) -> None:
    """As on a server that only its own network uses."""
    tables.write_gold(tmp_path, [Request(NOW - timedelta(minutes=2), "v", country="ZZ")])

    at = show(page, tmp_path)

    assert not at.error and not at.warning
    assert any("1" in metric.value for metric in at.metric if "Visitors" in metric.label)

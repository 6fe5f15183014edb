"""Figures of errors, bots and suspected visitors, compared with a recount of the same rows with pandas."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from app.dashboard.panels import ai
from tests.app import lakehouse
from tests.app.lakehouse import START
from tests.app.recounted import Noted, Scene, inside, people, select
from tidemark.figures import bots, errors, networks, sources, suspected
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.rows import Rows


@pytest.mark.parametrize("filters", [(), ("status=404",), ("country=DE",)])
@pytest.mark.parametrize("recount", [False, True])
def test_errors(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50), recount=recount)
    kept = inside(lines, selection, *filters)
    failed = kept[kept["status"] >= 400]

    result = errors.errors(rows, selection)
    broken = errors.errors(rows, selection, (500, 599), limit=1)

    wanted = {
        (path, status): (len(f), people(f), f["event_time"].max())
        for (path, status), f in failed.groupby([failed["path"].fillna(""), "status"])
    }
    assert {(p, s): tuple(rest) for p, s, *rest in result.itertuples(index=False)} == wanted
    most = result[result["status"] >= 500].head(1)
    assert broken.to_dict("records") == most.to_dict("records")
    statuses = errors.statuses(rows, selection).set_index("status")["requests"].to_dict()
    assert statuses == kept["status"].value_counts().to_dict()


def test_own_pages_come_first_among_the_referrers_of_a_broken_link(scene: Scene) -> None:
    rows, lines = scene
    selection = select(hours=None, site="a.example")

    result = errors.referrers(rows, selection, ["/missing"])

    kept = inside(lines, selection)
    kept = kept[(kept["path"] == "/missing") & kept["referrer"].notna()]
    assert (
        dict(zip(result["referrer"], result["requests"], strict=True))
        == kept["referrer"].value_counts().to_dict()
    )
    assert list(result["own"]) == [True, False, False]
    assert result["referrer"].iloc[0] == "https://a.example/a"
    every = errors.referrers(rows, selection)
    assert every[every["path"] == "/missing"].to_dict("records") == result.to_dict("records")


def test_hours_and_weekdays_are_those_of_the_zone(scene: Scene) -> None:
    rows, lines = scene
    selection = replace(select(hours=None), zone="Asia/Kathmandu")  # 5 h 45 min ahead

    result = errors.by_hour_and_weekday(rows, selection)

    local = lines["event_time"].dt.tz_convert("Asia/Kathmandu")
    wanted = lines.groupby([local.dt.weekday, local.dt.hour]).size()
    assert {(w, h): n for w, h, n, *_ in result.itertuples(index=False)} == wanted.to_dict()
    assert result["status_4xx"].sum() == (lines["status"] // 100 == 4).sum()


@pytest.mark.parametrize("filters", [(), ("bot_kind=ai-crawler",), ("method=GET",), ("verified=forged",)])
@pytest.mark.parametrize("recount", [False, True])
def test_bots(scene: Scene, filters: tuple[str, ...], recount: bool) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50), recount=recount)
    kept = lines[(lines["event_time"] >= selection.start) & (lines["event_time"] < selection.end)]
    kept = kept[kept["bot_kind"] == "ai-crawler"] if "bot_kind=ai-crawler" in filters else kept
    kept = kept[kept["method"] == "GET"] if "method=GET" in filters else kept
    kept = kept[kept["bot_verified"] == "forged"] if "verified=forged" in filters else kept

    result = bots.bots(rows, selection)

    def counts(b: pd.DataFrame) -> tuple[int, ...]:
        robots, failed = b["path"] == "/robots.txt", b["status"] >= 400
        page = (b["method"] == "GET") & ~b["asset"] & ~failed & ~robots
        return len(b), page.sum(), b["bytes"].sum(), robots.sum(), failed.sum(), b["disallowed"].sum()

    who = ["bot_name", "bot_kind", "bot_verified"]
    wanted = {key: counts(b) for key, b in kept[kept["bot"]].fillna({"bot_verified": ""}).groupby(who)}
    assert {tuple(row[1:4]): tuple(row[4:10]) for row in result.itertuples()} == wanted
    assert result["requests_share"].sum() == pytest.approx(kept["bot"].mean())
    read = bots.read_by(rows, replace(selection, start=START, end=None), ["GPTBot"])
    every = lines[lines["bot_name"].eq("GPTBot")]
    every = every[every["method"] == "GET"] if "method=GET" in filters else every
    every = every[every["bot_verified"] == "forged"] if "verified=forged" in filters else every
    every = every[every["bot_kind"] == "ai-crawler"] if "bot_kind=ai-crawler" in filters else every
    assert read.set_index("path")["requests"].to_dict() == every["path"].fillna("").value_counts().to_dict()


def test_where_pretenders_come_from(scene: Scene) -> None:
    rows, lines = scene
    selection = select(hours=(5, 50))
    forged = inside(lines, selection)
    forged = forged[forged["bot_verified"] == "forged"].fillna({"network": "", "as_org": ""})
    by = ["bot_name", "network", "as_org"]
    result = bots.pretenders(rows, selection).set_index(by)
    assert result["requests"].to_dict() == forged.groupby(by).size().to_dict()
    assert result["addresses"].to_dict() == forged.groupby(by)["client_ip"].nunique().to_dict()


@pytest.mark.parametrize("filters", [(), ("network=hosting",), ("as_org!=Example Hosting",), ("city=Oslo",)])
def test_networks(scene: Scene, filters: tuple[str, ...]) -> None:
    rows, lines = scene
    selection = select(*filters, hours=(5, 50))
    kept = inside(lines, selection, *filters).fillna({"network": "", "as_org": ""})
    noted = Noted(rows.reader)

    result = networks.networks(noted, selection)

    wanted = {
        key: (len(part), part["pageview"].sum(), people(part))
        for key, part in kept.groupby(["network", "as_org"])
    }
    assert {(n, o): tuple(rest) for n, o, *rest in result.itertuples(index=False)} == wanted
    assert set(noted.tables) == {"silver/requests" if "city=Oslo" in filters else "gold/networks"}
    kinds = networks.over_time(rows, selection, 3600).groupby("network")["requests"].sum()
    assert kinds.to_dict() == {k: n for k, n in kept.groupby("network").size().items() if k}
    cities = networks.cities(rows, selection).groupby("city")["requests"].sum()
    assert cities.to_dict() == kept[~kept["bot"] & kept["city"].notna()].groupby("city").size().to_dict()


@pytest.mark.parametrize("recount", [False, True])
def test_what_ai_operators_crawl_and_send(scene: Scene, recount: bool) -> None:
    rows, lines = scene
    selection = select(hours=None, recount=recount)
    pages = (lines["method"] == "GET") & ~lines["asset"] & (lines["status"] < 400)
    pages &= (lines["path"] != "/robots.txt") & (lines["bot_name"] == "GPTBot")
    genuine = int((pages & (lines["bot_verified"] == "verified")).sum())
    assisted = sources.sources(rows, selection, ["channel"]).set_index("channel")["sessions"]["ai assistants"]

    [openai] = bots.ai_operators(rows, selection).to_dict("records")
    assert openai == {
        "operator": "OpenAI", "bots": ["GPTBot"], "crawled": genuine, "referred": assisted,
        "ratio": genuine / assisted,
    }  # fmt: skip
    kept = selection.having(*ai.filters_of(rows, "OpenAI", openai["bots"]))
    assert bots.ai_operators(rows, kept)["crawled"].tolist() == [genuine]
    kept = selection.having(*ai.filters_of(rows, "OpenAI", []))
    assert bots.ai_operators(rows, kept)["referred"].tolist() == [assisted]
    over_time = bots.ai_operator_over_time(rows, selection, 3600, "OpenAI")
    assert over_time[["crawled", "referred"]].sum().tolist() == [genuine, assisted]
    wanted = lines[(lines["bot_name"] == "GPTBot") & (lines["bot_verified"] != "forged")]
    read = bots.read_by_operator(rows, selection, ["GPTBot"], 100).set_index("path")["requests"]
    assert read.to_dict() == wanted.groupby(wanted["path"].fillna("").str[:200]).size().to_dict()


def day(visitor: str, **counts: int) -> dict[str, object]:
    """A row of silver.visitor_days; `minute` is the most pageviews in one."""
    zeros = dict.fromkeys(("requests", "pageviews", "assets", "not_found", "robots_txt", "hosting"), 0)
    minute = counts.pop("minute", 0)
    minutes = [(5, 1), (77, minute)] if minute else []
    return {"site": "s", "day": START, "visitor_id": visitor, **zeros, **counts, "minutes": minutes}


def test_visitors_that_behave_like_bots_are_suspected(tmp_path: Path) -> None:
    days = [
        day("robots", requests=1, robots_txt=1),
        day("reader", requests=30, pageviews=30, minute=20),
        day("almost", requests=29, pageviews=29, minute=10),
        day("fast", requests=90, pageviews=80, assets=1, minute=61),
        day("quick", requests=90, pageviews=80, assets=1, minute=60),
        day("lost", requests=10, not_found=10),
        day("half", requests=11, not_found=10),
        day("alone", requests=40, pageviews=40, minute=1, hosting=40) | {"site": "text"},
        day("rented", requests=3, pageviews=3, minute=1, hosting=3),
        day("brief", requests=2, pageviews=2, minute=1, hosting=2),
        day("whole", requests=9, pageviews=3, assets=1, minute=1, hosting=9),
        day("unknown", requests=3, pageviews=3, minute=1) | {"hosting": None},
        day("both", requests=70, pageviews=70, robots_txt=2, minute=65),
        day("later", requests=1, robots_txt=1) | {"day": START + timedelta(days=1)},
    ]
    lakehouse.write(tmp_path, "silver.visitor_days", days)
    rows = Rows(DeltaReader(tmp_path))

    result = suspected.suspected(rows, select(hours=(3, 5)))

    assert dict(zip(result["visitor_id"], result["reasons"], strict=True)) == {
        "robots": "a", "reader": "b", "fast": "c", "lost": "d", "both": "a b c", "rented": "e",
    }  # fmt: skip
    every = sum(d["requests"] for d in days) - 1  # type: ignore[misc]
    assert suspected.people(rows, select(hours=(3, 5)))["requests"].item() == every
    beside = suspected.beside(rows, select(hours=None))
    assert beside[["visitors", "without_visitors"]].values.tolist() == [
        [len(days) - 1, len(days) - 7],
        [1, 0],
    ]
    assert beside["without_requests"].tolist() == [every - result["requests"].sum(), 0]
    reasons = suspected.by_reason(result).set_index("reason")
    assert reasons["days"].to_dict() == {"a": 2, "b": 2, "c": 2, "d": 1, "e": 1}
    assert reasons["pageviews"]["e"] == 3


def test_suspected_days_of_a_country(scene: Scene) -> None:
    rows, lines = scene
    robots = lines[~lines["bot"] & (lines["path"] == "/robots.txt")]
    wanted = (
        robots[robots["country"] == "US"].groupby(["visitor_id", robots["event_time"].dt.floor("D")]).size()
    )

    result = suspected.suspected(rows, select("country=US", hours=None))

    assert set(zip(result["visitor_id"], result["day"], strict=True)) >= set(wanted.index)
    assert set(result["visitor_id"]) <= set(lines[lines["country"] == "US"]["visitor_id"])

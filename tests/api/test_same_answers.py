"""Every report answers the same questions with the same figures wherever it is asked, as every role."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from datetime import date
from html import unescape
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from app.dashboard.data import rows_of
from tests.api.clients import mcp_client
from tests.api.conftest import ARGUMENTS, MINE, OTHER, Server
from tests.app.showing import show, table
from tidemark import reports
from tidemark.api.openapi import API
from tidemark.cli import tidemark
from tidemark.figures import periods
from tidemark.figures.comparison import Change
from tidemark.figures.declarations import declarations
from tidemark.figures.digest import MOST_ROWS, Figure, Row
from tidemark.figures.permitted import permitted
from tidemark.figures.question import Values, question
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import json_text, report
from tidemark.figures.report_specs import BY_NAME
from tidemark.figures.right import EVERYTHING, Right, Role
from tidemark.figures.spec import FILTER, ReportSpec
from tidemark.figures.text import csv
from tidemark.home import Home
from tidemark.operate.mails import words
from tidemark.operate.mails.sending import mail_of
from tidemark.settings import Settings
from tidemark.settings.mails import Mailing

FILTERS = (
    "device=mobile",
    "country=DE|US",
    "path^/a",
    "status!=404",
    "bot_kind=",
    "source~oo",
    "entry_page=/",
)
ZONES = ("Europe/Berlin", "Asia/Kathmandu", "America/New_York")
OWN = {"by": ("day", "week", "month"), "from_page": ("/", "/a"), "as_of": ("2026-03-10", "2026-03-30T10:00")}
ROLES: Sequence[tuple[Role, tuple[str, ...]]] = (
    ("viewer", ()), ("viewer", (MINE,)), ("analyst", (OTHER,)), ("analyst", ()),
)  # fmt: skip


def random_question(spec: ReportSpec, chance: random.Random) -> dict[str, list[str]]:
    """Parameters of a report: any range, of whole days or not, zone and filters, and its own."""
    days = sorted(chance.sample(range(8, 14), 2))
    time = chance.choice(["", f"T{chance.randrange(24):02}:{chance.randrange(60):02}"])
    values = {name: [f"2026-03-{day:02}{time}"] for name, day in zip(("from", "to"), days, strict=True)}
    if chance.random() < 0.5:
        values["tz"] = [chance.choice(ZONES)]
    if FILTER in spec.common:
        values["filter"] = chance.sample(FILTERS, chance.choice([0, 1, 2]))
    for parameter in spec.parameters:
        if parameter.argument:
            values[parameter.name] = [ARGUMENTS[spec.name]]
        elif parameter.name in OWN and chance.random() < 0.7:
            values[parameter.name] = [chance.choice(OWN[parameter.name])]
    return {name: each for name, each in values.items() if each}


def of_command(home: Path, spec: ReportSpec, values: Values, form: str) -> str:
    arguments = ["report", spec.name, "--home", str(home), f"--{form}"]
    for parameter in spec.all_parameters:
        for value in values.get(parameter.name, ()):
            arguments += [value] if parameter.argument else [parameter.option, value]
    return CliRunner().invoke(tidemark, arguments, catch_exceptions=False).stdout


@pytest.mark.parametrize("spec", BY_NAME.values(), ids=BY_NAME)
def test_every_surface_gives_the_same_answer(server: Server, home: Path, spec: ReportSpec) -> None:
    chance = random.Random(spec.name)
    reader = DeltaReader(home)

    def of_page(right: Right, values: Values) -> Any:
        """By the rows that a page reads."""
        rows = rows_of(permitted(reader, right))
        return report(rows, question(spec.name, values, declarations(rows, right)))

    async def compared() -> None:
        for role, sites in ROLES:
            right = Right.of(role, sites)
            own = random_question(spec, chance) | (
                {"site": [chance.choice(sites)]} if sites and chance.random() < 0.5 else {}
            )
            expected = of_page(right, own)
            if sites:
                of_site = of_page(EVERYTHING, own | {"site": list(sites)})
                assert known_of_people(expected.json) == known_of_people(of_site.json)
            client = server.client(role, *sites)
            address = f"{API}/reports/{spec.name}"
            assert client.get(address, params=own).text == json_text(expected.json)
            assert client.get(address, params=own | {"format": "csv"}).content == csv(expected.table)
            async with mcp_client(server, client.headers["authorization"]) as session:
                result = await session.call_tool(spec.name, flat(own))
            assert not result.is_error, result.content
            assert result.structured_content == json.loads(json_text(expected.json))

    asyncio.run(compared())
    values = random_question(spec, chance)
    expected = of_page(Right("analyst"), values)
    assert of_command(home, spec, values, "json") == json_text(expected.json)
    assert of_command(home, spec, values, "csv").encode() == csv(expected.table)
    flattened = flat(values)
    start, end = flattened.pop("from"), flattened.pop("to")
    answer = reports.ask(spec.name, home=home, start=start, end=end, **flattened)
    assert answer.json == expected.json
    assert answer.pandas().equals(expected.table) and answer.arrow().num_rows == len(expected.table)


def known_of_people(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the days of single visitors, which viewers do not see."""
    return {name: each for name, each in answer.items() if name != "suspected"}


def flat(values: Values) -> dict[str, Any]:
    """Single values of parameters that are not repeated."""
    return {name: list(each) if name == FILTER.name else each[0] for name, each in values.items()}


# Figures of a mail: their names, reports and kinds.
IN_MAIL = {
    "Visitors": ("overview", "visitors", "count"), "Pageviews": ("overview", "pageviews", "count"),
    "Sessions": ("overview", "sessions", "count"), "Bounce rate": ("overview", "bounce_rate", "share"),
    "Requests": ("overview", "requests", "count"), "Response time, p95": ("latency", "p95", "seconds"),
}  # fmt: skip
# Its lists: their reports, labels and counts.
LISTED = {
    "Pages": ("pages", "{path}", "pageviews"), "Countries": ("countries", "{country}", "visitors"),
    "Errors": ("errors", "{status} {path}", "requests"),
}  # fmt: skip
LISTED_ROW = re.compile(r"(.+?) +([\d,]+)(?:  \S+)?")


@pytest.mark.parametrize("every", periods.EVERY)
def test_a_mail_has_the_figures_of_the_reports(home: Path, every: periods.Every) -> None:
    """As a viewer of its site gets them, of a random day, week or month with random filters."""
    chance = random.Random(every)
    site = chance.choice(["", MINE, OTHER])
    filters = tuple(chance.sample(FILTERS[:4], chance.choice([0, 1])))
    period = periods.of(every, date(2026, 3, chance.randrange(9, 12)), chance.choice(ZONES))
    settings = Settings.of(home=home)
    mail = mail_of(settings, Home.of(settings).on_files().store, "r", Mailing(site, filter=filters), period)
    reader = permitted(DeltaReader(home), Right.of("viewer", [site] if site else []))
    rows = rows_of(reader)

    def parameters(of: str, period: periods.Period = period, **own: list[str]) -> dict[str, Any]:
        values = {
            "from": [period.start.isoformat()],
            "to": [period.end.isoformat()],
            "tz": [period.zone],
            **own,
        }
        values |= {"site": [site]} if site else {}
        values |= {"filter": list(filters)} if filters and FILTER in BY_NAME[of].common else {}
        return report(rows, question(of, values, declarations(rows, reader.right))).json

    shown = {each.partition("\n")[0]: each.splitlines()[1:] for each in mail.text.split("\n\n")}
    figures = next(each for each in mail.text.split("\n\n") if each.startswith("  Visitors"))
    in_html = re.findall(r">([^<>]+)<", unescape(mail.html.replace("\n", "")))
    for name, (of, figure, kind) in IN_MAIL.items():
        change = Change(*(parameters(of, each)[figure] for each in (period, period.before)))
        value, moved = words.value(Figure(name, change, kind)), words.change(change, kind)
        assert f"  {name:<20}{value:>12}  {moved}".rstrip() in figures.splitlines()
        assert (name, value) in pairwise(in_html)
    failed = sum(row["requests"] for row in parameters("errors")["rows"])
    assert re.search(rf"Failed requests +{failed:,}( |$)", figures, re.MULTILINE)

    for heading, (of, label, count) in LISTED.items():
        listed = parameters(of)["rows"][:MOST_ROWS]
        expected = [
            (words.label(heading, Row(label.format(**row), 0, Change(None, None))), f"{row[count]:,}")
            for row in listed
        ]
        matches = [LISTED_ROW.fullmatch(line.strip()) for line in shown[heading]]
        assert [each and each.groups() for each in matches] == expected
        assert set(expected) <= set(pairwise(in_html))
    [(title, moved)] = [each for each in shown.items() if each[0].startswith("What moved most: Pageviews")]
    explained = parameters("explain", name=["pageviews"])
    assert title.endswith(words.change(Change(explained["now"], explained["before"])))
    known = {f"  {': '.join(words.moved(SimpleNamespace(**row)))}" for row in explained["rows"]}
    assert moved and set(moved) <= known
    began = [row for row in parameters("alerts")["alerts"] if row["window_start"] >= period.start.isoformat()]
    assert ("Began in this period" in shown) == bool(began)


def test_a_page_shows_the_same_rows(server: Server, home: Path) -> None:
    shown = table(show("bots", home, preset="all"), "bot_name", "requests")
    params = {"from": "2026-01-01", "to": "2027-01-01"}
    rows = server.client().get(f"{API}/reports/bots", params=params).json()["rows"]
    assert shown.values.tolist() == [[row[name] for name in shown.columns] for row in rows]
    assert len(rows) > 1

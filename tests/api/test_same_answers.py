"""Every report answers the same questions with the same figures wherever it is asked, as every role."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.dashboard.data import Remembered
from tests.api.clients import mcp_client
from tests.api.conftest import ARGUMENTS, MINE, OTHER, Server
from tests.app.showing import show, table
from tidemark import reports
from tidemark.api.openapi import API
from tidemark.cli import tidemark
from tidemark.figures.declarations import declarations
from tidemark.figures.permitted import permitted
from tidemark.figures.question import Values, question
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.report import json_text, report
from tidemark.figures.report_specs import BY_NAME
from tidemark.figures.right import EVERYTHING, Right, Role
from tidemark.figures.spec import FILTER, ReportSpec
from tidemark.figures.text import csv

FILTERS = (
    "device=mobile",
    "country=DE|US",
    "path^/a",
    "status!=404",
    "bot_kind=",
    "source~oo",
    "entry_page=/",
)
OWN = {"by": ("day", "week", "month"), "from_page": ("/", "/a"), "as_of": ("2026-03-10", "2026-03-30T10:00")}
ROLES: Sequence[tuple[Role, tuple[str, ...]]] = (
    ("viewer", ()), ("viewer", (MINE,)), ("analyst", (OTHER,)), ("analyst", ()),
)  # fmt: skip


def random_question(spec: ReportSpec, chance: random.Random) -> dict[str, list[str]]:
    """Parameters of a report: any range, zone, site and filters, and its own."""
    days = sorted(chance.sample(range(8, 14), 2))
    values = {name: [f"2026-03-{day:02}"] for name, day in zip(("from", "to"), days, strict=True)}
    if chance.random() < 0.5:
        values["tz"] = [chance.choice(["Europe/Berlin", "Asia/Kathmandu", "America/New_York"])]
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
    values = random_question(spec, chance)

    def of_page(right: Right, values: Values) -> Any:
        """By the rows that a page reads."""
        rows = Remembered(permitted(reader, right))
        return report(rows, question(spec.name, values, declarations(rows, right)))

    async def compared() -> None:
        for role, sites in ROLES:
            right = Right.of(role, sites)
            own = values | ({"site": [chance.choice(sites)]} if sites and chance.random() < 0.5 else {})
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


def test_a_page_shows_the_same_rows(server: Server, home: Path) -> None:
    shown = table(show("bots", home, preset="all"), "bot_name", "requests")
    params = {"from": "2026-01-01", "to": "2027-01-01"}
    rows = server.client().get(f"{API}/reports/bots", params=params).json()["rows"]
    assert shown.values.tolist() == [[row[name] for name in shown.columns] for row in rows]
    assert len(rows) > 1

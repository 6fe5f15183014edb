"""When a panel is drawn again: its browser asks for the states of the tables that it was drawn from."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from app.dashboard import data, pulse
from app.dashboard.pulse import Pulse
from tests.app import tables
from tests.app.showing import show
from tests.app.tables import Request
from tidemark.figures.permitted import permitted
from tidemark.figures.query import Query, query, total
from tidemark.figures.reader_delta import DeltaReader
from tidemark.figures.recent import Recent
from tidemark.figures.right import Right
from tidemark.figures.rows import Rows

NOW = datetime.now(UTC)
TRAFFIC = "gold/traffic"


def test_a_state_changes_with_its_table_and_with_the_settings(tmp_path: Path) -> None:
    reader = DeltaReader(tmp_path)
    assert (pulse.state(reader, TRAFFIC), pulse.state(reader, pulse.SETTINGS)) == ("", "")

    states = []
    for number in (1, 2):
        tables.write_gold(tmp_path, [Request(NOW, f"v{i}") for i in range(number)])
        states.append(pulse.state(reader, TRAFFIC))
    (tmp_path / "tidemark.toml").touch()

    assert len({"", *states}) == 3
    assert states[1] == pulse.state(reader, TRAFFIC), "a look changes nothing"
    assert pulse.state(reader, pulse.SETTINGS)


def test_viewers_share_a_look_and_nothing_else_is_looked_at(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])
    looks: list[str] = []

    class Counting(DeltaReader):
        def version(self, table: str) -> Any:
            looks.append(table)
            return super().version(table)

    reader, shared = Counting(tmp_path), Pulse()
    assert shared.states(reader, [TRAFFIC]) == {}, "no panel has shown it"
    shared.show([TRAFFIC])
    wanted = {TRAFFIC: pulse.of_version(DeltaReader(tmp_path).version(TRAFFIC))}
    for _ in range(20):
        assert shared.states(reader, [TRAFFIC, "gold/../../secrets"]) == wanted
    assert looks == [TRAFFIC]


def test_a_viewer_learns_nothing_of_closed_tables(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])
    every = [TRAFFIC, "quality/access", "quality/progress", "quality/alert_rules", pulse.SETTINGS]
    for table in every[1:3]:
        tables.write(tmp_path, table, [{"flow": "activity"}])
    reader, shared = DeltaReader(tmp_path), Pulse()
    shared.show(every)
    of_site = shared.states(permitted(reader, Right.of("viewer", ["a.example"])), every)
    assert set(of_site) == {*every} - {"quality/access"}
    assert of_site["quality/alert_rules"] == "", "it does not exist"
    assert "quality/access" in shared.states(reader, every)
    known = reader.version(TRAFFIC)
    assert known and f"{known.committed_at.timestamp():.0f}" not in of_site[TRAFFIC]


def test_a_panel_follows_the_tables_that_it_was_drawn_from(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])

    page = show("countries", tmp_path)

    known = DeltaReader(tmp_path)
    result = [json.loads(each.proto.json) for each in page.get("bidi_component")]
    panels = {each["panel"]: each for each in result if "panel" in each}
    panel = panels["countries-map_panel"]
    country = "gold/visitors_by_country"
    assert panel["tables"][country] == pulse.of_version(known.version(country)) != ""
    assert panel["at"] < panel["until"] <= panel["at"] + 300
    assert panels["countries-device_panel"]["tables"]["gold/audience"] == "", "a table that is not there yet"


def test_panels_wait_longer_while_all_viewers_together_take_too_much() -> None:
    pace = 1.0
    for _ in range(50):
        pace = pulse.paced(pace, cores=2.0 / pace)
    assert 2.0 / pace < 1.05 * pulse.CORES, "it settles where they take their share"
    for _ in range(50):
        pace = pulse.paced(pace, cores=0.1)
    assert pace == 1.0


def test_rows_are_kept_for_all_viewers_until_their_table_changes(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])
    reads: list[str] = []

    class Counting(DeltaReader):
        def arrow(self, q: Query) -> Any:
            reads.append(q.table)
            return super().arrow(q)

    reader, wanted = Counting(tmp_path), query(TRAFFIC, {"requests": total("requests")})
    assert [data.rows_of(reader)(wanted)["requests"].item() for _ in range(3)] == [1, 1, 1]
    tables.write_gold(tmp_path, [Request(NOW, "v"), Request(NOW, "w")])
    assert data.rows_of(reader)(wanted)["requests"].item() == 2
    assert reads == [TRAFFIC, TRAFFIC]


def test_results_are_kept_until_their_table_changes_and_every_panel_has_a_copy(tmp_path: Path) -> None:
    tables.write_gold(tmp_path, [Request(NOW, "v")])
    reader, wanted = DeltaReader(tmp_path), query(TRAFFIC, {"requests": total("requests")})
    made: list[int] = []

    def result() -> pd.DataFrame:
        def make(rows: Rows) -> pd.DataFrame:
            made.append(int(rows(wanted)["requests"].item()))
            return rows(wanted)

        return data.remembered(reader, [TRAFFIC], "requests", make)

    result()["requests"] = 7
    assert result()["requests"].item() == 1 and made == [1]
    tables.write_gold(tmp_path, [Request(NOW, "v"), Request(NOW, "w")])
    assert result()["requests"].item() == 2 and made == [1, 2]


def test_a_value_is_made_once_for_all_that_ask_for_it() -> None:
    cache: Recent[str] = Recent(bytes=50)
    made: list[str] = []

    def make() -> str:
        time.sleep(0.05)
        made.append("value")
        return "value"

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(cache.made, "key", make, len) for _ in range(4)]
    assert [each.result() for each in asked] == ["value"] * 4 and made == ["value"]
    assert cache.made("long", lambda: "a longer value", len, 10) == "a longer value"
    assert cache.get("long") is None and cache.get("key") == "value"


def test_what_is_remembered_is_bounded_by_its_bytes() -> None:
    cache: Recent[str] = Recent(bytes=50)
    for key in range(9):
        cache.put(key, f"value {key}", 10)
        assert cache.get(0) == "value 0", "what is used stays"
    assert [key for key, _ in cache.items()] == [5, 6, 7, 8, 0]
    cache.put("too large", "value", 51)
    cache.put(8, "larger", 20)
    assert cache.items() == [(6, "value 6"), (7, "value 7"), (0, "value 0"), (8, "larger")]

"""Changed own hosts and trusted proxies are due until history has them; the note says what that changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bronze import access_log
from silver import rejected, requests
from tests.operate.quality.rows import good, rows
from tidemark.contract.quality_tables import SITES
from tidemark.home import Home
from tidemark.operate import backfill, notes, site_settings, status
from tidemark.operate.difference import Changed, Revalued
from tidemark.settings import Settings
from tidemark.settings.sites import SiteSettings
from tidemark.store.deltars import DeltaRsStore
from tidemark.store.lakehouse import of as lakehouse_of
from tidemark.stream import schema_check, table_state

LINES = access_log.TABLE
VALIDATED = [requests.TABLE, rejected.TABLE]
UNSET, SHOP, WWW = SiteSettings(), SiteSettings(hosts=("shop.example",)), SiteSettings(hosts=("www.example",))
CHANGE = "sites.shop.hosts was unset, now shop.example"


class Scenario:
    """A home whose pipeline has read lines of shop."""

    def __init__(self, directory: Path, lines: int = 3) -> None:
        self.settings = Settings.of(home=directory / "home", visitor_key="of a test")
        self.lakehouse = lakehouse_of(self.settings)
        self.store = DeltaRsStore(self.lakehouse)
        for table in (SITES, LINES):
            self.store.ensure(table)
        self.store.append_arrow(SITES, rows(SITES, good(SITES, 0, site="shop", accepted=2, rejected=1)))
        for number in range(lines):
            self.store.append_arrow(LINES, rows(LINES, good(LINES, number)))
        schema_check.note(self.pipeline.only(VALIDATED))

    def start(self, **sites: SiteSettings) -> None:
        self.settings = replace(self.settings, sites=sites)
        site_settings.settle(self.pipeline)
        schema_check.note(self.pipeline.only(VALIDATED))

    def swap(self) -> None:
        """History has the hosts."""
        table_state.record_states(self.lakehouse, schema_check.rebuilt(self.settings, VALIDATED))

    def fill(self, *changed: Changed) -> None:
        self.swap()
        site_settings.complete(self.pipeline, changed)

    @property
    def due(self) -> bool:
        return site_settings.due(self.pipeline)

    @property
    def pipeline(self) -> Home:
        return Home.of(self.settings, [LINES, *VALIDATED])

    @property
    def noted(self) -> list[str]:
        return [note.text for note in notes.listed(self.store)]


@pytest.fixture
def home(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


def test_they_are_due_until_history_has_them(home: Scenario) -> None:
    home.start()
    assert not home.due and home.noted == []
    for _ in range(2):  # also after a kill
        home.start(shop=SHOP)
        assert home.due
        assert home.noted == [f"Own hosts of shop: …; {CHANGE}"]
    message = "own hosts of shop are not applied to history yet: not begun"
    assert message in status.lines(status.describe(home.settings))
    home.fill(
        Revalued("silver.requests", "channel", 1_200, 3_400), Revalued("silver.requests", "source", 7, 3_400)
    )
    assert not home.due and backfill.settings_progress(home.pipeline) == {}
    changed = "1,200 lines of 3,400 have another channel; 7 lines of 3,400 have another source"
    assert home.noted == [f"Own hosts of shop: {changed}; {CHANGE}"]
    [note] = notes.listed(home.store)
    assert (note.site, note.cause, note.remakes) == ("shop", "settings", True)
    assert (note.about, note.state, note.details) == ("sites", "applied", changed)
    assert note.settings == {"sites.shop.hosts": ("", "shop.example")}
    home.start(shop=SHOP)
    assert not home.due and len(home.noted) == 1


def test_a_kill_before_the_note_leaves_it_to_the_next_start(home: Scenario) -> None:
    home.start(shop=SHOP)
    home.swap()
    assert not home.due
    assert backfill.pending(home.pipeline)  # the next change waits for the note
    home.start(shop=SHOP)
    assert not backfill.pending(home.pipeline)
    assert home.noted == [f"Own hosts of shop: applied to history; {CHANGE}"]
    home.start(shop=WWW)
    home.fill()
    assert home.noted[1:] == [
        "Own hosts of shop: no line has another value; sites.shop.hosts was shop.example, now www.example"
    ]


def test_a_change_that_is_taken_back_is_due_for_the_lines_that_came_meanwhile(home: Scenario) -> None:
    home.start(shop=SHOP)
    assert not notes.listed(home.store)[0].remakes
    home.start(shop=WWW)
    assert home.noted == ["Own hosts of shop: …; sites.shop.hosts was unset, now www.example"]
    for _ in range(2):
        home.start()
        assert home.due
        assert home.noted == ["Own hosts of shop: …; sites.shop.hosts was unset, now unset again"]
    home.fill(Revalued("silver.requests", "channel", 7, 10))
    assert not home.due
    assert home.noted == [
        "Own hosts of shop: 7 lines of 10 have another channel; sites.shop.hosts was unset, now unset again"
    ]
    home.start()
    assert not home.due and len(home.noted) == 1


def test_a_site_without_lines_has_no_history(home: Scenario) -> None:
    home.start(blog=replace(SHOP, timezone="Europe/Berlin"))
    assert not home.due and home.noted == []
    assert schema_check.unapplied(home.pipeline.only(VALIDATED)) == {}
    home.start(blog=SHOP, shop=SHOP)
    assert home.due and home.noted == [f"Own hosts of shop: …; {CHANGE}"]


def test_a_site_whose_first_batch_was_interrupted_has_lines(home: Scenario) -> None:
    """A kill came after the lines, and before quality.sites."""
    table = requests.TABLE
    home.store.ensure(table)
    home.store.append_arrow(table, rows(table, good(table, 0, site="blog")))
    home.start(blog=SHOP, news=WWW)
    assert home.due and home.noted == [f"Own hosts of blog: …; {CHANGE.replace('shop.hosts', 'blog.hosts')}"]


def test_other_changed_settings_of_lines_are_not_applied_with_them(
    home: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    home.start(shop=replace(UNSET, timezone="Europe/Berlin"))
    assert home.noted == []
    home.start(shop=replace(SHOP, timezone="Europe/Berlin"))
    why = "sites.shop.timezone changed, too: `tidemark rebuild all` applies all of them"
    assert not home.due and why in caplog.text
    [note] = notes.listed(home.store)
    assert note.text == f"Own hosts of shop: not applied to history, because {why}; {CHANGE}"
    assert not note.remakes
    message = f"own hosts of shop are not applied to history yet: {why}"
    assert message in status.lines(status.describe(home.settings))
    home.swap()  # by that command
    home.start(shop=replace(SHOP, timezone="Europe/Berlin"))
    assert home.noted == []


def test_trusted_proxies_are_applied_like_own_hosts(home: Scenario) -> None:
    cloudflare = "sites.shop.trusted_proxies was unset, now cloudflare, 10.0.0.0/8"
    home.start(shop=replace(UNSET, trusted_proxies=("cloudflare", "10.0.0.0/8")))
    assert home.due and home.noted == [f"Trusted proxies of shop: …; {cloudflare}"]
    message = "trusted proxies of shop are not applied to history yet: not begun"
    assert message in status.lines(status.describe(home.settings))
    home.start(shop=replace(SHOP, trusted_proxies="none"))
    changes = f"{CHANGE}; sites.shop.trusted_proxies was unset, now none"
    assert home.noted == [f"Own hosts and trusted proxies of shop: …; {changes}"]
    home.fill(Revalued("silver.requests", "client_ip", 5, 9))
    changed = "5 lines of 9 have another client_ip"
    assert home.noted == [f"Own hosts and trusted proxies of shop: {changed}; {changes}"]
    assert notes.listed(home.store)[0].remakes
    assert not home.due and not backfill.pending(home.pipeline)
    home.start(shop=SHOP)
    home.swap()
    home.start(shop=SHOP)  # a kill came before the note
    change = "sites.shop.trusted_proxies was none, now unset"
    assert home.noted[1:] == [f"Trusted proxies of shop: applied to history; {change}"]


def test_lines_that_are_gone_keep_their_rows(tmp_path: Path) -> None:
    """Their retention is over, or a damage took them."""
    home = Scenario(tmp_path, lines=2)
    home.start(shop=SHOP)
    assert not home.due
    assert "bronze.access_log lacks lines that were read" in home.noted[0]


def test_a_home_that_does_not_say_the_settings_of_history_begins_with_those_of_now(tmp_path: Path) -> None:
    home = Scenario(tmp_path)
    (home.settings.checkpoints / "states.json").unlink()
    table_state.record_states(
        home.lakehouse, {"silver.requests": table_state.TableState({"visitor key": "of before"})}
    )
    home.start(shop=SHOP)
    assert not home.due and home.noted == []


def test_robots_txt_is_applied_like_own_hosts(home: Scenario) -> None:
    home.start(shop=SiteSettings(robots="robots.txt"))
    change = "sites.shop.robots was unset, now robots.txt"
    assert home.due and home.noted == [f"Robots.txt of shop: …; {change}"]
    home.fill(Revalued("silver.requests", "disallowed", 5, 9))
    assert home.noted == [f"Robots.txt of shop: 5 lines of 9 have another disallowed; {change}"]
    assert notes.listed(home.store)[0].remakes


@pytest.mark.parametrize("lines", [3, 2])
def test_a_new_column_is_filled_unless_bronze_lacks_lines(
    tmp_path: Path, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    home = Scenario(tmp_path, lines)
    was = table_state.recorded(home.lakehouse, requests.TABLE.name).entries
    older = {name: value for name, value in was.items() if name != "column network"}
    path = Path(home.lakehouse.checkpoint_root) / "states.json"
    path.write_text(json.dumps({requests.TABLE.name: older}))
    home.start()
    assert requests.TABLE.name in table_state.incomplete(home.lakehouse)
    assert backfill.pending(home.pipeline) == (lines == 3)
    assert ("silver.requests" in caplog.text and "lacks lines that were read" in caplog.text) == (lines == 2)

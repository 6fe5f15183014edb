"""Reports reach a real SMTP server and a real HTTP endpoint once a period, when its lines are in the tables."""

from __future__ import annotations

import email
import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from email.message import Message

import pytest
from click.testing import CliRunner

from tests import processes
from tests.app import lakehouse
from tests.operate.alerts.targets import Endpoint, Mailbox, http_endpoint, smtp_server
from tidemark.cli import tidemark
from tidemark.home import Home
from tidemark.operate.mails import watch, words
from tidemark.operate.mails.record import Sending, recorded
from tidemark.operate.mails.watch import Mails
from tidemark.operate.moment import Moment, Span
from tidemark.settings import Settings
from tidemark.settings.mails import Mailing

pytestmark = pytest.mark.filterwarnings(
    "ignore:Requiring AUTH:UserWarning", "ignore:'imghdr':DeprecationWarning"
)

SITE = "a.example"
FIRST, END = lakehouse.START, lakehouse.START + timedelta(days=lakehouse.DAYS)
# The third day is over.
MORNING = END + timedelta(hours=9)
DAILY = Mailing(SITE, "day", "08:00")
LOOK = """
import pickle, sys
from tests.operate.mails.test_mails import sender
print(sender(pickle.load(sys.stdin.buffer)).look())
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A home with lines of three days, which all tests share: give reports names of your own."""
    settings = Settings.of(home=tmp_path_factory.mktemp("mails"))
    lakehouse.build(settings.home, lakehouse.requests(visitors=40))
    return settings


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with smtp_server() as result:
        yield result


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with http_endpoint() as result:
        yield result


def moment(reached: datetime = MORNING, *sites: str) -> Moment:
    return Moment(reached, {site: Span(FIRST, END, reached) for site in sites or (SITE, "b.example")})


def sender(settings: Settings, clock: datetime = MORNING, at: Moment | None = None) -> Mails:
    """The sender of a pipeline that has just started."""
    return Mails(Home.of(settings).on_files(), lambda: clock, lambda: at or moment())


def declaring(base: Settings, name: str, mailing: Mailing, *to: str) -> Settings:
    return replace(base, reports={name: replace(mailing, to=to)})


def rows(settings: Settings, name: str) -> list[Sending]:
    return sorted(recorded(Home.of(settings).on_files().store, name), key=lambda row: row.period)


def parts(mail: str) -> dict[str, Message]:
    """The parts of a mail by their types and names."""
    every = email.message_from_string(mail).walk()
    return {part.get_filename() or part.get_content_type(): part for part in every}


def content(part: Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload.decode()


def test_a_mail_has_html_pictures_and_text_and_a_restart_sends_none_again(
    base: Settings, mailbox: Mailbox
) -> None:
    settings = declaring(base.changed(dashboard_url="https://stats.example"), "once", DAILY, mailbox.url)
    assert sender(settings).look() == ""

    [mail] = mailbox.mails
    assert email.message_from_string(mail)["subject"] == "a.example: Wednesday, 11 March 2026"
    result = parts(mail)
    html, text = content(result["text/html"]), content(result["text/plain"])
    assert len(html.encode()) < 100_000
    for name in ("visitors.png", "errors.png"):
        picture = result[name].get_payload(decode=True)
        assert isinstance(picture, bytes) and picture.startswith(b"\x89PNG")
        assert f"cid:{name}" in html and result[name]["Content-ID"] == f"<{name}>"
    for message in (
        "Visitors",
        "What moved most: Pageviews",
        "/a/b",
        "Germany",
        "503 /broken",
        "https://stats.example/?site=a.example",
    ):
        assert message in html and message in text
    assert words.REPEATED not in html + text
    [row] = rows(settings, "once")
    assert (row.period, row.state, row.attempts, row.sent_to) == (
        "2026-03-11",
        "sent",
        1,
        "target 1 (mailto)",
    )
    assert (row.period_start, row.period_end) == (END - timedelta(days=1), END)

    assert sender(settings).look() == ""
    assert len(mailbox.mails) == 1


def test_a_kill_between_sending_and_recording_sends_again_and_says_so(
    base: Settings, endpoint: Endpoint
) -> None:
    settings = declaring(base, "killed", DAILY, endpoint.url)
    killed = processes.run(
        [sys.executable, "-c", LOOK], input=pickle.dumps(settings), capture_output=True,
        env={**os.environ, "TIDEMARK_CRASH_AT": "reports:sent"},
    )  # fmt: skip
    assert killed.returncode == -9
    assert [row.state for row in rows(settings, "killed")] == ["sending"]

    assert sender(settings).look() == sender(settings).look() == ""
    assert [words.REPEATED in taken["message"] for taken in endpoint.taken] == [False, True]
    assert [(row.state, row.attempts) for row in rows(settings, "killed")] == [("sent", 2)]
    assert b"5ecre7" not in killed.stdout + killed.stderr


def test_a_report_waits_for_its_lines(base: Settings, endpoint: Endpoint) -> None:
    settings = declaring(base, "waits", DAILY, endpoint.url)
    early = END - timedelta(seconds=1)
    assert sender(settings, at=moment(early)).look() == ""
    # The day before was due, and its lines are in.
    assert sender(settings, END + timedelta(hours=7)).look() == ""
    assert [taken["title"] for taken in endpoint.taken] == ["a.example: Tuesday, 10 March 2026"]

    assert sender(settings).look() == ""
    assert [row.period for row in rows(settings, "waits")] == ["2026-03-10", "2026-03-11"]


def test_of_missed_periods_only_the_latest_is_sent_and_a_clock_set_back_sends_nothing(
    base: Settings, endpoint: Endpoint
) -> None:
    settings = declaring(base, "missed", DAILY, endpoint.url)
    later = MORNING + timedelta(days=5)
    assert sender(settings, later, moment(later)).look() == ""
    assert sender(settings).look() == ""

    [taken] = endpoint.taken
    assert taken["title"] == "a.example: Monday, 16 March 2026"
    assert words.EMPTY in taken["message"]  # a period without lines
    assert [row.period for row in rows(settings, "missed")] == ["2026-03-16"]


def test_nothing_is_sent_before_the_first_line_and_for_a_site_that_is_gone(
    base: Settings, endpoint: Endpoint
) -> None:
    before = declaring(base, "early", replace(DAILY, every="month"), endpoint.url)
    assert sender(before).look() == ""
    gone = declaring(base, "gone", replace(DAILY, site="old.example"), endpoint.url)
    assert sender(gone).look().startswith("report gone: there is no site 'old.example'. There are: a.example")
    assert not endpoint.taken and not rows(before, "early") and not rows(gone, "gone")


def test_a_target_that_does_not_take_it_is_asked_again_and_the_others_are_not(
    base: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "_FIRST_RETRY_SECONDS", 0.0)
    with http_endpoint() as other:
        other.broken = True
        settings = declaring(base, "retried", DAILY, endpoint.url, other.url)
        first = sender(settings)
        assert first.look() == "target 2 (json) of report retried did not take it"
        other.broken = False
        assert sender(settings).look() == ""  # after a restart
        assert (len(endpoint.taken), len(other.taken)) == (1, 1)
    assert words.REPEATED not in other.taken[0]["message"]
    assert [(row.state, row.failure) for row in rows(settings, "retried")] == [("sent", None)]
    assert "5ecre7" not in caplog.text


def test_a_recipient_that_is_refused_does_not_have_the_others_get_it_again(
    base: Settings, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_FIRST_RETRY_SECONDS", 0.0)
    mailbox.refused = {"gone@shop.example"}
    url = mailbox.url.replace("to=", "to=gone@shop.example,")
    settings = declaring(base, "refused", DAILY, url)
    for _ in range(2):  # with a restart in between
        assert sender(settings).look() == "target 1 (mailto) of report refused did not take it"
    assert [email.message_from_string(mail)["to"] for mail in mailbox.mails] == ["ops@shop.example"]


def test_alerts_that_began_come_first(base: Settings, endpoint: Endpoint) -> None:
    at = {
        "window_start": END - timedelta(hours=2),
        "window_end": END - timedelta(hours=1),
        "updated_at": MORNING,
    }
    alert = {"rule": "errors", "state": "firing", "value": 0.5, "bound": 0.1, "about": "share_5xx above 0.1"}
    known = [{"site": SITE, **alert, **at}, {"site": "b.example", **alert, **at}]
    lakehouse.write(base.home, "quality.alerts", known)
    noted = {
        "note": "n",
        "time": END - timedelta(hours=3),
        "site": SITE,
        "text": "A <new> version",
        "cause": "hand",
    }
    lakehouse.write(base.home, "quality.notes", [{**noted, "updated_at": MORNING}])
    settings = declaring(base, "alerted", DAILY, endpoint.url)
    sender(settings).look()

    message = endpoint.taken[0]["message"]
    assert (
        message.index("Began in this period") < message.index("Visitors") < message.index("A <new> version")
    )
    assert "errors on a.example, from Wed 11 Mar 22:00, it still fires" in " ".join(message.split())
    assert "b.example" not in message


def test_the_command_writes_a_file_or_sends_now(base: Settings, endpoint: Endpoint) -> None:
    file = base.home / "report.html"
    (base.home / "tidemark.toml").write_text(
        f'[reports.monday]\nsite = "{SITE}"\nto = ["{endpoint.url}"]\n[sites."{SITE}"]\ntimezone = "Europe/Berlin"\n'
    )

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(tidemark, ["send", *arguments, "--home", str(base.home)])
        return done.exit_code, done.output or str(done.exception)

    try:
        assert run("monday", "--period", "2026-03-11", "--out", str(file)) == (
            0, f"a.example: 9 to 15 March 2026: written to {file}\n",
        )  # fmt: skip
        assert 'src="data:image/png;base64,' in file.read_text() and not endpoint.taken
        assert run("monday", "--period", "2026-03-11")[0] == 0
        assert [row.period for row in rows(base, "monday")] == ["2026-03-09"]
        assert "there is no report 'friday'. Reports of tidemark.toml: monday." in run("friday")[1]
        assert "'noon' is no day" in run("monday", "--period", "noon")[1]
    finally:
        (base.home / "tidemark.toml").unlink()
    # What a viewer may see: nothing that shows a person.
    shown = file.read_text() + endpoint.taken[0]["message"]
    assert "192.0.2." not in shown and "agent " not in shown


def test_sites_together_have_a_report_too(base: Settings, endpoint: Endpoint) -> None:
    sender(declaring(base, "all", replace(DAILY, site="", filter=("device=mobile",)), endpoint.url)).look()
    assert endpoint.taken[0]["title"] == "All sites: Wednesday, 11 March 2026"
    assert "Only requests with device=mobile." in endpoint.taken[0]["message"]


def test_a_password_that_the_protocol_cannot_send_holds_no_other_report_up(
    base: Settings, mailbox: Mailbox, endpoint: Endpoint
) -> None:
    wrong = replace(DAILY, to=(mailbox.url.replace("5ecre7", "p%C3%A4ss"),))
    settings = replace(base, reports={"wrong": wrong, "right": replace(DAILY, to=(endpoint.url,))})
    first = sender(settings)
    assert first.look() == "target 1 (mailto) of report wrong did not take it"
    assert first.look() == ""  # the next attempt is not due yet
    assert len(endpoint.taken) == 1
    [row] = rows(settings, "wrong")
    assert (row.state, row.attempts, row.failure) == (
        "sending",
        1,
        "target 1 (mailto) of report wrong did not take it",
    )

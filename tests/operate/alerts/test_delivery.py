"""Messages about alerts reach a real SMTP server and a real HTTP endpoint, at least once, and keep their secrets."""

from __future__ import annotations

import email
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import processes
from tests.operate.alerts.scene import NOON, Line, Scene
from tests.operate.alerts.targets import Endpoint, Mailbox, http_endpoint, smtp_server
from tidemark.cli import tidemark
from tidemark.figures.alert_rules import Rule
from tidemark.operate.alerts import delivery
from tidemark.operate.alerts.delivery import Delivery, targets_of
from tidemark.settings import Settings

pytestmark = pytest.mark.filterwarnings(
    "ignore:Requiring AUTH:UserWarning", "ignore:'imghdr':DeprecationWarning"
)

RULE = Rule("share_5xx", "5m", above=0.1)
DELIVER = """
import pickle, sys
from tidemark.operate.alerts.delivery import Delivery
from tidemark.store import lakehouse
from tidemark.store.deltars import DeltaRsStore
settings = pickle.load(sys.stdin.buffer)
print(Delivery(settings, DeltaRsStore(lakehouse.of(settings))).deliver())
"""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with http_endpoint() as result:
        yield result


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with smtp_server() as result:
        yield result


def fired(home: Settings, *to: str) -> Scene:
    """A home with an alert whose message is due, evaluated a minute after its window."""
    scene = Scene.of(home, errors=replace(RULE, to=to))
    minutes = (datetime.now(UTC) - NOON) / timedelta(minutes=1) // 5 * 5 - 5
    scene.add(Line(minutes), Line(minutes + 1, status=500), Line(minutes + 5))
    scene.evaluate()
    assert [(each.state, each.due) for each in scene.alerts()] == [("firing", True)]
    return scene


def deliver(scene: Scene, **environment: str) -> subprocess.CompletedProcess[str]:
    """One round of deliveries in a process of its own."""
    done = processes.run(
        [sys.executable, "-c", DELIVER], input=pickle.dumps(scene.settings), capture_output=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_mail_and_a_webhook_say_what_fired_and_how_to_look(
    home: Settings, endpoint: Endpoint, mailbox: Mailbox
) -> None:
    scene = fired(home, endpoint.url, mailbox.url)
    assert Delivery(scene.settings, scene.store).deliver() == ""

    [alert] = scene.alerts()
    assert (alert.due, alert.delivered, alert.failure) == (False, "firing", None)
    assert alert.delivered_to == "target 1 (json), target 2 (mailto)"
    [posted], [mail] = endpoint.taken, mailbox.mails
    assert posted["title"] == email.message_from_string(mail)["subject"] == "Alert errors: shop"
    start, end = (f"{time:%Y-%m-%d %H:%M}" for time in (alert.window_start, alert.window_end))
    for message in (
        "Rule: errors (share_5xx above 0.1 in 5m)", "Site: shop", f"Window: {start} to {end} UTC",
        "Value: 0.5, bound: 0.1", "Look: tidemark alerts --rule errors --site shop",
    ):  # fmt: skip
        assert message in posted["message"]
        assert message in mail.replace("&nbsp;", " ")
    assert Delivery(scene.settings, scene.store).deliver() == ""
    assert len(endpoint.taken) == len(mailbox.mails) == 1


def test_a_target_that_does_not_take_it_is_asked_again_and_the_others_are_not(
    home: Settings, endpoint: Endpoint, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(delivery, "_FIRST_RETRY_SECONDS", 0.0)
    endpoint.broken = True
    scene = fired(home, mailbox.url, endpoint.url, "json://127.0.0.1:1/5ecre7", "5ecre7")
    sender = Delivery(scene.settings, scene.store)
    message = sender.deliver()
    assert (
        message
        == "target 2 (json) and target 3 (json) and target 4 (unknown) of alert errors did not take the message"
    )
    assert [(each.due, each.failure) for each in scene.alerts()] == [(True, message)]

    endpoint.broken = False
    assert sender.deliver().startswith("target 3 (json) and target 4")
    assert (len(mailbox.mails), len(endpoint.taken), endpoint.requests) == (1, 1, 2)
    assert message in caplog.text and "5ecre7" not in caplog.text
    assert_secret(scene)


def test_a_recipient_that_is_refused_does_not_have_the_others_get_it_again(
    home: Settings, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FIRST_RETRY_SECONDS", 0.0)
    mailbox.refused = {"gone@shop.example"}
    scene = fired(home, mailbox.url.replace("to=", "to=gone@shop.example,"))
    sender = Delivery(scene.settings, scene.store)
    for _ in range(3):
        assert sender.deliver() == "target 1 (mailto) of alert errors did not take the message"
    assert [email.message_from_string(mail)["to"] for mail in mailbox.mails] == ["ops@shop.example"]
    mailbox.refused.clear()
    assert sender.deliver() == ""
    assert (
        len(mailbox.mails) == 2 and scene.alerts()[0].delivered_to == "target 1 (mailto), target 2 (mailto)"
    )


def test_a_topic_that_is_refused_does_not_have_the_others_get_it_again(
    home: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FIRST_RETRY_SECONDS", 0.0)
    endpoint.refused = "gone"
    scene = fired(home, f"ntfy://127.0.0.1:{endpoint.port}/ops/gone/shop")
    sender = Delivery(scene.settings, scene.store)
    for _ in range(3):
        assert sender.deliver() == "target 1 (ntfy) of alert errors did not take the message"
    endpoint.refused = ""
    assert sender.deliver() == ""
    assert [each["topic"] for each in endpoint.taken] == ["ops", "shop", "gone"]


@pytest.mark.parametrize(
    "url, recipients",
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops/#shop", "channels"),
        ("tgram://123456789:abcdefg_hijklmnop/12315544/12315545", "targets"),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", ""),
        ("rocket://user:pass@localhost/#ops/#shop/@ana", ""),  # two kinds of recipients
    ],
)
def test_each_recipient_of_a_url_is_a_target(home: Settings, url: str, recipients: str) -> None:
    targets = list(targets_of([url], home, {}).values())
    assert [target.recipients for target in targets] == [recipients] * (2 if recipients else 1)
    alone = [getattr(target.opened(), recipients) for target in targets if recipients]
    assert all(len(each) == 1 for each in alone) and (not alone or alone[0] != alone[1])


def test_a_target_that_got_the_end_gets_the_next_start(
    home: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FIRST_RETRY_SECONDS", 0.0)
    with http_endpoint() as other:
        scene = fired(home, endpoint.url, other.url)
        minute = (scene.alerts()[0].window_start - NOON) / timedelta(minutes=1) + 2
        sender = Delivery(scene.settings, scene.store)
        assert sender.deliver() == ""
        other.broken = True
        for lines, status, state in ((20, 200, "withdrawn"), (40, 500, "firing"), (900, 200, "withdrawn")):
            scene.add(*(Line(minute, status=status) for _ in range(lines)))
            scene.evaluate()
            assert [(each.state, each.due) for each in scene.alerts()] == [(state, True)]
            assert sender.deliver()
        other.broken = False
        assert sender.deliver() == ""
    fires, over = "Alert errors: shop", "Withdrawn: alert errors: shop"
    assert [taken["title"] for taken in endpoint.taken] == [fires, over, fires, over]
    assert [taken["title"] for taken in other.taken] == [fires, over]


def test_between_attempts_the_pause_grows(home: Settings, endpoint: Endpoint) -> None:
    endpoint.broken = True
    scene = fired(home, endpoint.url)
    sender = Delivery(scene.settings, scene.store)
    message = sender.deliver()
    assert message and sender.deliver() == message
    assert endpoint.requests == 1


def test_what_there_was_no_time_for_is_sent_with_the_next_look(
    home: Settings, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = fired(home, endpoint.url)
    sender = Delivery(scene.settings, scene.store)
    with monkeypatch.context() as slow:
        slow.setattr(delivery, "_MOST_SECONDS", 0.0)
        sender.deliver()
    assert not endpoint.taken
    assert sender.deliver() == ""
    assert [taken["title"] for taken in endpoint.taken] == ["Alert errors: shop"]


def test_after_a_kill_between_sending_and_recording_the_message_comes_twice(
    home: Settings, endpoint: Endpoint
) -> None:
    scene = fired(home, endpoint.url)
    killed = deliver(scene, TIDEMARK_CRASH_AT="alerts:sent")
    assert killed.returncode == -9
    assert [each.due for each in scene.alerts()] == [True]

    done = deliver(scene)
    assert (done.returncode, done.stdout) == (0, "\n")
    assert [(each.due, each.delivered) for each in scene.alerts()] == [(False, "firing")]
    assert len(endpoint.taken) == 2 and endpoint.taken[0] == endpoint.taken[1]
    assert "5ecre7" not in killed.stdout + killed.stderr + done.stderr
    assert_secret(scene)


def test_the_end_is_delivered_and_a_message_about_a_removed_rule_is_given_up(
    home: Settings, endpoint: Endpoint
) -> None:
    scene = fired(home, endpoint.url)
    Delivery(scene.settings, scene.store).deliver()
    scene.add(Line((scene.alerts()[0].window_end - NOON) / timedelta(minutes=1) + 5))
    scene.evaluate()
    Delivery(scene.settings, scene.store).deliver()
    assert [taken["title"] for taken in endpoint.taken] == ["Alert errors: shop", "Ended: alert errors: shop"]

    scene.add(*(Line((scene.alerts()[0].window_start - NOON) / timedelta(minutes=1) + 2) for _ in range(20)))
    scene.evaluate()
    assert [(each.state, each.due) for each in scene.alerts()] == [("withdrawn", True)]
    gone = replace(scene.settings, alerts={})
    assert Delivery(gone, scene.store).deliver() == ""
    assert [(each.due, each.failure) for each in scene.alerts()] == [(False, "the rule was removed")]
    assert len(endpoint.taken) == 2


def test_targets_come_from_the_rule_its_environment_or_the_setting(home: Settings) -> None:
    shared = home.changed(alert_to="json://a slack://b/c")
    assert {name: target.url for name, target in targets_of(RULE.to, shared, {}).items()} == {
        "target 1 (json)": "json://a",
        "target 2 (slack)": "slack://b/c",
    }
    own = replace(RULE, to=("$OPS", "mailto://x"))
    assert list(targets_of(own.to, shared, {"OPS": "json://a json://b"})) == [
        "target 1 (json)", "target 2 (json)", "target 3 (mailto)",
    ]  # fmt: skip
    assert targets_of(own.to, shared, {})["target 1 (unknown)"].url == "$OPS"


def test_the_command_tries_the_targets_and_lists_what_fired(home: Settings, endpoint: Endpoint) -> None:
    scene = fired(home, endpoint.url)
    (home.home / "tidemark.toml").write_text(
        f'alert_to = "{endpoint.url}"\n[alerts.errors]\nmetric = "share_5xx"\nabove = 0.1\n'
    )

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(tidemark, ["alerts", "--home", str(home.home), *arguments])
        return done.exit_code, done.output

    assert run("--test") == (0, "target 1 (json) of alert errors: delivered\n")
    assert endpoint.taken[0]["message"] == "This target gets the alerts errors."
    endpoint.broken = True
    assert run("--test") == (1, "target 1 (json) of alert errors: failed\n")
    command = [sys.executable, "-m", "tidemark", "--home", str(home.home), "alerts", "--test"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1

    code, result = run("--rule", "errors")
    standing, alert = result.splitlines()
    assert code == 0 and standing.startswith("errors on shop: firing at ")
    assert "errors on shop: firing, value 0.5, bound 0.1; not delivered" in alert
    assert run("--site", "other")[1] == "no alert rule has been evaluated yet\n"
    assert_secret(scene)


def assert_secret(scene: Scene) -> None:
    """The targets' addresses are in no table."""
    files = [path for path in Path(scene.settings.tables).rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"5ecre7" in path.read_bytes()]

"""`tidemark demo` as a user runs it."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys

import psutil
import pytest
from deltalake import DeltaTable

from tests import processes
from tests.processes import in_background
from tidemark.cli.demo import run_demo
from tidemark.cli.demo_settings import declare
from tidemark.errors import HomeBusyError, KafkaError, PlatformError
from tidemark.figures.declared import declared
from tidemark.local.directories import prepare_home
from tidemark.local.locks import locked
from tidemark.local.ports import free_port
from tidemark.local.process import wait_until
from tidemark.operate.status import describe
from tidemark.settings import Settings, load
from tidemark.traffic.site import FUNNEL, HOST, build_site
from tidemark.traffic.stream import DEFAULT_SITE
from tidemark.traffic.week import Week


def test_a_home_in_use_is_refused(home: Settings) -> None:
    prepare_home(home)
    with locked(home.run_directory / "demo.lock"), pytest.raises(HomeBusyError, match="runs already"):
        run_demo(home, io.StringIO(), rate=1)


@pytest.mark.parametrize("setting", ["broker_port", "dashboard_port"])
def test_a_taken_port_is_reported_before_anything_starts(setting: str, home: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = home.changed(**{setting: taken.getsockname()[1]})
        with pytest.raises(PlatformError, match=f"TIDEMARK_{setting.upper()}"):
            run_demo(settings, io.StringIO(), rate=1)
    assert not list(home.logs.iterdir())


def test_a_kafka_that_does_not_answer_is_reported_before_anything_starts(home: Settings) -> None:
    settings = home.changed(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(KafkaError, match="cannot be reached"):
        run_demo(settings, io.StringIO(), rate=1)
    assert not list(home.logs.iterdir())


def test_a_new_home_of_the_demo_declares_questions_about_its_own_pages(home: Settings) -> None:
    prepare_home(home)
    declare(home)

    generated = load({"home": str(home.home)}, {})
    plan = build_site()
    pages = {page.path for page in [*plan.pages, plan.bought]} | {FUNNEL[0], FUNNEL[1]}
    assert generated.sites[DEFAULT_SITE].hosts[0] == HOST
    assert {goal.path for goal in generated.meaning.goals.values()} - {""} <= pages
    assert set(generated.alerts) == {"server_errors", "silence"}
    steps = declared(home.home).funnel("checkout").steps
    assert [step.pattern for step in steps[1:]] == list(FUNNEL)

    (home.home / "tidemark.toml").write_text("# mine\n", encoding="utf-8")
    declare(home)
    assert (home.home / "tidemark.toml").read_text(encoding="utf-8") == "# mine\n"


@pytest.mark.slow
def test_a_demo_with_chaos_counts_exactly_stops_on_ctrl_c_and_resumes(home: Settings) -> None:
    demo = processes.Popen(
        [
            sys.executable,
            "-m",
            "tidemark",
            "demo",
            "--home",
            str(home.home),
            "--no-dashboard",
            "--chaos",
            "15",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TIDEMARK_BROKER_PORT": "0"},
        start_new_session=True,
    )
    assert demo.stdout is not None
    messages = []
    try:
        for line in demo.stdout:
            messages.append(line)
            if "each once" in line or "WRONG" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert demo.returncode == 0, [*messages, rest]
    assert "chaos: kill 1: killing the pipeline with SIGKILL\n" in messages
    assert "pipeline was killed by signal 9\n" in messages
    (exact,) = re.findall(
        r"chaos: kill 1: ([\d,]+) lines were sent, all are in the tables, each once", "".join(messages)
    )
    assert int(exact.replace(",", "")) > 0.95 * Week.lines
    assert rest.endswith("chaos: kills: 1; the counts were exact after 1 of 1 checked restarts\n")
    # The second demo adds live lines, and not the week again.
    before = lines_in_silver(home)
    assert 0.95 * Week.lines < before < _demo_until_lines_are_in_silver(home, more_than=before)
    assert lines_in_silver(home) < before + 0.5 * Week.lines


def lines_in_silver(home: Settings) -> int:
    table = str(home.tables / "silver" / "requests")
    return DeltaTable(table).count() if DeltaTable.is_deltatable(table) else 0


def all_run(home: Settings) -> bool:
    parts = describe(home)["parts"]
    return all(parts[name]["state"] == "running" for name in ("broker", "pipeline", "traffic"))


def _demo_until_lines_are_in_silver(home: Settings, more_than: int) -> int:
    """Runs a demo until silver.requests has more lines, stops it, and returns how many there are."""
    demo = processes.Popen(
        [sys.executable, "-m", "tidemark", "demo", "--home", str(home.home), "--rate", "200"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "TIDEMARK_BROKER_PORT": "0",
            "TIDEMARK_DASHBOARD_PORT": "0",
            "TIDEMARK_MAINTAIN_INTERVAL_SECONDS": "3",
        },
        start_new_session=True,
    )
    family: list[psutil.Process] = []
    try:
        # Lines may still wait from before: the traffic may be the last to say that it runs.
        came = wait_until(
            lambda: (
                demo.poll() is not None
                or (lines_in_silver(home) > more_than and all_run(home) and in_background("upkeep", demo.pid))
            ),
            timeout=240,
            interval=0.5,
        )
        parts = describe(home)["parts"]
        family = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        out, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert came, out
    assert demo.returncode == 0, out
    assert {name: part["state"] for name, part in parts.items() if name != "dashboard"} == dict.fromkeys(
        ("broker", "pipeline", "traffic"), "running"
    )
    # A guard and its part each for broker, pipeline, traffic and dashboard, Spark's JVM, and the process for upkeep.
    assert len(family) >= 8
    assert processes.gone(each.pid for each in family)
    return lines_in_silver(home)

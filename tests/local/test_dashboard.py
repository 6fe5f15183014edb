"""The dashboard's process; what it shows is tested in tests/app."""

from __future__ import annotations

import http.client
import io
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import processes
from tidemark.cli.demo import run_demo
from tidemark.errors import PlatformError, SettingError
from tidemark.local import dashboard
from tidemark.local.directories import prepare_home
from tidemark.local.process import wait_until
from tidemark.local.records import write_record
from tidemark.settings import Settings


def command(settings: Settings, port: int = 0) -> subprocess.Popen[str]:
    return processes.Popen(
        [sys.executable, "-m", "tidemark", "dashboard", "--home", str(settings.home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TIDEMARK_DASHBOARD_PORT": str(port)},
    )


def test_two_homes_serve_dashboards_on_free_ports_until_stopped(home: Settings, tmp_path: Path) -> None:
    homes = [home, home.changed(home=tmp_path / "other")]
    started = [command(one) for one in homes]
    try:
        assert wait_until(lambda: all(dashboard.is_healthy(one) for one in homes), timeout=60, interval=0.2)
        assert len({dashboard.url(one) for one in homes}) == 2
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=60)
    assert [dashboard.url(one) for one in homes] == ["", ""]
    assert not dashboard.is_healthy(home)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    prepare_home(home)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            write_record(home.run_directory / "dashboard.json", os.getpid(), url=address)
            assert dashboard.is_healthy(home)
        finally:
            server.shutdown()


def test_a_taken_port_is_one_line_that_names_it_and_its_setting(home: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = command(home, port)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out.startswith(f"tidemark: port {port} of 127.0.0.1")
    assert "TIDEMARK_DASHBOARD_PORT" in out
    assert out.count("\n") == 1


@pytest.mark.parametrize("port", [0, 8501])
def test_an_address_of_another_machine_is_not_a_taken_port(home: Settings, port: int) -> None:
    settings = home.changed(dashboard_address="203.0.113.9", dashboard_port=port)
    with pytest.raises(PlatformError, match=r"cannot listen on 203\.0\.113\.9: .*Correct dashboard_address"):
        dashboard.check_port(settings.dashboard)


def test_a_header_counts_from_its_proxy_alone_whatever_a_client_says_it_forwards(home: Settings) -> None:
    home.home.mkdir(exist_ok=True)
    (home.home / "tidemark.toml").write_text(
        '[access]\nlogin = "header"\n[access.people]\n"ana@example.org" = { role = "viewer" }\n'
    )
    process = command(home)
    named = {"X-Forwarded-Email": "ana@example.org"}

    def status(source: str, forwarded: str) -> int:
        host = dashboard.url(home).removeprefix("http://")
        client = http.client.HTTPConnection(host, source_address=(source, 0), timeout=30)
        client.request("GET", "/", headers={**named, "X-Forwarded-For": forwarded})
        result = client.getresponse().status
        client.close()
        return result

    try:
        assert wait_until(lambda: dashboard.is_healthy(home), timeout=60, interval=0.2)
        assert status("127.0.0.1", "192.0.2.1") == 200
        assert status("127.0.0.2", "127.0.0.1") == 303
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_without_a_login_other_addresses_are_refused_with_the_commands_that_make_one(home: Settings) -> None:
    more = {**os.environ, "TIDEMARK_DASHBOARD_PORT": "0", "TIDEMARK_DASHBOARD_ADDRESS": "0.0.0.0"}
    done = processes.run(
        [sys.executable, "-m", "tidemark", "dashboard", "--home", str(home.home)],
        capture_output=True, text=True, env=more, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    for message in ("0.0.0.0", "tidemark access login password", "tidemark access user add"):
        assert message in done.stderr
    with pytest.raises(SettingError, match="tidemark access login password"):
        run_demo(home.changed(dashboard_address="0.0.0.0"), io.StringIO(), rate=1)
    assert not (home.run_directory / "broker.json").exists()


def test_an_installation_without_the_app_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "lib" / "tidemark" / "local" / "dashboard.py"
    monkeypatch.setattr(dashboard, "__file__", str(module))
    with pytest.raises(PlatformError, match=r"the dashboard's app is not at .*_app/main.py"):
        dashboard.entry_file()

    packaged = module.parents[1] / "_app" / "main.py"
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    assert dashboard.entry_file() == packaged


@pytest.mark.parametrize(
    "address, url",
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("fe80::7", "http://[fe80::7]:1"),
    ],
)
def test_the_url_can_be_visited_from_here(address: str, url: str) -> None:
    assert dashboard._url(address, 1) == url

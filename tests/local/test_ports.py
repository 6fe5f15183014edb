from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tidemark.local import ports

GIVEN_BY_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not GIVEN_BY_LINUX.exists(), reason="needs Linux, which tells what ports it gives")
def test_no_connection_is_given_a_free_port_by_chance() -> None:
    lowest = int(GIVEN_BY_LINUX.read_text(encoding="ascii").split()[0])
    if lowest < 32_768:
        pytest.skip("this machine gives more ports to connections than Linux does by itself")
    assert max(ports.free_port() for _ in range(100)) < lowest


def test_a_taken_port_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ports.free_port()
    with socket.create_server(("127.0.0.1", first)):
        other = ports.free_port()
        monkeypatch.setattr(ports, "_PORTS", [first, other])
        assert {ports.free_port() for _ in range(20)} == {other}
        monkeypatch.setattr(ports, "_PORTS", [first])
        with pytest.raises(OSError, match="in use"):
            ports.free_port()


def test_an_address_that_the_machine_lacks_has_no_free_port() -> None:
    with pytest.raises(OSError, match="assign"):
        ports.free_port("192.0.2.1")

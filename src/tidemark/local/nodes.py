"""Several nodes of the embedded broker in the foreground, each in a process of its own."""

from __future__ import annotations

import sys
from typing import TextIO

from tidemark.local import broker, broker_setup
from tidemark.local.broker_setup import Node
from tidemark.local.directories import prepare_home
from tidemark.local.supervisor import Part, supervise
from tidemark.settings import Settings


def run_nodes(settings: Settings, out: TextIO) -> int:
    """Runs all nodes until interrupted, and restarts one that ends; returns the exit status of `supervise`.

    Raises PlatformError if a port is taken or the home cannot be written.
    """
    prepare_home(settings)
    broker.check_port(settings)
    return supervise([_part(settings, number) for number in range(1, settings.broker.nodes + 1)], out)


def _part(settings: Settings, number: int) -> Part:
    command = ["-m", "tidemark", "--home", str(settings.home), "broker", "start", "--foreground"]
    part = Node(number, 0, 0).part()
    return Part(
        name=part,
        command=[sys.executable, *command, "--node", str(number)],
        log=broker_setup.output_file(settings, part),
        # A single node never answers, because it needs others for a quorum.
        ready=lambda: True,
        stop_seconds=3.0,
    )

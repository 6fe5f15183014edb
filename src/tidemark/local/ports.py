"""Free ports of this machine."""

from __future__ import annotations

import errno
import os
import random
import socket

from tidemark.errors import PlatformError
from tidemark.local.process import wait_until

_PORT_SECONDS = 1.0
# Linux, macOS and the BSDs give higher ones to outgoing connections and to servers that ask for any port.
_PORTS = range(20_000, 32_768)


def port_is_free(port: int, address: str = "127.0.0.1") -> bool:
    """Whether a server can listen on `port` of `address` now."""
    try:
        _bind(address, port)
    except OSError:
        return False
    return True


def frees_up(port: int, address: str = "127.0.0.1") -> bool:
    """Whether `port` is free now or in a moment: a killed server may hold its port a little longer."""
    return wait_until(lambda: port_is_free(port, address), _PORT_SECONDS)


def refused(address: str, port: int, what: str, section: str) -> PlatformError:
    """The error for a server that cannot listen on `port` of `address`, from the settings `<section>_port` and
    `<section>_address`. `what` is its part of the sentence: "the dashboard is to listen on"."""
    try:
        free_port(address)
    except OSError as error:
        return PlatformError(f"cannot listen on {address}: {error.strerror}", f"Correct {section}_address.")
    return PlatformError(
        f"port {port} of {address}, which {what}, is taken",
        f"Set TIDEMARK_{section.upper()}_PORT ({section}_port) to another port, or to 0 for any free one.",
    )


def free_port(address: str = "127.0.0.1") -> int:
    """A free port of `address` that nothing else is given by chance before its server listens, or while that is down.

    Raises OSError if nothing can listen on `address`.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        try:
            _bind(address, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return port
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _bind(address: str, port: int) -> None:
    """Binds a socket as servers do, and closes it. Raises OSError."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        # Connections of an earlier server in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))

"""An access log of ordinary visitors with individual habits, and three kinds of attack."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import NamedTuple
from zlib import crc32

from examples.kit.load import Event, Load, delayed

TOPIC = "access-log"
PARTITIONS = 2
START = 1_767_225_600  # epoch seconds of the first line
# Seconds of event time per second of a run, so that twenty seconds show an hour of the log.
SPEED = 180
# Maximum delay of a late line in event seconds.
LATE_BY = 600

_ATTACK_EVERY = 240
_VISITORS = 60
_PATHS = ("/", "/products", "/products/7", "/about", "/blog", "/cart", "/login")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BAD_SHARE = 0.01


class Request(NamedTuple):
    """One request as it is logged, in event seconds from the start."""

    offset: float
    client_ip: str
    method: str
    path: str
    status: int


def events(load: Load) -> Iterator[Event]:
    """The lines in order of sending: the load's rate of ordinary ones, an attack every four minutes on top,
    about one in a hundred bad. An address's lines are in one partition, in this order."""
    faults = load.random("faults")
    both = heapq.merge(ordinary(load), attacks(load), key=lambda request: request.offset)
    return delayed((_event(request, faults) for request in both), load, LATE_BY / SPEED)


def ordinary(load: Load) -> Iterator[Request]:
    """Visitors who read pages, sometimes request a missing one, and sometimes mistype a password."""
    random = load.random("ordinary")
    addresses = [f"192.0.2.{n}" for n in range(1, _VISITORS + 1)]
    habits = [random.uniform(0.3, 3) for _ in addresses]
    for at in load.times():
        (address,) = random.choices(addresses, habits)
        path = random.choice(_PATHS)
        if path == "/login":
            yield Request(at * SPEED, address, "POST", path, 401 if random.random() < 0.05 else 302)
        elif random.random() < 0.02:
            yield Request(at * SPEED, address, "GET", f"/old/{random.randrange(500)}", 404)
        else:
            yield Request(at * SPEED, address, "GET", path, 200)


def attacks(load: Load) -> Iterator[Request]:
    """One attack after the other, each from one address, until the load's end."""
    end = None if load.seconds is None else load.seconds * SPEED
    kinds = (_guesses, _scan, _surge)
    for number in count(1):
        begin = float(number * _ATTACK_EVERY)
        if end is not None and begin >= end:
            return
        requests = kinds[number % len(kinds)](load.random(f"attack {number}"), number, begin)
        yield from (request for request in requests if end is None or request.offset < end)


def _guesses(random: Random, number: int, begin: float) -> Iterator[Request]:
    """Many login attempts, sometimes with one success."""
    address, at = f"198.51.100.{number % 250}", begin
    for _ in range(random.randint(4, 24)):
        yield Request(at, address, "POST", "/login", random.choice((401, 401, 403)))
        at += random.uniform(0.5, 8)
    if random.random() < 0.7:
        yield Request(at, address, "POST", "/login", 302)


def _scan(random: Random, number: int, begin: float) -> Iterator[Request]:
    """Requests for forgotten files, some of them repeated."""
    address, at = f"203.0.113.{number % 250}", begin
    for _ in range(random.randint(15, 90)):
        yield Request(at, address, "GET", f"/wp-content/{random.randrange(80)}.php", 404)
        at += random.uniform(0.2, 2)


def _surge(random: Random, number: int, begin: float) -> Iterator[Request]:
    """Requests of a compromised machine."""
    address, at = f"192.0.2.{random.randint(1, _VISITORS)}", begin
    for _ in range(random.randint(40, 400)):
        yield Request(at, address, "GET", random.choice(_PATHS[:-1]), 200)
        at += random.uniform(0.1, 0.8)


def _event(request: Request, faults: Random) -> Event:
    time = datetime.fromtimestamp(int(START + request.offset), UTC)
    stamp = f"{time.day:02}/{_MONTHS[time.month - 1]}/{time:%Y:%H:%M:%S} +0000"
    value = (
        f'{request.client_ip} - - [{stamp}] "{request.method} {request.path} HTTP/1.1" {request.status} 512 '
        f'"-" "Mozilla/5.0"'
    )
    reason = ""
    if faults.random() < _BAD_SHARE:
        value, reason = _spoiled(faults, value, stamp)
    partition = crc32(request.client_ip.encode()) % PARTITIONS
    return Event(request.offset / SPEED, TOPIC, value.encode(), partition=partition, reason=reason)


def _spoiled(faults: Random, line: str, stamp: str) -> tuple[str, str]:
    """A truncated line, or one with an impossible date."""
    if faults.random() < 0.5:
        return line[: len(line) // 2], "malformed"
    return line.replace(stamp, "31/Feb" + stamp[6:]), "invalid_time"

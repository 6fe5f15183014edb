"""Two readers and an API client that ask a home for figures all the time, whatever happens to it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle

from tests.recovery.world import explained
from tidemark.access.asking import OWNER
from tidemark.api.answers import Answers
from tidemark.cli.report import explained_figures, reader_of
from tidemark.errors import TidemarkError
from tidemark.figures.declared import declared
from tidemark.figures.question import question
from tidemark.figures.report import report
from tidemark.figures.rows import Rows
from tidemark.settings import Settings

REPORTS = ("overview", "pages", "sources", "errors", "bots")
# The days of the traffic. The API answers no question without a range.
_RANGE = {"from": ("2026-05-28",), "to": ("2026-05-30",)}
_PAUSE_SECONDS = 1.0


@dataclass
class Answered:
    """How often each reader got figures, or which error with a remedy, and what else happened."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[BaseException] = field(default_factory=list)

    def text(self) -> str:
        return ", ".join(f"{outcome} {times} times" for outcome, times in sorted(self.outcomes.items()))


@contextmanager
def reading(settings: Settings) -> Iterator[Answered]:
    """Asks from three threads until the end: with a reader that stays open, one opened for each question, and the API's
    answers. Raises AssertionError at the end if anybody got an error without a remedy, or with a wrong one."""
    answered, stopping = Answered(), threading.Event()
    open_reader = reader_of(settings)
    answers = Answers(lambda: reader_of(settings))
    ask: dict[str, Callable[[str], object]] = {
        "reader": lambda name: report(Rows(open_reader), question(name, _RANGE, declared(settings.home))),
        "new reader": lambda name: report(
            Rows(reader_of(settings)), question(name, _RANGE, declared(settings.home))
        ),
        "API client": lambda name: asyncio.run(answers.answer(OWNER, name, _RANGE)),
    }

    def outcome(who: str, name: str) -> str:
        try:
            with explained_figures(settings):
                ask[who](name)
        except TidemarkError as error:
            return explained(error)
        return "answered"

    def keep_asking(who: str) -> None:
        for name in cycle(REPORTS):
            if stopping.wait(_PAUSE_SECONDS):
                return
            try:
                answered.outcomes[f"{who}: {outcome(who, name)}"] += 1
            except BaseException as error:
                answered.failures.append(error)

    threads = [threading.Thread(target=keep_asking, args=(who,), daemon=True) for who in ask]
    for thread in threads:
        thread.start()
    try:
        yield answered
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
    never = [who for who in ask if not answered.outcomes[f"{who}: answered"]]
    assert not never, f"no answer for {never}: {answered.outcomes}"
    if answered.failures:
        raise AssertionError(
            f"{len(answered.failures)} readers failed: {answered.failures[:5]}"
        ) from answered.failures[0]

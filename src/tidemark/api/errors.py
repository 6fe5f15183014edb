"""Errors of questions as programs get them: a status of HTTP, the problem and the remedy."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidemark.errors import TidemarkError
from tidemark.figures.known import NotKnownError
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.question import UnknownReportError
from tidemark.figures.reader import MissingTableError, ReadError
from tidemark.figures.selection import SelectionError

AGAIN_SECONDS = 5


class TooManyError(TidemarkError):
    """Somebody asks too often; `seconds` is how long to wait."""

    def __init__(self, most: int, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"more than {most} questions in a minute", f"Wait {self.seconds} seconds.")


class TooLongError(ReadError):
    """A question has reached the time limit, in seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the question took longer than {seconds:g} s",
            "Ask for a shorter range, one site, or fewer filters.",
        )


class BusyError(ReadError):
    """Too many questions wait for an answer; `seconds` is how long these will take."""

    def __init__(self, waiting: int, seconds: float) -> None:
        self.seconds = max(AGAIN_SECONDS, math.ceil(seconds))
        super().__init__(f"{waiting} questions wait for an answer", f"Ask again in {self.seconds} seconds.")


@dataclass(frozen=True)
class Problem:
    """An error for a program; `wait` seconds before the next attempt, where that helps."""

    status: int
    error: str
    remedy: str
    wait: int | None = None


def problem(error: TidemarkError) -> Problem:
    """The problem that an error is."""
    match error:
        case TooManyError():
            return Problem(429, error.problem, error.remedy, error.seconds)
        case BusyError():
            return Problem(503, error.problem, error.remedy, error.seconds)
        case UnknownReportError():
            return Problem(404, error.problem, error.remedy)
        case SelectionError() | NotKnownError():
            return Problem(
                400, error.problem, error.remedy or "GET /api/v1/reports lists reports and parameters."
            )
        case ForbiddenError():
            return Problem(403, error.problem, error.remedy or "An admin can change roles and sites.")
        case MissingTableError():
            remedy = "The pipeline makes the tables (`tidemark run`); ask again soon."
            return Problem(503, error.problem, remedy, AGAIN_SECONDS)
        case _:
            return Problem(503, error.problem, error.remedy or "Ask again soon.", AGAIN_SECONDS)

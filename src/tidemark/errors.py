"""Every error that Tidemark raises for its user: what is wrong, and what to do about it."""

from __future__ import annotations


class TidemarkError(Exception):
    """An error the user can act on; the CLI prints it as one line and exits with `exit_code`.

    `problem` names the thing and its bad value, `remedy` says what to do.
    """

    exit_code = 1

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}. {remedy}" if remedy else problem)


class SettingError(TidemarkError):
    """A setting has an unknown name or a value that cannot be used."""

    exit_code = 2


def first_line(error: BaseException) -> str:
    """An error of somebody else in one line: the first that it has, or else its class."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


class PlatformError(TidemarkError):
    """Something the machine must bring is missing or wrong: Java, jars, a port, a writable home."""


class KafkaError(TidemarkError):
    """The Kafka cluster cannot be reached, refuses us, or has lost data we had not read."""


class InputError(TidemarkError):
    """An input file or a user's database is missing, unreadable or corrupt."""


class TableError(TidemarkError):
    """A table or a checkpoint is missing, corrupt, or does not fit this version."""


class HomeBusyError(TidemarkError):
    """Another process already runs on the same home."""


class QualityError(TidemarkError):
    """A critical data-quality expectation failed."""

    exit_code = 3

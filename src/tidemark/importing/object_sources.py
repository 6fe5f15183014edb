"""The content of objects, to look at it without an import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import IO

from tidemark.errors import InputError
from tidemark.importing.object_failures import Failures
from tidemark.importing.sources import Spooled
from tidemark.objects.faults import MissingError
from tidemark.objects.fetching import fetched
from tidemark.objects.listing import Selection, listed
from tidemark.objects.store import Location

# Objects that `explain` and `--infer` look at.
FEW = 3


@dataclass(frozen=True)
class Objects:
    """The selected objects of locations."""

    locations: Sequence[Location]
    selection: Selection = field(default_factory=Selection)

    @contextmanager
    def first(self, most: int = FEW) -> Iterator[list[Spooled]]:
        """The first objects, at most `most` of each location. Raises InputError."""
        with ExitStack() as stack:
            sources: list[Spooled] = []
            for location in self.locations:
                before = len(sources)
                for each in fetched(location, islice(listed(location, self.selection), most)):
                    if each.error:
                        raise each.error
                    if each.file:
                        file = stack.enter_context(each.file)
                        sources.append(spooled(file, location.url_of(each.version.key)))
                if len(sources) == before:
                    raise nothing_selected(location)
            yield sources

    def all(self, say: Callable[[str], None], stopped: Callable[[], bool]) -> Iterator[Spooled]:
        """All objects. Each can be read until the next one is taken. Calls `say` with the errors of objects that
        the store does not give; raises InputError if it gives none."""
        for location in self.locations:
            failures = Failures(lambda error: say(str(error)), lasting=False)
            count = 0
            for each in fetched(location, listed(location, self.selection, stopped=stopped), stopped):
                count += 1
                if each.file:
                    failures.passed()
                    with each.file as file:
                        yield spooled(file, location.url_of(each.version.key))
                elif isinstance(each.error, MissingError):
                    say(f"{location.url_of(each.version.key)} was deleted before it was read")
                elif each.error and not stopped():
                    failures.add(each.error)
            if not stopped():
                failures.settle()
                if not count:
                    raise nothing_selected(location)


def spooled(file: IO[bytes], name: str) -> Spooled:
    """An open file with the content of the object `name`."""
    return Spooled(f"/dev/fd/{file.fileno()}", name)


def nothing_selected(location: Location) -> InputError:
    """The error of a URL without objects to read."""
    return InputError(f"no object of {location.url} is selected", "Check the prefix, --where and --since.")

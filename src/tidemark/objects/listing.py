"""The objects behind a URL, in the order in which the store lists them, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from tidemark.errors import InputError
from tidemark.objects.faults import DeniedError, RefusedError, SilentError, explained
from tidemark.objects.store import BUCKETS, Location
from tidemark.objects.waiting import Stopped, arrived, begun

_PAGE = 1000  # What a store returns at once.
# Objects whose keys sort by time may arrive this much later than their neighbours.
MARGIN = timedelta(days=1)


@dataclass(frozen=True)
class Listed:
    """A version of an object. `etag` identifies its content; a store without etags has size and time instead."""

    key: str
    size: int
    etag: str
    modified: datetime


@dataclass(frozen=True)
class Selection:
    """Objects to read: `where` is a glob of keys, or of their rest after the prefix, in which `*` also stands for
    slashes; they were written at or after `since`."""

    where: str = ""
    since: datetime | None = None

    def has(self, each: Listed, prefix: str) -> bool:
        """Whether an object below `prefix` is selected; empty ones never are."""
        rest = each.key.removeprefix(prefix).lstrip("/")
        return (
            each.size > 0
            and (not self.where or fnmatchcase(each.key, self.where) or fnmatchcase(rest, self.where))
            and (self.since is None or each.modified >= self.since)
        )


def version_of(location: Location, meta: Any) -> Listed:
    """An object's metadata as obstore returns them."""
    modified: datetime = meta["last_modified"].astimezone(UTC)
    # That of a file has its inode, which a volume may have another of on each machine.
    etag = "" if location.scheme == "file" else (meta["e_tag"] or "").strip('"')
    etag = etag or f"{meta['size']}-{modified.timestamp():.6f}"
    return Listed(meta["path"], meta["size"], etag, modified)


def listed(
    location: Location,
    selection: Selection = Selection(),
    *,
    after: str = "",
    stopped: Stopped = lambda: False,
) -> Iterator[Listed]:
    """The selected objects of `location`: the object that its path names, otherwise all whose keys begin with its path;
    with `after`, those whose keys sort after that key. Ends early when stopped. Raises InputError."""
    path = location.path
    if not path.endswith("/") and not after and (location.scheme not in BUCKETS or path):
        answer = begun(partial(location.store.head, path))
        if not arrived(answer, stopped):
            return
        try:
            with explained(location, "read"):
                single = version_of(location, answer.result())
        except (SilentError, RefusedError) as error:
            # A user who may read the objects behind a prefix may not ask for one of its name.
            if location.scheme not in BUCKETS or not isinstance(error, DeniedError):
                raise
        except InputError:
            # An answer to this request has no code of the error; one to a listing has.
            if location.scheme not in (*BUCKETS, "file"):
                raise
        else:
            if selection.has(single, path):
                yield single
            return
    # Stores list directories; a prefix that ends in the middle of a name is one of a directory's.
    directory = path[: path.rfind("/") + 1]
    for each in _pages(location, directory, after or (path if path != directory else ""), stopped):
        if each.key.startswith(path) and selection.has(each, path):
            yield each


def _pages(location: Location, directory: str, after: str, stopped: Stopped) -> Iterator[Listed]:
    with explained(location, "listed"):
        pages = iter(location.store.list(directory or None, offset=after or None, chunk_size=_PAGE))
    while arrived(answer := begun(lambda: next(pages, None)), stopped):
        with explained(location, "listed"):
            page = answer.result()
        if page is None:
            return
        yield from map(partial(version_of, location), page)


class Start:
    """Where the next listing may start, if keys sort by time: after all objects that are older than the newest by more
    than MARGIN. Feed it every object of a listing in its order; objects that are not finished keep the start before
    them."""

    def __init__(self) -> None:
        self.sorted = True
        self._last = ""
        self._newest: datetime | None = None
        self._waiting: list[tuple[datetime, str]] = []  # One key an hour, after `_after`.
        self._after = ""
        self._open = False

    @property
    def after(self) -> str:
        """The key after which the next listing starts; empty for all."""
        return self._after if self.sorted else ""

    def see(self, each: Listed, *, finished: bool) -> None:
        """Takes the next object of the listing."""
        newest = max(each.modified, self._newest or each.modified)
        self.sorted = self.sorted and each.key > self._last and each.modified >= newest - MARGIN
        self._last, self._newest = each.key, newest
        self._open = self._open or not finished
        if not self._open and (not self._waiting or newest - self._waiting[-1][0] >= timedelta(hours=1)):
            self._waiting.append((newest, each.key))
        while self._waiting and self._waiting[0][0] < newest - MARGIN:
            self._after = self._waiting.pop(0)[1]

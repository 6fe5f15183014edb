"""A note: what it is about, its states, and its sentence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemark.figures.notes import MOST_CHARACTERS, About, State
from tidemark.stream.applied import site_and_field

HAND, REBUILD, FORGET, SETTINGS = "hand", "rebuild", "forget", "settings"
RULES, IMPORT, GAP = "rules", "import", "gap"
# Settings of a site that the pipeline applies to history by itself.
SITE_SETTINGS = {"hosts": "own hosts", "trusted_proxies": "trusted proxies", "robots": "robots.txt"}
# Stands for a value until it is known.
_UNKNOWN = "…"
# Characters of a setting's value in a sentence, and settings that it names.
_VALUE_SHOWN = 60
_SETTINGS_SHOWN = 5


@dataclass(frozen=True)
class Note:
    """A row of quality.notes. `site` is empty for all sites, `note` for a row that is not written yet.

    The text of Tidemark's own notes is rendered from the columns after `cause`, see `NOTES`.
    """

    time: datetime
    text: str = ""
    site: str = ""
    cause: str = HAND
    about: str | None = None
    state: str | None = None
    details: str | None = None
    was: str | None = None
    now: str | None = None
    note: str = ""
    updated_at: datetime | None = None

    @property
    def key(self) -> str:
        """The key. The text of Tidemark's own notes may grow."""
        text = self.text if self.cause == HAND else ""
        parts = [self.time.astimezone(UTC).isoformat(), self.site, self.cause, text]
        return self.note or hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """The name in `about`."""
        return (self.about or "").partition(" ")[2]

    @property
    def settings(self) -> dict[str, tuple[str, str]]:
        """The changed settings, with their values before and after."""
        now = json.loads(self.now or "{}")
        return {name: (was, now[name]) for name, was in json.loads(self.was or "{}").items()}

    @property
    def remakes(self) -> bool:
        """Whether rows were recomputed or deleted; one about a goal's definition is not about such."""
        return self.cause in (REBUILD, FORGET) or self.state == State.APPLIED


def rendered(note: Note, settings: Mapping[str, tuple[str, str]] | None = None) -> Note:
    """A note of Tidemark's own with its sentence as `text`, and with changed `settings` as `was` and `now`."""
    if settings:
        was, now = ({name: values[i] for name, values in settings.items()} for i in range(2))
        note = replace(note, was=json.dumps(was, ensure_ascii=False), now=json.dumps(now, ensure_ascii=False))
    return replace(note, text="; ".join(filter(None, _parts(note)))[:MOST_CHARACTERS])


def _parts(note: Note) -> Sequence[str | None]:
    match (note.about or "").partition(" ")[0]:
        case About.GOAL:
            return [_of_goal(note)]
        case About.TABLES:
            return [f"Rebuilt: {note.name}", note.details, *changes(note.settings)]
        case About.SITES:
            return [_of_sites(note), *changes(note.settings)]
        case About.PRIVACY:
            remedy = "`tidemark rebuild all` applies stricter ones to history"
            return [f"The privacy settings have changed: {remedy}", *changes(note.settings)]
        case About.RULES:
            return [note.details, f"Lines are read with {note.now}, before with {note.was}"]
        case About.LINES:
            return [f"Lines of {note.was} to {note.now} were imported"]
        case About.DAY:
            lines = f"Lines of {note.name} came after its salt was destroyed"
            return [f"{lines}: visitors of that day are counted anew"]
        case About.PIPELINE:
            since, until = ((each or "")[:16].replace("T", " ") for each in (note.was, note.now))
            return [f"The pipeline did not run from {since} to {until} UTC"]
        case About.SITE:
            return [f"The site {note.name} was deleted"]
        case About.VISITOR:
            return ["A visitor was deleted"]
        case _:
            return [note.text]


def _of_goal(note: Note) -> str:
    was, now = (_UNKNOWN if number is None else f"{int(number):,}" for number in (note.was, note.now))
    if note.state == State.REMOVED:
        return f"Goal {note.name} was removed; it had {was} conversions"
    if note.was is None:
        return f"Goal {note.name} is new: {now} conversions"
    return f"Goal {note.name}: {was} → {now} conversions"


def _of_sites(note: Note) -> str:
    subject, details = subject_of(note.settings), note.details or _UNKNOWN
    if note.state == State.NOT_APPLIED:
        details = f"not applied to history, because {details}"
    return f"{subject[:1].upper()}{subject[1:]}: {details}"


def subject_of(settings: Collection[str]) -> str:
    """Names of settings of sites in words, such as "own hosts of shop, blog"."""
    pairs = [site_and_field(name) for name in settings]
    fields = {field for _, field in pairs}
    what = " and ".join(text for name, text in SITE_SETTINGS.items() if name in fields)
    return f"{what} of {', '.join(dict.fromkeys(site for site, _ in pairs))}"


def changes(settings: Mapping[str, tuple[str, str]]) -> list[str]:
    """Settings with their values before and after, as text; they are the same where it was another one meanwhile."""
    texts = [
        f"{name} was {short(was)}, now {short(now)}" + (" again" if was == now else "")
        for name, (was, now) in settings.items()
    ]
    more = len(texts) - _SETTINGS_SHOWN
    return [*texts[:_SETTINGS_SHOWN], *([f"{more} more settings"] if more > 0 else [])]


def short(value: str) -> str:
    """A setting's value as notes show it."""
    return "unset" if not value else value if len(value) <= _VALUE_SHOWN else f"{value[:_VALUE_SHOWN]}…"

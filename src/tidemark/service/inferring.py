"""Formats that are inferred from lines that no format reads, and their place in the settings file."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.errors import SettingError, unwritable
from tidemark.figures.text import shown
from tidemark.figures.toml_tables import text_of
from tidemark.local.directories import prepare_home
from tidemark.local.records import live_record
from tidemark.parse.custom import reading_of
from tidemark.parse.explain import formats_and_unread
from tidemark.parse.formats import FORMATS
from tidemark.parse.infer import Ambiguous, Inferred, infer
from tidemark.settings import Settings, edit, trouble
from tidemark.settings.formats import FormatSettings

_TABLES = "formats"
_ENDINGS = re.compile(r"(?:\.(?:gz|bz2|xz|zst|zip|log|txt|csv|json|jsonl|out|\d+))+$")
_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Sampled:
    """The formats of the lines of a sample with their numbers, the lines that no format reads, and what these are: a
    format, one of several, or None if they have nothing in common or are no requests."""

    formats: Counter[str]
    unread: Sequence[bytes]
    inferred: Inferred | Ambiguous | None


def sampled(
    lines: Mapping[str, Sequence[bytes]], named: str | None, site: str, settings: Settings
) -> Sampled:
    """`lines` are those of a sample by the names of their columns (empty but for W3C logs); `named` is the format that
    their sender names."""
    reading = reading_of(settings)
    formats, unread = Counter[str](), list[bytes]()
    for header, some in lines.items():
        counts, others = formats_and_unread(some, header, named, site, reading)
        formats += counts
        unread += others
    return Sampled(formats, unread, None if named else infer(unread))


def save(settings: Settings, path: str, sample: Sampled, inferred: Inferred) -> str:
    """Declares the format in the home's settings file, and returns its name, which is made of that of the file of the
    lines. Raises SettingError or PlatformError if the settings file cannot be changed."""
    name = _name_for(path, settings)
    share = f"{inferred.share:.1%} of {len(sample.unread):,} lines of {shown(Path(path).name)}"
    comments = [
        f"Inferred on {datetime.now(UTC):%Y-%m-%d}: {share} that no other format reads",
        "have this layout. Correct it where it is wrong; `tidemark rebuild silver.requests` applies that.",
        *inferred.notes,
    ]
    file = settings.home / "tidemark.toml"
    text = edit.with_table(text_of(file), _TABLES, name, _declared(inferred.format), comments)
    if problem := trouble(text, str(file)):
        raise SettingError(problem)
    prepare_home(settings)
    try:
        edit.replace(file, text)
    except OSError as error:
        raise unwritable(f"cannot write {file}", error, "Check the rights of the home.") from error
    return name


def declaration(name: str, format: FormatSettings) -> str:
    """The table of the settings file that declares a format."""
    return edit.with_table("", _TABLES, name, _declared(format)).strip()


def _declared(format: FormatSettings) -> dict[str, Any]:
    values: dict[str, Any] = {"detected": True}
    if format.pattern:
        values["pattern"] = format.pattern
    if format.squeezed:
        values["squeezed"] = True
    single = {field: paths[0] if len(paths) == 1 else list(paths) for field, paths in format.keys.items()}
    if single:
        return {**values, "keys": single}
    return {"layout": format.layout[0] if len(format.layout) == 1 else list(format.layout), **values}


def with_format(settings: Settings, name: str, format: FormatSettings) -> Settings:
    """The settings with one more format."""
    return dataclasses.replace(settings, formats={**settings.formats, name: format})


def await_taken_over(settings: Settings, name: str, seconds: float = _PATIENCE_SECONDS) -> bool:
    """Waits until a running pipeline of the home reads lines by a format; false if it does not within these seconds."""
    deadline = time.monotonic() + seconds
    while (record := live_record(settings.run_directory / "pipeline.json")) is not None:
        if name in record.get("formats", ()):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _name_for(path: str, settings: Settings) -> str:
    stem = _ENDINGS.sub("", Path(path).name) or "inferred"
    plain = re.sub(r"[^A-Za-z0-9]+", "_", stem).strip("_").lower() or "inferred"
    known = {*FORMATS, *settings.formats}
    names = (plain, *(f"{plain}_{number}" for number in range(2, len(known) + 3)))
    return next(name for name in names if name not in known)

"""From a request's body to Kafka records."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

from tidemark.contract.parts import join, may_have_parts
from tidemark.ingest.refusal import RefusedError, Share
from tidemark.kafka.records import DEFAULT_SITE, Headers, Record
from tidemark.parse.formats import FORMATS

if TYPE_CHECKING:  # takes a second to import, which only masked lines need
    from tidemark.privacy.door import Door

_Numbered = tuple[int, bytes, dict[str, str]]

MOST_KEY_CHARACTERS = 255
MOST_FIELDS_CHARACTERS = 4096
MOST_LINE_BYTES = 8 * 1024 * 1024
# Memory of a record besides its bytes, here and in the Kafka client, which has a copy of the bytes, too.
_RECORD_BYTES = 512
# The keys of an object that has a line and its headers. An object with other keys is a line itself.
PARAMETERS = ("site", "format", "fields")
_HEADERS = (*PARAMETERS, "id")
_TEXTS = ("line", "message")


def records_of(
    body: bytes,
    *,
    ndjson: bool,
    common: Mapping[str, str],
    key: str,
    share: Share,
    formats: Collection[str] = FORMATS,
    door: Door | None = None,
) -> list[Record]:
    """The records of a body of plain lines, or of one JSON object per line.

    `common`: headers of every line: `site`, `format`, `fields`. `formats`: the names that a format may have. `key`: the
    request's Idempotency-Key; each line without an `id` gets one from it, from the line's number and from its bytes, so
    that a key used for another body hides no line. Parts of a line that a container runtime has split are one line,
    with the number and the headers of the first one. `door` masks the lines. Raises RefusedError, with the number of
    the line.
    """
    if not body:
        return []
    checked(common, formats)
    # The headers of the request are those of every record.
    headers = sum(len(name) + len(value.encode()) for name, value in common.items()) + 2 * len(key)
    share.take(len(body) + (_RECORD_BYTES + headers) * (body.count(b"\n") + 1))
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbered = []
    for number, line in enumerate(lines, start=1):
        line = line.removesuffix(b"\r")
        if len(line) > MOST_LINE_BYTES:
            raise RefusedError(413, f"line {number} is longer than {MOST_LINE_BYTES:,} bytes")
        named = dict(common)
        if ndjson:
            if not line.strip():
                continue
            line = _from_object(line, number, named, formats)
        numbered.append((number, line, named))
    if may_have_parts(body):
        numbered = _joined(numbered)
    if door:
        return _masked(door, numbered, key)
    for number, line, named in numbered:
        _identify(named, key, number, line)
    return [(line, _headers(named)) for _, line, named in numbered]


def _masked(door: Door, numbered: list[_Numbered], key: str) -> list[Record]:
    """The records of lines, masked together where their headers but the id are the same."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, (_, _, named) in enumerate(numbered):
        groups.setdefault(tuple(named.get(name, "") for name in PARAMETERS), []).append(place)
    records: dict[int, Record] = {}
    for texts, places in groups.items():
        lines = [numbered[place][1] for place in places]
        masked = door.records(lines, dict(zip(PARAMETERS, texts, strict=True)))
        for place, (value, headers) in zip(places, masked, strict=True):
            number, _, named = numbered[place]
            _identify(named, key, number, value)
            given = {name for name, _ in headers}
            own: Headers = [("id", named["id"])] if named.get("id") and "id" not in given else []
            records[place] = value, [*headers, *own]
    return [records[place] for place in range(len(numbered))]


def _identify(named: dict[str, str], key: str, number: int, line: bytes) -> None:
    if key and not named.get("id"):
        digest = blake2b(line, digest_size=8).hexdigest()
        named["id"] = f"{key}:{number}:{digest}"


def _joined(numbered: list[_Numbered]) -> list[_Numbered]:
    """The lines with parts of lines joined; a part without its rest stays as it is."""
    senders = [tuple(named.get(name, "") for name in PARAMETERS) for _, _, named in numbered]
    joined = join([line for _, line, _ in numbered], MOST_LINE_BYTES, "leave", senders)
    return [
        (numbered[number][0], line, numbered[number][2])
        for number, line in zip(joined.numbers, joined.lines, strict=True)
    ]


def checked(named: Mapping[str, str], formats: Collection[str], where: str = "") -> None:
    """Raises RefusedError for a site or a format that the pipeline would reject, and for too many fields."""
    site, format = named.get("site", DEFAULT_SITE), named.get("format")
    if not site or len(site) > 200 or not site.isprintable():
        raise RefusedError(400, f"{where}{site!r} is not a site name: use up to 200 printable characters")
    if len(named.get("fields", "")) > MOST_FIELDS_CHARACTERS:
        raise RefusedError(400, f"{where}fields has more than {MOST_FIELDS_CHARACTERS:,} characters")
    if format and format not in formats:
        raise RefusedError(400, f"{where}unknown format {format!r}: docs/formats.md lists the formats")


def _headers(named: Mapping[str, str]) -> Headers:
    """Without defaults, which would take space in every record."""
    return [
        (name, value)
        for name, value in named.items()
        if value and not (name == "site" and value == DEFAULT_SITE)
    ]


def _from_object(line: bytes, number: int, named: dict[str, str], formats: Collection[str]) -> bytes:
    """The line in an object of ours, whose headers are added to `named`; else the object."""
    where = f"line {number}: "
    try:
        values = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "too many levels" if isinstance(error, RecursionError) else error
        raise RefusedError(400, f"{where}not a JSON object: {reason}") from error
    if not isinstance(values, dict):
        raise RefusedError(400, f"{where}not a JSON object")
    text = next((name for name in _TEXTS if name in values), None)
    unknown = sorted(values.keys() - {text, *_HEADERS})
    if text is None or (text != "line" and unknown):
        return line
    if unknown:
        raise RefusedError(400, f"{where}unknown key {unknown[0]!r}: use line, {', '.join(_HEADERS)}")
    try:
        inner = _text(values.pop(text), text, where).encode()
        own = {name: _text(value, name, where) for name, value in values.items() if value is not None}
        _ = [value.encode() for value in own.values()]
    except UnicodeEncodeError as error:
        raise RefusedError(400, f"{where}half of a surrogate pair is not text") from error
    checked(own, formats, where)
    named.update(own)
    return inner


def _text(value: Any, name: str, where: str) -> str:
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise RefusedError(400, f"{where}{name} must be a string")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")

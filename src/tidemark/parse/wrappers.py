"""Log lines inside the envelopes that shippers put around them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of
from tidemark.parse.objects import Objects, objects_of

# JSON: Docker and Fluent Bit, Vector and Filebeat, journald, and Filebeat once it has parsed a line.
PATHS = ("log", "message", "MESSAGE", "event.original")

_ISO = r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:?\d\d)"
_TAG = r"[^ :\[]+(?:\[[^ \]]*\])?:"
_DATA = r'(?:-|(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\])+)'
# Syslog as of RFC 3164 (also as files have it, and with an ISO time), of RFC 5424, and without a tag in front of JSON;
# CRI; journald's export; `docker compose logs`.
_PATTERNS = (
    rf"^(?:<\d{{1,3}}>)?(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d|{_ISO}) (?:[^ ]*[^ :] )?{_TAG} ?(?P<line>.*)$",
    rf"^<\d{{1,3}}>\d [^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ {_DATA} (?P<line>.*)$",
    rf"^{_ISO} [^ ]+ +(?P<line>{{.*}})$",
    rf"^{_ISO} (?:stdout|stderr) [FP] (?P<line>.*)$",
    r"^MESSAGE=(?P<line>.*)$",
    r"^[A-Za-z0-9][A-Za-z0-9_.-]* +\| (?P<line>.*)$",
)
_BEGIN = r"^(?:<\d|[A-Z][a-z]{2} [ \d]\d |\d{4}-\d\d-\d\dT|MESSAGE=|[A-Za-z0-9][A-Za-z0-9_.-]* +\| )"


def unwrapped(text: pa.Array) -> pa.Array:
    """The lines inside the envelopes of syslog, CRI and journald, and in JSON strings; NULL where there is none."""
    found = _strings(text)
    rows = np.flatnonzero(flags_of(pc.match_substring_regex(text, _BEGIN)))
    for pattern in _PATTERNS:
        if not len(rows):
            break
        inner = pc.struct_field(pc.extract_regex(text.take(pa.array(rows)), pattern), "line")
        there = flags_of(pc.is_valid(inner))
        mask = np.zeros(len(text), bool)
        mask[rows[there]] = True
        found = pc.replace_with_mask(found, pa.array(mask), inner.filter(pa.array(there)))
        rows = rows[~there]
    return found


def _strings(text: pa.Array) -> pa.Array:
    """The lines in JSON strings, as the Kafka exporter of OpenTelemetry writes them; NULL for other lines."""
    found = pa.nulls(len(text), pa.string())
    quoted = flags_of(pc.and_(pc.starts_with(text, '"'), pc.ends_with(text, '"')))
    if quoted.any():
        mask = pa.array(quoted)
        objects = objects_of(pc.binary_join_element_wise('{"line":', text.filter(mask), "}", ""), ["line"])
        found = pc.replace_with_mask(found, mask, objects.texts["line"])
    return found


def inside(objects: Objects) -> pa.Array:
    """The lines inside JSON objects; NULL where there is none."""
    return objects.first(PATHS)

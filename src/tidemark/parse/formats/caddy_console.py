"""Caddy's access log by its console encoder: time, level, logger and message, then a JSON object."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, flags_of, matches, where
from tidemark.parse.format import Format
from tidemark.parse.formats import caddy_json
from tidemark.parse.templates import of_object
from tidemark.parse.text import Lines
from tidemark.parse.values import Read
from tidemark.parse.writing import Slot, Template

_BEGIN = r"^\d[0-9.eE+:/ TZ-]*\t[^\t\d]{0,20}\t[^\t]*\t[^{]*\{"
# Failed requests are once more in the log of accesses.
_ERROR = "\t" + caddy_json.NO_ERRORS["logger"]
_LINE = r"^(?P<time>\d[0-9.eE+:/ TZ-]*)\t(?:[^\t{]*\t)+(?P<object>\{.*\})$"


@dataclass(frozen=True)
class Console(Format):
    """The object is one of `caddy_json` without the time, which comes first."""

    def may_be(self, text: pa.Array) -> Flags:
        return matches(text, _BEGIN)

    def read(self, lines: Lines) -> Read:
        return caddy_json.FORMAT.read(_objects(lines))

    def progress(self, lines: Lines) -> tuple[np.ndarray, np.ndarray]:
        return caddy_json.FORMAT.progress(_objects(lines))

    def template(self, columns: Collection[str]) -> Template:
        [*head, object] = self.examples[0].split("\t")
        keys = {field: paths for field, paths in caddy_json.FORMAT.keys.items() if field != "time"}
        inner = of_object(keys, caddy_json.FORMAT.marks, object, columns, {})
        first = "\t".join(["", *head[1:], inner.texts[0]])
        texts, slots = ("", first, *inner.texts[1:]), (Slot("time", head[0]), *inner.slots)
        return replace(inner, texts=texts, slots=slots)


def _objects(lines: Lines) -> Lines:
    """The objects in lines with the time inside, as the other encoder writes it; empty for lines without one, and for
    errors."""
    text = where(~flags_of(pc.match_substring(lines.text, _ERROR)), lines.text, None)
    parts = pc.extract_regex(text, _LINE)
    time = pc.struct_field(parts, "time")
    # Only numbers of JSON may have an exponent.
    quote = where(matches(time, r"^\d\.\d+e\+\d+$"), pa.repeat("", len(time)), '"')
    head = pc.binary_join_element_wise('{"time": ', quote, time, quote, ", ", "")
    inside = pc.utf8_slice_codeunits(pc.struct_field(parts, "object"), 1)
    return replace(lines, text=pc.fill_null(pc.binary_join_element_wise(head, inside, ""), ""))


FORMAT = Console(
    name="caddy_console",
    about="Caddy's access log by the encoder `console`: tabs between time, level, logger and message, then JSON.",
    docs="https://caddyserver.com/docs/caddyfile/directives/log#console",
    examples=(
        '2026/11/21 10:00:00.123\tinfo\thttp.log.access.log0\thandled request\t{"request": {"remote_ip": "203.0.113.7",'
        ' "remote_port": "41342", "client_ip": "203.0.113.7", "proto": "HTTP/2.0", "method": "GET", "host":'
        ' "www.example.org", "uri": "/docs/?page=2", "headers": {"User-Agent": ["curl/8.5.0"], "Referer":'
        ' ["https://example.org/a"]}}, "bytes_read": 0, "user_id": "", "duration": 0.000929675, "size": 512, "status":'
        " 200}",
    ),
    verbatim=True,
)

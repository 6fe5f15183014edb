"""From the declaration of a format, in a server's notation, as a layout, or by the keys of JSON objects, to a reader
over arrays.

A library that compiles `LogFormat` exists (apachelogs), but it reads one line at a time with a regular expression, far
slower than the readers here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import matches, where
from tidemark.errors import SettingError
from tidemark.parse import durations, notations
from tidemark.parse.format import Format
from tidemark.parse.formats.haproxy_http import captured_host
from tidemark.parse.layout import Layout
from tidemark.parse.objects import JsonFormat
from tidemark.parse.time_forms import ORDERED_FIELDS, ZONE, with_time
from tidemark.parse.values import without_port
from tidemark.settings.formats import FormatSettings

# The fields that a layout or keys may name: those of `tidemark.parse.values.columns_of`, a duration with its unit,
# parts of a time, and dates with day and month in this order.
FIELDS = (
    "client_ip", "remote_user", "time", "date", "clock", "fraction", "zone", "request", "method", "target", "query",
    "protocol", "status", "bytes", "referrer", "user_agent", "host", "duration_s", "duration_ms", "duration_us",
    "duration_ns", "duration", "edge_country", "forwarded", "half", "gpc", *ORDERED_FIELDS,
)  # fmt: skip

# Those that become columns as they are.
_PLAIN = {*FIELDS} - {"date", "clock", "half", "fraction", "zone", "duration", *ORDERED_FIELDS}
_DOCS = {
    "apache": "https://httpd.apache.org/docs/2.4/mod/mod_log_config.html",
    "nginx": "https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format",
    "haproxy": "https://docs.haproxy.org/3.0/configuration.html#8.2.6",
    "tomcat": "https://tomcat.apache.org/tomcat-11.0-doc/config/valve.html#Access_Log_Valve",
}
_GIVEN_IP = "given_ip"
# The fields that stand in place of the client's address in a format that lacks it, and their name then. A server
# appends the address of its client to the list X-Forwarded-For.
_IN_PLACE = {_GIVEN_IP: "client_ip", "forwarded": "forwarded_client"}
# A time with a zone, or since 1970.
_ZONED = rf"(?:{ZONE})\]?$|^\d{{9,}}(?:\.\d+)?$"
_REQUIRED = ("time", "status")
# Something of a request or of a connection.
_IDENTIFYING = ("client_ip", "request", "target", "host")


def declared_format(name: str, declared: FormatSettings, *, usual_times: bool = False) -> Format:
    """The format of a declaration. With `usual_times` its times are only in notations of `tidemark.parse.logtime`.
    Raises SettingError if it cannot be read."""
    if declared.keys:
        format: Layout | JsonFormat = _objects(name, declared.keys)
    elif declared.nginx.lstrip().startswith("{"):
        format = _json(name, _nginx_keys(name, declared.nginx))
    else:
        format = replace(_layout(name, _layouts(name, declared)), squeezed=declared.squeezed)
    format = replace(
        format,
        about=declared.about or f"A format of the settings, by `{declared.notation}`.",
        docs=declared.docs or _DOCS.get(declared.notation, ""),
        examples=declared.examples,
        detected=declared.detected,
    )
    if usual_times and not _fields(format) - _PLAIN:
        format = replace(format, refine=dict)
    return _with_pattern(format, declared.pattern) if declared.pattern else format


def _layouts(name: str, declared: FormatSettings) -> Sequence[str]:
    """The declared layouts in Tidemark's notation."""
    if declared.apache:
        return [notations.apache(declared.apache)]
    if declared.nginx:
        return [notations.nginx(declared.nginx)]
    if declared.haproxy:
        return notations.haproxy(declared.haproxy)
    if declared.tomcat:
        return [notations.tomcat(name, declared.tomcat)]
    for text in declared.layout:
        _only_known(name, re.findall(r"\$(\w+)", text))
    return declared.layout


def _fields(format: Layout | JsonFormat) -> set[str]:
    if isinstance(format, JsonFormat):
        return set(format.keys)
    names = {name for layout in format.layouts for name in re.findall(r"\$(\w+)", layout)}
    return {name for name in names if not name.startswith(("_", "upstream"))}


def _with_pattern(format: Layout | JsonFormat, pattern: str) -> Layout:
    if isinstance(format, JsonFormat):
        raise SettingError(f"the format {format.name} of JSON objects has a pattern", "Leave it out.")
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise SettingError(
            f"the pattern of format {format.name} is no regular expression: {error}",
            "Write it in the syntax of RE2, which has no look-around.",
        ) from error
    return replace(format, pattern=pattern)


def _objects(name: str, keys: Mapping[str, Sequence[str]]) -> JsonFormat:
    """The format of JSON objects with the fields at these paths: names with dots in between, or with `>` as Caddy
    writes them. Raises SettingError."""
    _only_known(name, keys)
    paths = {each: tuple(path.replace(">", ".") for path in places) for each, places in keys.items()}
    marks = [path for each, places in paths.items() if each.startswith("_") for path in places]
    return _json(name, {each: places for each, places in paths.items() if not each.startswith("_")}, marks)


def _json(name: str, keys: Mapping[str, tuple[str, ...]], marks: Sequence[str] = ()) -> JsonFormat:
    keys = dict(keys)
    if "client_ip" not in keys:
        for other, field in _IN_PLACE.items():
            if other in keys:
                keys[field] = keys.pop(other)
                break
    _require(name, keys)
    return JsonFormat(name, "", "", (), tuple(marks), keys, refine=_refined)


def _only_known(name: str, fields: Iterable[str]) -> None:
    for each in fields:
        if each not in FIELDS and not each.startswith(("_", "upstream")):
            raise SettingError(
                f"the format {name} has an unknown field {each}",
                f"Use one of {', '.join(FIELDS)}, or _{each} for one that only has to be there.",
            )


def _layout(name: str, texts: Sequence[str]) -> Layout:
    layouts = tuple(_with_fields_once(name, text) for text in texts)
    # Otherwise an envelope could be taken for a part of the first field.
    timed = all(each.startswith(("$time", "$date", "$clock")) for each in layouts)
    verbatim = any("\t" in each for each in layouts)
    return Layout(name, "", "", (), r"^\d" if timed else "", layouts, refine=_refined, verbatim=verbatim)


def _with_fields_once(name: str, layout: str) -> str:
    """A layout in which each field has a value of its own. Of several only the first counts, but for times."""
    if "$client_ip" not in layout:
        for other, field in _IN_PLACE.items():
            if f"${other}" in layout:
                layout = re.sub(rf"\${other}\b", f"${field}", layout, count=1)
                break
    layout = re.sub(r"\$client_ip:\$_\w+", "$client_port", layout)
    numbers = Counter[str]()

    def once(match: re.Match[str]) -> str:
        field = match[1]
        if field.startswith(("_", "upstream")):
            return f"${field}"
        numbers[field] += 1
        if numbers[field] == 1 and field != _GIVEN_IP:
            return f"${field}"
        return f"${field}_{numbers[field]}" if field == "time" else f"$_{field}"

    layout = re.sub(r"\$(\w+)", once, layout.strip()).replace(notations.LITERAL, "$")
    if re.search(r"\$\w+\$", layout):
        raise SettingError(
            f"the format {name} has two fields without a text in between",
            "Put a text, such as a space, between them.",
        )
    _require(name, numbers)
    return layout


def _nginx_keys(name: str, text: str) -> Mapping[str, tuple[str, ...]]:
    quoted = re.sub(r'(?<![\w"$])(\$\{?\w+\}?)(?=\s*[,}\]])', r'"\1"', text)
    try:
        shape = json.loads(quoted)
    except ValueError as error:
        raise SettingError(f"the format {name} is not JSON: {error}", "Correct it.") from error
    keys: dict[str, tuple[str, ...]] = {}
    for path, value in _paths(shape):
        if match := notations.VARIABLE.fullmatch(value):
            field = notations.variable(match[1] or match[2])
            if not field.startswith(("_", "upstream")):
                keys[field] = (*keys.get(field, ()), path)
    return keys


def _paths(shape: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in shape.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")
        elif isinstance(value, str):
            yield before + name, value


def _require(name: str, fields: Iterable[str]) -> None:
    there = set(fields)
    there |= {each.partition("_")[0] for each in there.intersection(ORDERED_FIELDS)}
    if "date" in there and "clock" in there:
        there.add("time")
    if there & {"client_port", "forwarded_client"}:
        there.add("client_ip")
    lacking = [field for field in _REQUIRED if field not in there]
    if not there.intersection(_IDENTIFYING):
        lacking.append(" or ".join(_IDENTIFYING))
    if lacking:
        raise SettingError(
            f"the format {name} lacks {', '.join(lacking)}",
            "A line of it must have a time, a status, and something of a request.",
        )


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """Puts a time together that is in several fields, and the client out of a list or in front of a port."""
    texts = with_time(texts)
    if "fraction" in texts and "time" in texts:
        texts["time"] = pc.binary_join_element_wise(texts["time"], texts["fraction"], ".")
    if "zone" in texts and "time" in texts:
        texts["time"] = pc.binary_join_element_wise(texts["time"], texts["zone"], "")
    times = [texts[name] for name in texts if name == "time" or name.startswith("time_")]
    if len(times) > 1:
        zoned = [where(matches(each, _ZONED), each, None) for each in times]
        texts["time"] = pc.coalesce(*zoned, *times)
    if "duration" in texts:
        texts["duration_us"] = durations.with_unit(texts["duration"]).cast(pa.string())
    if "client_port" in texts:
        texts["client_ip"] = without_port(texts["client_port"])
    if "forwarded_client" in texts:
        texts["client_ip"] = texts["forwarded_client"]
    if "captured" in texts and "host" not in texts:
        texts["host"] = captured_host(texts["captured"])
    return texts

"""Formats that the user declares: Apache's `LogFormat`, nginx's `log_format`, a layout, or the keys of JSON objects,
compiled to a reader over arrays.

A library that compiles `LogFormat` exists (apachelogs), but it reads one line at a time with a regular expression, far
slower than the readers here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.contract.log_formats import FORMATS
from tidemark.errors import SettingError
from tidemark.parse.format import Format
from tidemark.parse.layout import Layout
from tidemark.parse.objects import JsonFormat
from tidemark.parse.reading import Reading, SiteReading
from tidemark.settings import Settings
from tidemark.settings.formats import FormatSettings

APACHE_DOCS = "https://httpd.apache.org/docs/2.4/mod/mod_log_config.html"
NGINX_DOCS = "https://nginx.org/en/docs/http/ngx_http_log_module.html#log_format"
# The fields that a layout or keys may name: those of `tidemark.parse.values.columns_of`, and parts of a time.
FIELDS = (
    "client_ip", "remote_user", "time", "date", "clock", "fraction", "zone", "request", "method", "target", "query",
    "protocol", "status", "bytes", "referrer", "user_agent", "host", "duration_s", "duration_ms", "duration_us",
    "duration_ns", "edge_country", "forwarded",
)  # fmt: skip

_VARIABLES = {
    "remote_addr": "client_ip", "realip_remote_addr": "client_ip", "remote_user": "remote_user", "time_local": "time",
    "time_iso8601": "time", "msec": "time", "request": "request", "request_method": "method", "request_uri": "target",
    "uri": "target", "document_uri": "target", "args": "query", "query_string": "query", "server_protocol": "protocol",
    "status": "status", "body_bytes_sent": "bytes", "bytes_sent": "bytes", "http_referer": "referrer",
    "http_user_agent": "user_agent", "host": "host", "http_host": "host", "server_name": "host",
    "request_time": "duration_s", "http_x_forwarded_for": "forwarded", "proxy_add_x_forwarded_for": "forwarded",
    "geoip_country_code": "edge_country", "geoip2_country_code": "edge_country", "http_cf_ipcountry": "edge_country",
}  # fmt: skip
_DIRECTIVES = {
    "h": "client_ip", "a": "client_ip", "u": "remote_user", "r": "request", "m": "method", "U": "target", "q": "query",
    "H": "protocol", "s": "status", "b": "bytes", "B": "bytes", "O": "bytes", "v": "host", "V": "host",
    "D": "duration_us", "T": "duration_s",
}  # fmt: skip
# Addresses that others have told the server. They are the client only where the server's own is not logged.
_TOLD = {
    "proxy_protocol_addr", "http_x_real_ip", "http_cf_connecting_ip", "http_true_client_ip", "http_x_client_ip",
    "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip",
}  # fmt: skip
_HEADERS = {
    "referer": "referrer", "user-agent": "user_agent", "host": "host", "x-forwarded-for": "forwarded",
    "cf-ipcountry": "edge_country",
}  # fmt: skip
_TIMES = {"sec": "time", "msec": "time", "usec": "time", "msec_frac": "fraction", "usec_frac": "fraction"}
_UNITS = {"s": "duration_s", "ms": "duration_ms", "us": "duration_us"}
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_DIRECTIVE = re.compile(r"%[!\d,]*[<>]?(?:\{([^}]*)\})?[<>]?(\^?[A-Za-z%]{1,2}?)(?<!\^)(?=.|$)", re.DOTALL)
_TOLD_IP = "told_ip"
_REQUIRED = ("time", "status")
# Something of a request or of a connection.
_ASKED = ("client_ip", "request", "target", "host")


def reading_of(settings: Settings) -> Reading:
    """How lines are read with these settings. Raises SettingError for a format that cannot be."""
    sites = {name: SiteReading(**asdict(site)) for name, site in settings.sites.items()}
    own = tuple(own_format(name, each) for name, each in settings.formats.items())
    declared = {name: each.declared for name, each in settings.formats.items()}
    return Reading(sites, own, repr(sorted(declared.items())))


def own_format(name: str, declared: FormatSettings) -> Format:
    """The format of a declaration. Raises SettingError if it cannot be read."""
    if name in FORMATS:
        raise SettingError(f"the format {name} already exists", "Choose another name.")
    made: Layout | JsonFormat
    if declared.apache:
        made = apache(name, declared.apache)
    elif declared.nginx:
        made = nginx(name, declared.nginx)
    elif declared.layout:
        made = layouts(name, declared.layout)
    else:
        made = objects(name, declared.keys)
    made = replace(
        made,
        about=declared.about or made.about,
        docs=declared.docs or made.docs,
        examples=declared.examples,
        detected=declared.detected,
    )
    if not declared.pattern:
        return made
    if isinstance(made, JsonFormat):
        raise SettingError(f"the format {name} of JSON objects has a pattern", "Leave it out.")
    try:
        pc.match_substring_regex(pa.array([""]), declared.pattern)
    except pa.ArrowInvalid as error:
        raise SettingError(
            f"the pattern of format {name} is no regular expression: {error}",
            "Write it in the syntax of RE2, which has no look-around.",
        ) from error
    return replace(made, pattern=declared.pattern)


def layouts(name: str, texts: Sequence[str]) -> Layout:
    """The format of lines with these layouts in Tidemark's notation. Raises SettingError."""
    for text in texts:
        _only_known(name, re.findall(r"\$(\w+)", text))
    made = [_layout(name, "A layout of the settings.", "", text) for text in texts]
    return replace(made[0], layouts=tuple(each.layouts[0] for each in made))


def objects(name: str, keys: Mapping[str, Sequence[str]]) -> JsonFormat:
    """The format of JSON objects with the fields at these paths: names with dots in between, or with `>` as Caddy
    writes them. Raises SettingError."""
    _only_known(name, keys)
    paths = {
        each: tuple(path.replace(">", ".") for path in places)
        for each, places in keys.items()
        if not each.startswith("_")
    }
    _require(name, paths)
    paths.setdefault("client_ip", ())
    marks = [
        path.replace(">", ".") for each, places in keys.items() if each.startswith("_") for path in places
    ]
    return JsonFormat(
        name, "JSON objects of the settings.", "", (), tuple(marks), paths, refine=_refined, detected=False
    )


def _only_known(name: str, fields: Iterable[str]) -> None:
    for each in fields:
        if each not in FIELDS and not each.startswith(("_", "upstream")):
            raise SettingError(
                f"the format {name} has an unknown field {each}",
                f"Use one of {', '.join(FIELDS)}, or _{each} for one that only has to be there.",
            )


def nginx(name: str, text: str) -> Layout | JsonFormat:
    """The format of nginx's `log_format`, which may be JSON. Raises SettingError."""
    about, docs = "nginx's `log_format` of the settings.", NGINX_DOCS
    if text.lstrip().startswith("{"):
        keys = _keys(name, text)
        return JsonFormat(name, about, docs, (), (), keys, refine=_refined, detected=False)
    return _layout(
        name, about, docs, _VARIABLE.sub(lambda found: f"${_variable(found[1] or found[2])}", text)
    )


def apache(name: str, text: str) -> Layout:
    """The format of Apache's `LogFormat`. Raises SettingError."""
    text = text.replace('\\"', '"').replace("\\t", "\t").replace("%U%q", "%U").replace("$", "\x00")
    layout = _DIRECTIVE.sub(lambda found: _directive(found[1], found[2]), text)
    return _layout(name, "Apache's `LogFormat` of the settings.", APACHE_DOCS, layout)


def _variable(name: str) -> str:
    # An upstream's variables have a value for each server that was asked, with blanks in between.
    if name in _TOLD:
        return _TOLD_IP
    return _VARIABLES.get(name, name if name.startswith("upstream") else f"_{name}")


def _directive(argument: str | None, letter: str) -> str:
    if letter == "%":
        return "%"
    if letter == "t":
        return _time(argument)
    if letter == "T" and argument:
        return f"${_UNITS.get(argument, '_duration')}"
    if letter == "i" and argument:
        header = argument.lower()
        return f"${_TOLD_IP if header in _TOLD else _HEADERS.get(header, '_header')}"
    return "$" + _DIRECTIVES.get(letter, f"_{letter[-1]}")


def _time(form: str | None) -> str:
    if not form:
        return "[$time]"
    form = re.sub("^(?:begin|end):", "", form)
    if form == "%z":
        return "$zone"
    if form in _TIMES:
        return f"${_TIMES[form]}"
    has_date, has_clock = re.search("%[YyFDcs]", form), re.search("%[HTRXcs]", form)
    return "$time" if has_date and has_clock else "$date" if has_date else "$clock"


def _layout(name: str, about: str, docs: str, layout: str) -> Layout:
    known: set[str] = set()
    if "$client_ip" not in layout:
        layout = layout.replace(f"${_TOLD_IP}", "$client_ip")

    def once(found: re.Match[str]) -> str:
        field = found[1]
        unique = field not in known
        known.add(field)
        return f"${field}" if unique or field.startswith("_") else f"$_{field}"

    layout = re.sub(r"\$(\w+)", once, layout.strip()).replace("\x00", "$")
    if re.search(r"\$\w+\$", layout):
        raise SettingError(
            f"the format {name} has two fields without a text in between",
            "Put a text, such as a space, between them.",
        )
    _require(name, known)
    # Otherwise an envelope could be taken for a part of the first field.
    pattern = r"^\d" if layout.startswith(("$time", "$date", "$clock")) else ""
    return Layout(
        name, about, docs, (), pattern, (layout,), refine=_refined, detected=False, verbatim="\t" in layout
    )


def _keys(name: str, text: str) -> Mapping[str, tuple[str, ...]]:
    quoted = re.sub(r'(?<![\w"$])(\$\{?\w+\}?)(?=\s*[,}\]])', r'"\1"', text)
    try:
        shape = json.loads(quoted)
    except ValueError as error:
        raise SettingError(f"the format {name} is not JSON: {error}", "Correct it.") from error
    keys: dict[str, tuple[str, ...]] = {}
    for path, value in _paths(shape):
        if found := _VARIABLE.fullmatch(value):
            field = _variable(found[1] or found[2])
            keys[field] = (*keys.get(field, ()), path)
    if _TOLD_IP in keys:
        keys.setdefault("client_ip", keys[_TOLD_IP])
    _require(name, keys)
    return keys


def _paths(shape: Mapping[str, object], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in shape.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{before}{name}.")
        elif isinstance(value, str):
            yield before + name, value


def _require(name: str, fields: Iterable[str]) -> None:
    there = set(fields)
    if "date" in there and "clock" in there:
        there.add("time")
    lacking = [field for field in _REQUIRED if field not in there]
    if not there.intersection(_ASKED):
        lacking.append(" or ".join(_ASKED))
    if lacking:
        raise SettingError(
            f"the format {name} lacks {', '.join(lacking)}",
            "A line of it must have a time, a status, and something of a request.",
        )


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """Puts a time together that is in several fields."""
    if "date" in texts and "clock" in texts:
        texts["time"] = pc.binary_join_element_wise(texts["date"], texts["clock"], " ")
    if "fraction" in texts and "time" in texts:
        texts["time"] = pc.binary_join_element_wise(texts["time"], texts["fraction"], ".")
    if "zone" in texts and "time" in texts:
        texts["time"] = pc.binary_join_element_wise(texts["time"], texts["zone"], "")
    return texts

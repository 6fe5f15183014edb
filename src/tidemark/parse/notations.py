"""Servers' notations of a log format, translated into Tidemark's own: Apache's `LogFormat`, nginx's `log_format`,
HAProxy's `log-format` and the `pattern` of Tomcat's AccessLogValve.

The result has `$name` in place of each field, see `tidemark.parse.layout.Layout`; LITERAL stands for a `$` of the text.
Names that begin with an underscore stand for values that Tidemark has no column for. `given_ip` is an address that a
proxy gives to the server, or that of a proxy: the client only where a line has no other one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from tidemark.errors import SettingError

LITERAL = "\x00"

_GIVEN_IP = "given_ip"
_VARIABLES = {
    "remote_addr": "client_ip", "realip_remote_addr": _GIVEN_IP, "remote_user": "remote_user", "time_local": "time",
    "time_iso8601": "time", "msec": "time", "request": "request", "request_method": "method", "request_uri": "target",
    "uri": "target", "document_uri": "target", "args": "query", "query_string": "query", "server_protocol": "protocol",
    "status": "status", "body_bytes_sent": "bytes", "bytes_sent": "bytes", "host": "host", "server_name": "host",
    "request_time": "duration_s", "proxy_add_x_forwarded_for": "forwarded", "geoip_country_code": "edge_country",
    "geoip2_country_code": "edge_country", "proxy_protocol_addr": _GIVEN_IP,
}  # fmt: skip
_HEADERS = {
    "referer": "referrer", "user-agent": "user_agent", "host": "host", "x-forwarded-for": "forwarded",
    "cf-ipcountry": "edge_country", "x-real-ip": _GIVEN_IP, "cf-connecting-ip": _GIVEN_IP, "true-client-ip": _GIVEN_IP,
    "x-client-ip": _GIVEN_IP, "sec-gpc": "gpc", "dnt": "gpc",
}  # fmt: skip
# nginx has a variable for each header of the request.
_VARIABLES |= {f"http_{name.replace('-', '_')}": field for name, field in _HEADERS.items()}
# Of Apache and of Tomcat, whose `%D` is not here because its unit depends on the version.
_DIRECTIVES = {
    "h": "client_ip", "a": "client_ip", "u": "remote_user", "r": "request", "m": "method", "U": "target", "q": "query",
    "H": "protocol", "s": "status", "b": "bytes", "B": "bytes", "O": "bytes", "v": "host", "V": "host",
    "T": "duration_s",
}  # fmt: skip
_TIMES = {"sec": "time", "msec": "time", "usec": "time", "msec_frac": "fraction", "usec_frac": "fraction"}
_UNITS = {"s": "duration_s", "ms": "duration_ms", "us": "duration_us", "fracsec": "duration_s"}
_DIRECTIVE = re.compile(r"%[!\d,]*[<>]?(?:\{([^}]*)\})?[<>]?(\^?[A-Za-z%]{1,2}?)(?<!\^)(?=.|$)", re.DOTALL)
VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

_TOMCAT = {
    "common": '%h %l %u %t "%r" %s %b',
    "combined": '%h %l %u %t "%r" %s %b "%{Referer}i" "%{User-Agent}i"',
}

_ALIASES = {
    "ci": "client_ip", "r": "request", "HM": "method", "HP": "target", "HPO": "target", "HU": "target", "HQ": "query",
    "HV": "protocol", "ST": "status", "B": "bytes", "t": "time", "tr": "time", "T": "time", "trg": "time", "Tl": "time",
    "trl": "time", "Ts": "time", "hr": "captured",
}  # fmt: skip
# The time of the whole request, the preferred one first.
_TOTALS = ("Ta", "Tt", "Tu")
_SAMPLES = {
    "src": "client_ip", "method": "method", "path": "target", "pathq": "target", "url": "target", "query": "query",
    "status": "status", "capture.req.method": "method", "capture.req.uri": "target", "capture.req.ver": "protocol",
    "req.ver": "protocol", "bytes_out": "bytes",
}  # fmt: skip
_ITEM = re.compile(
    r"%(?:\([^)]*\))?(?:\{(?P<flags>[^}]*)\})?"
    r"(?:\[(?P<sample>(?:[^\[\]]|\[[^\]]*\])*)\]|(?P<alias>[A-Za-z]+)|(?P<percent>%))"
)
_FETCH = re.compile(r"(?:req\.f?hdr|hdr)\((?P<header>[\w-]+)[,)]")
# Values that HAProxy writes with quotes with the flag Q: not numbers and times.
_QUOTED = (
    "ci", "r", "HM", "HP", "HPO", "HQ", "HU", "HV", "b", "f", "ft", "s", "hr", "hs", "CC", "CS", "ID", "H", "si", "bi",
    "fi", "sslc", "sslv",
)  # fmt: skip
# What HAProxy writes for captured headers: nothing without any, then not even the space in front.
_CAPTURES = {"hr": "{$captured}", "hs": "{$_captured}"}


def nginx(text: str) -> str:
    """The layout of a `log_format` that is not JSON."""
    return VARIABLE.sub(lambda match: f"${variable(match[1] or match[2])}", text)


def variable(name: str) -> str:
    """The field of a variable of nginx."""
    # An upstream's variables have a value for each server that was asked, with blanks in between.
    return _VARIABLES.get(name, name if name.startswith("upstream") else f"_{name}")


def apache(text: str) -> str:
    """The layout of a `LogFormat`."""
    text = text.replace('\\"', '"').replace("\\t", "\t")
    return _directives(text, "duration_us")


def tomcat(name: str, text: str) -> str:
    """The layout of a `pattern`, which may be one of its two names; `name` is that of the format. Raises
    SettingError."""
    text = html.unescape(_TOMCAT.get(text, text))
    if "%D" in text:
        raise SettingError(
            f"the format {name} has %D, which is in milliseconds up to Tomcat 9, and then in microseconds",
            "Write %{ms}T or %{us}T in its place.",
        )
    return _directives(text, "")


def _directives(text: str, taken: str) -> str:
    """`taken` is the field of `%D`."""
    # The query begins with its question mark, so that both are the target.
    text = text.replace("%U%q", "%U").replace("$", LITERAL)
    return _DIRECTIVE.sub(lambda match: _directive(match[1], match[2], taken), text)


def _directive(argument: str | None, letter: str, taken: str) -> str:
    if letter == "%":
        return "%"
    if letter == "t":
        return _time(argument)
    if letter == "D":
        return f"${taken}"
    if letter == "T" and argument:
        return f"${_UNITS.get(argument, '_duration')}"
    if letter == "i" and argument:
        return f"${_HEADERS.get(argument.lower(), '_header')}"
    if letter == "a" and argument == "c":  # the proxy behind which the client is
        return f"${_GIVEN_IP}"
    if argument and letter in "sr":  # attributes of Tomcat's sessions and requests
        return "$_attribute"
    return "$" + _DIRECTIVES.get(letter, f"_{letter[-1]}")


def _time(form: str | None) -> str:
    if not form:
        return "[$time]"
    form = re.sub("^(?:begin|end):", "", form)
    if form == "%z":
        return "$zone"
    if form in _TIMES:
        return f"${_TIMES[form]}"
    # As of strftime, or of Java's SimpleDateFormat.
    date, clock = ("%[YyFDcs]", "%[HTRXcs]") if "%" in form else ("[yY]", "[Hhk]")
    has_date, has_clock = re.search(date, form), re.search(clock, form)
    return "$time" if has_date and has_clock else "$date" if has_date else "$clock"


def haproxy(text: str) -> list[str]:
    """The layouts of a `log-format`, with and without captured headers."""
    text = text.replace("\\ ", " ").replace('\\"', '"').replace("$", LITERAL)
    items = {match["alias"] for match in _ITEM.finditer(text)}
    fields = _ALIASES | dict.fromkeys([each for each in _TOTALS if each in items][:1], "duration_ms")
    if "Ts" in items:  # other times have their milliseconds, or a zone after the seconds
        fields["ms"] = "fraction"
    always = False

    def field(match: re.Match[str]) -> str:
        nonlocal always
        flags, alias = match["flags"] or "", match["alias"] or ""
        if match["percent"]:
            return "%"
        if alias == "o":  # sets the flags of all others
            always = "+Q" in flags
            return ""
        name = _sample(match["sample"]) if match["sample"] is not None else fields.get(alias, f"_{alias}")
        quoted = "+Q" in flags or (always and "-Q" not in flags)
        value = _CAPTURES.get(alias, f"${name}")
        return f'"{value}"' if quoted and (alias in _QUOTED or not alias) else value

    return list(dict.fromkeys(_without_captures(_ITEM.sub(field, text).strip())))


def _sample(expression: str) -> str:
    """The field of a sample expression, which may be a header of the request."""
    if match := _FETCH.match(expression):
        return _HEADERS.get(match["header"].lower(), "_header")
    return _SAMPLES.get(expression.split(",")[0], "_sample")


def _without_captures(layout: str) -> Iterator[str]:
    yield layout
    for value in _CAPTURES.values():
        if f" {value}" in layout:
            yield from _without_captures(layout.replace(f" {value}", "", 1))

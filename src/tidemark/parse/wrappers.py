"""Log lines inside the envelopes that shippers put around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Flags, extracted, flags_at, flags_of, matches, where
from tidemark.parse.clf import NAME, NAME_ALONE
from tidemark.parse.objects import Objects, is_object, objects_of
from tidemark.parse.text import Lines

# The key at which an object inside one gets that one's time.
ENVELOPE_TIME = "_envelope_time"
# JSON: Docker and Fluent Bit, Vector and Filebeat, journald, Filebeat once it has parsed a line, Google Cloud, the
# OpenTelemetry Collector, CloudWatch, Splunk and its exports, Azure's App Service, GELF, NXLog, Datadog.
PATHS = (
    "log", "message", "MESSAGE", "event.original", "textPayload", "body", "Body", "msg", "line", "@message", "_raw",
    "_source.message", "resultDescription", "properties", "result._raw", "full_message", "short_message", "Message",
    "raw", "content.message",
)  # fmt: skip

_ISO = r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:?\d\d)"
# With the name `time`, it is that of an object behind it that has none.
_TIME = rf"(?P<time>{_ISO}|\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:[+-]\d{{4}}|UTC))"
_SYSLOG_TIME = r"[A-Z][a-z]{2} [ \d]\d (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?"
# As of syslog, also with an ISO time, and as `journalctl` writes it in its other forms.
_WHEN = (
    rf"(?:{_SYSLOG_TIME}|{_TIME}|\d{{10}}\.\d+"
    r"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z0-9:+-]+)"
)
_PRIORITY = r"(?:<\d{1,3}>)?"
_HOST = r'(?:(?:[^ :{"]+(?::\d+)?|[0-9A-Fa-f:.]+) )?'
# Without the blank, an address or a host with a port in front of a line would be a tag, too.
_TAG = r'[^ :\[{"]+(?:\[[^ \]]*\]: ?|: )'
_SERVICE = r"[A-Za-z0-9][A-Za-z0-9_.@|-]*"
_DATA = r'(?:-|(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\])+)'
_LABELS = r'{(?:\w+="(?:[^"\\]|\\.)*",? ?)*}'
# Objects behind words, such as the tag of fluentd, `stern` or `grep -H`: Caddy's of its console encoder, which have
# their time in front; those behind a time; and others.
_CONSOLE = (
    r"(?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT[^ \t]+|\d{9,}(?:\.\d+)?|\d\.\d+e\+\d+)"
    r'\t[A-Za-z]+\t[^{"]*{.*}'
)
_OBJECTS = (
    rf'^(?:[^{{"]*?[ \t=:|>\]-])??(?P<line>{_CONSOLE})$',
    rf'^[^{{"]*?\b{_TIME}[^{{"]*(?P<line>{{ *".*}})$',
    r'^[^{"]*(?P<line>{ *".*})$',
)
# Syslog as of RFC 3164 (also as files have it, and behind the head of a relay), of RFC 5424, also behind its length;
# CRI; Loki's `logcli`; journald's export; `docker compose logs`, `docker service logs` and `pm2 logs`; `kubectl logs
# --prefix`; a time alone, as of `docker logs -t`.
_PATTERNS = (
    rf"^{_PRIORITY}(?:{_SYSLOG_TIME} [^ :]+ {_PRIORITY}{_SYSLOG_TIME}|{_WHEN}) {_HOST}{_TAG}(?P<line>.*)$",
    rf"^(?:\d+ )?<\d{{1,3}}>\d (?:{_TIME}|[^ ]+) [^ ]+ [^ ]+ [^ ]+ [^ ]+ {_DATA} (?P<line>.*)$",
    rf"^{_TIME} (?:stdout|stderr) F (?P<line>.*)$",
    rf"^{_TIME}[ \t]+{_LABELS}[ \t]+(?P<line>.*)$",
    r"^MESSAGE=(?P<line>.*)$",
    rf"^{_SERVICE} +\| (?P<line>.*)$",
    r"^\[pod/[^\] ]+\] (?P<line>.*)$",
    rf"^{_TIME} (?P<line>.*)$",
    # An object of a JSON array that has one on each line.
    r"^[\[,] *(?P<line>{.*}) *\]?,?$",
    r"^(?P<line>{.*}) *[\],]+$",
    # Ambassador's name of Envoy's log.
    r"^ACCESS (?P<line>\[\d{4}-\d\d-\d\dT.*)$",
)
# Loggers, `stern`, `grep -H` and others put words in front of a line of the combined family. The line begins at the
# last address, or list of addresses, before its time, or at the host with a port in front of it.
_REST = r'(?:, ?[^ ,"]+)*(?: [^ \["]+)+ \[[^\]"]+\] +".*)$'
_COLUMN = r"(?:\d\d:\d\d[^ ,;]*|\b\d{10,19})[,;]"  # a time in front of a comma
_IPV4 = r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?"
_IPV6 = "(?:[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*|(?:[0-9A-Fa-f]+:){7}[0-9A-Fa-f]+)"
# The names of source files with a number are no hosts.
_PORT = ":(?:80|443|8080|8443)"
# `grep -H`, also with numbers of lines, and with lines around them. An address of IPv6 follows a colon only if it
# begins as those in use do.
_GREP = r'^[^ "]*?[^ "0-9A-Fa-f:][^ "]*?(?::(?:\d+:)??|-\d+-)'
_IN_USE = "(?:(?:2[0-9A-Fa-f]{3}|[Ff][C-Fc-f][0-9A-Fa-f]{2})(?::[0-9A-Fa-f]*){2,7}|::[0-9A-Fa-f:.]*)"
_AFTER_WORDS = (
    rf"{_GREP}(?P<line>(?:{NAME} )?(?:{_IPV4}|{_IN_USE}){_REST}",
    rf'^[^"]*(?:[^,][ \t]|[|>\]])(?P<line>{NAME_ALONE}{_PORT} (?:{_IPV4}|{_IPV6}){_REST}',
    rf'^[^"]*(?:[^,][ \t]|[:|>\]]|{_COLUMN})(?P<line>{_IPV4}{_REST}',
    rf'^[^"]*(?:[^,][ \t]|[|>\]]|{_COLUMN})(?P<line>{_IPV6}{_REST}',
    rf'^[^"]*[ \t](?P<line>"(?:{_IPV4}|{_IPV6})"{_REST}',
    # Syslog without a tag.
    rf"^{_PRIORITY}{_SYSLOG_TIME} [^ :]+ (?P<line>[^ ].*)$",
)
_MAY_HAVE_WORDS = rf'\] +"|^{_PRIORITY}{_SYSLOG_TIME} '
_BEGIN = (
    r"^(?:(?:\d+ )?<\d|[A-Z][a-z]{2} (?:[ \d]\d |\d{4}-)|\d{4}-\d\d-\d\d[T ]|\d{10}\.\d|MESSAGE=|\[pod/"
    rf"|ACCESS \[|{_SERVICE} +\| |[\[,] *{{|{{.*[\],]$)"
)
# Control characters as rsyslog escapes them: tabs between the first fields, colours, and the ends of lines.
_LINE_END = "#015"
_COLOUR = r"#033\[[0-9;:]*m"
_MAY_BE_ESCAPED = rf"^[^\"{{]*#011|{_COLOUR}|#01[25]$"
# The first column of CSV with quoted words or an object, as viewers of logs export it: its quotes are doubled.
_CSV = r'^(?:(?:[^",;]*|"(?:[^"]|"")*")[,;])*?"(?P<line>(?:(?:[^"]|"")*(?: ""|=""/|\|"")|{"")(?:[^"]|"")*)"(?:[,;].*)?$'
# Objects that have the line as an object, of at most three levels, at one of these keys: those of Google Cloud,
# Elasticsearch, Splunk, Fluent Bit and Filebeat. Its time may be in the outer one.
_TEXT = r'"(?:[^"\\]|\\.)*"'
_FLAT = rf'{{(?:[^{{}}"]|{_TEXT})*}}'
_DEEPER = rf'{{(?:[^{{}}"]|{_TEXT}|{_FLAT})*}}'
_NESTED = (
    r'^{.*?"(?:jsonPayload|_source|event|log_processed|message|log|access|data|fields|attributes|@?nginx(?:_fields)?)"'
    rf' *: *(?P<line>{{(?:[^{{}}"]|{_TEXT}|{_DEEPER})*}})'
)
# Azure's list of a single record.
_RECORD = r'^{ *"records" *: *\[ *(?P<line>{.*}) *\] *}$'
_TIMES = ("@timestamp", "timestamp", "time", "date", "ts", ENVELOPE_TIME)
_OUTSIDE = rf'"(?:{"|".join(_TIMES)})" *: *(?P<time>"[^"\\]*"|\d+(?:\.\d+)?)'
_CLF_TIME = r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)? [+-]\d{4}"
# PHP-FPM writes no size, but may write the script, milliseconds, kilobytes of memory and a share of the processor.
_FPM = r" [^ ]+ (\d+\.\d+) \d+ \d+\.\d+%$"
_BARE_TIME = rf'^(?P<before>[^"\[]* )(?P<time>{_CLF_TIME})(?P<behind> +"[^"]*" \d{{3}}(?: (?:\d|-).*| .*%)?)$'
_BARE_REQUEST = r'^(?P<before>[^"]*\] )(?P<request>[A-Z]+ [^" ]+ HTTP/\d(?:\.\d)?)(?P<behind> \d{3} .*)$'
_SLASHED = r'[^\\]" \d{3} (?:\d+|-) \\"'
# A line in quotes, and one whose quotes are all escaped.
_QUOTED = r"""^(?:"[^"\s].*"|'[^'\s].*')$"""
_ESCAPED = r"""^(?:[^"\\]|\\[^"])*\\"(?:[^"\\]|\\.)*$"""
# A part of a line that CRI split, but for the last one; and of one that Docker split, at so many bytes.
_CRI_PART = rf"^{_ISO} (?:stdout|stderr) P "
_DOCKER_BYTES = 16 * 1024


def unwrapped(text: pa.Array) -> pa.Array:
    """The lines inside the envelopes of syslog, CRI and journald, inside JSON strings, objects and CSV, and behind
    other words; NULL where there is none."""
    unescaped = _unescaped(text)
    text = pc.coalesce(unescaped, text)
    result = pc.coalesce(_columns(text), _strings(text), _nested(text), _plain(text))
    behind = flags_of(pc.ends_with(text, "}")) & ~flags_of(pc.starts_with(text, "{"))
    result = _inside(text, result, _OBJECTS, behind & flags_of(pc.is_null(result)))
    enveloped = matches(text, _BEGIN) & flags_of(pc.is_null(result))
    result = _inside(text, result, _PATTERNS, enveloped)
    open_ = matches(text, _MAY_HAVE_WORDS) & flags_of(pc.is_null(result))
    return pc.coalesce(_inside(text, result, _AFTER_WORDS, open_), unescaped)


def may_be_escaped(text: pa.Array, no_http: Flags) -> Flags:
    """Which lines may have control characters that rsyslog has escaped: at the end, or, of those whose requests are
    `no_http`, as colours."""
    result = flags_of(pc.ends_with(text, _LINE_END))
    rows = np.flatnonzero(no_http)
    if len(rows):
        result[rows] |= matches(text.take(pa.array(rows)), _COLOUR)
    return result


def _unescaped(text: pa.Array) -> pa.Array:
    """The lines with control characters that rsyslog has escaped as they were; NULL for other lines."""
    which = matches(text, _MAY_BE_ESCAPED)
    if not which.any():
        return pa.nulls(len(text), pa.string())
    some = pc.replace_substring_regex(where(which, text, None), rf"{_COLOUR}|(?:#01[25])+$", "")
    parts = pc.extract_regex(some, r'^(?P<head>[^"{]*)(?P<rest>(?s:.*))$')
    head = pc.replace_substring(pc.struct_field(parts, "head"), "#011", "\t")
    return pc.binary_join_element_wise(head, pc.struct_field(parts, "rest"), "")


def _inside(text: pa.Array, result: pa.Array, patterns: Sequence[str], open_: Flags) -> pa.Array:
    """`result`, and for the flagged texts the line that the first fitting pattern finds in them, with the time that it
    finds in front of an object."""
    rows = np.flatnonzero(open_)
    for pattern in patterns:
        if not len(rows):
            break
        parts = pc.extract_regex(text.take(pa.array(rows)), pattern)
        inner = pc.struct_field(parts, "line")
        if parts.type.get_field_index("time") >= 0:
            inner = _with_time(inner, pc.struct_field(parts, "time"))
        there = flags_of(pc.is_valid(inner))
        mask = pa.array(flags_at(rows[there], len(text)))
        result = pc.replace_with_mask(result, mask, inner.filter(pa.array(there)))
        rows = rows[~there]
    return result


def partial(lines: Lines) -> Flags:
    """Which lines are parts of lines that a container runtime split, without their last one."""
    text = lines.text
    parts = matches(text, _CRI_PART)
    long = is_object(text) & flags_of(pc.greater_equal(pc.binary_length(text), _DOCKER_BYTES))
    if long.any():
        log = objects_of(text.filter(pa.array(long)), ("log", "stream")).texts
        if {"log", "stream"} <= set(log):
            split = flags_of(pc.greater_equal(pc.binary_length(log["log"]), _DOCKER_BYTES))
            parts[long] = (
                split & flags_of(pc.is_valid(log["stream"])) & ~flags_of(pc.ends_with(log["log"], "\n"))
            )
    return parts


def _columns(text: pa.Array) -> pa.Array:
    """The lines in a column of CSV, with their quotes as they were; NULL for other lines."""
    doubled = flags_of(pc.match_substring(text, '""'))
    lines = _inside(text, pa.nulls(len(text), pa.string()), (_CSV,), doubled)
    return pc.replace_substring(lines, '""', '"')


def _strings(text: pa.Array) -> pa.Array:
    """The lines in quotes: JSON strings, as the Kafka exporter of OpenTelemetry writes them, also without the quotes
    around them, those of CSV, and lines whose own quotes are as they were; NULL for other lines."""
    result = pa.nulls(len(text), pa.string())
    escaped = matches(text, _ESCAPED)
    if escaped.any():
        text = where(~escaped, text, pc.binary_join_element_wise('"', text, '"', ""))
    quoted = matches(text, _QUOTED)
    if not quoted.any():
        return result
    mask = pa.array(quoted)
    some = text.filter(mask)
    bare = pc.utf8_slice_codeunits(some, 1, -1)
    doubled = ~matches(bare, r'(?:^|[^"])"(?:[^"]|$)')
    bare = where(~doubled, bare, pc.replace_substring(bare, '""', '"'))
    objects = objects_of(pc.binary_join_element_wise('{"line":', some, "}", ""), ["line"])
    inner = pc.coalesce(objects.texts.get("line", pa.nulls(len(some), pa.string())), bare)
    return pc.replace_with_mask(result, mask, inner)


def _nested(text: pa.Array) -> pa.Array:
    """The objects within objects, with the time of the outer one; NULL for other lines."""
    inner = _inside(text, pa.nulls(len(text), pa.string()), (_RECORD, _NESTED), is_object(text))
    if inner.null_count == len(inner):
        return inner
    outer = where(flags_of(pc.is_valid(inner)), text, None)
    time = extracted(outer, _OUTSIDE, "time")
    return _with_time(inner, pc.utf8_trim(time, '"'))


def _plain(text: pa.Array) -> pa.Array:
    """Lines of the combined family as they should be: with brackets around the time, which Undertow and PHP-FPM do not
    write, with quotes around the request, and without the backslashes that HAProxy's configuration has in a quoted
    log-format; NULL for other lines."""
    parts = pc.extract_regex(text, _BARE_TIME)
    before, time, behind = (pc.struct_field(parts, name) for name in ("before", "time", "behind"))
    behind = pc.replace_substring_regex(behind, _FPM, r" - \1ms")
    bracketed = pc.binary_join_element_wise(before, "[", time, "]", behind, "")
    parts = pc.extract_regex(text, _BARE_REQUEST)
    before, request, behind = (pc.struct_field(parts, name) for name in ("before", "request", "behind"))
    quoted = pc.binary_join_element_wise(before, '"', request, '"', behind, "")
    slashed = where(matches(text, _SLASHED), text, None)
    return pc.coalesce(bracketed, quoted, pc.replace_substring_regex(slashed, r'\\(["\d-]|$)', r"\1"))


def inside(objects: Objects) -> pa.Array:
    """The lines inside JSON objects, with the time of the object if they are JSON, too; NULL where there is none."""
    return _with_time(objects.first(PATHS), objects.first(_TIMES))


def _with_time(text: pa.Array, time: pa.Array) -> pa.Array:
    """The same texts, with the time of their envelope in those that are objects."""
    timed = flags_of(pc.starts_with(text, "{")) & matches(time, r"^[\w:.,+/ -]+$")
    if not timed.any():
        return text
    rest = pc.utf8_slice_codeunits(text, 1)
    return where(~timed, text, pc.binary_join_element_wise(f'{{"{ENVELOPE_TIME}":"', time, '",', rest, ""))

"""Roles by the name of a value: a key in front of it, the heading of its column, or its path in an object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tidemark.parse.formats.nginx_json import DURATIONS, KEYS, MARKS

# Besides the names that `nginx_json` reads, those of other servers and frameworks.
_FURTHER = {
    "client_ip": ("rip", "cip", "peer", "peer_addr", "host_ip", "visitor_ip", "x_real_ip", "real_ip", "from",
                  "sourceip", "clienthost", "remoteaddr", "requester", "ip_address", "address", "caller"),
    "remote_user": ("auth", "userid", "user_id", "login", "principal", "account"),
    "time": ("t", "at", "when", "logged_at", "created_at", "created", "event_time", "request_start", "started", "start",
             "started_at", "received_at", "finished", "local_time", "utc", "epoch", "epoch_ms", "ms", "isotime"),
    "date": ("date", "day"),
    "clock": ("time", "clock"),
    "request": ("req", "first_line", "http_request", "line"),
    "method": ("m", "meth", "req_method", "httpmethod", "action"),
    "target": ("target", "req_url", "req_path", "uri_path", "original_url", "originalurl", "fullpath", "full_path",
               "request", "endpoint", "resource", "route", "req", "page", "location", "raw_path", "http_path"),
    "query": ("qs", "search", "params"),
    "protocol": ("http", "http_protocol", "version", "http_proto", "ver"),
    "status": ("s", "st", "sc", "rc", "http_code", "httpcode", "resp_status", "resp_code", "return_code", "result",
               "res", "answer", "final_status", "httpstatus", "httpstatuscode", "rstatus"),
    "bytes": ("b", "out", "sent", "len", "resp_size", "resp_bytes", "bytes_out", "content_length", "response_bytes",
              "response_content_length", "sz", "written", "bytes_written", "resp_length", "body_size", "octets"),
    "referrer": ("ref", "http_ref", "from_url", "from_page"),
    "user_agent": ("agent_string", "browser", "client_agent", "http_agent"),
    "host": ("v", "vh", "hostname", "site", "req_host", "http_vhost", "authority", "server"),
    "duration": ("rt", "dur", "took", "elapsed", "latency", "response_time", "responsetime", "resp_time", "time_taken",
                 "timetaken", "request_time", "request_duration", "processing_time", "service_time", "time", "d",
                 "run_time", "runtime", "total_time", "elapsed_time", "exec_time", "execution_time", "in", "after",
                 "response", "resp", "reqtime", "spent", "cost", "ttlb", "process_time"),
    "edge_country": ("country", "cc", "geo", "geoip_country", "client_country"),
    "forwarded": ("xff", "fwd", "forwarded", "http_forwarded_for", "proxies", "forwarded_ips"),
}  # fmt: skip
_UNITS = {
    "s": ("s", "sec", "secs", "second", "seconds"),
    "ms": ("ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"),
    "us": ("us", "usec", "usecs", "micro", "micros", "microsecond", "microseconds"),
    "ns": ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words in the name of a value of another connection, or of none of a request's.
_OTHERS = re.compile(
    r"^(?:upstream|backend|origin|server|local|proxy|dst|dest|destination|port|sport|pid|tid|thread|worker|conn|connection"
    r"|connect|received|recv|rcvd|rx|in|read|trace|span|session|sid|cookie|ssl|tls|cipher|cache|retry|retries|attempt"
    r"|attempts|line|lineno|seq|sequence|count|level|severity|header|headers|ttfb|first|queue|queued|wait|wall|id|uuid|ratio"
    r"|gzip|expires|modified|expiry|end|length|bin|weight|filename|file)$"
)
# Names of measurements and of packets, which are no requests.
_NO_REQUEST = frozenset(
    ("metric", "metrics", "metricname", "value", "values", "count", "bucket", "quantile", "le", "sum", "samples", "avg",
     "p50", "p95", "p99", "labels", "geometry", "coordinates", "sport", "dport", "spt", "dpt", "qtype", "qname")
)  # fmt: skip


def words(name: str) -> list[str]:
    """The words of a name, in lower case: `requestTime_ms` has request, time and ms."""
    return [word.lower() for word in _WORD.findall(name)]


def _plain(name: str) -> str:
    return "".join(words(name))


def _known() -> Mapping[str, Mapping[str, int]]:
    fields: dict[str, dict[str, int]] = {}
    for names in (KEYS, _FURTHER):
        for field, each in names.items():
            field = "duration" if field in DURATIONS else field
            if field in MARKS:
                continue
            for name in each:
                ranks = fields.setdefault(_plain(name), {})
                ranks.setdefault(field, len(fields))
    return MappingProxyType(fields)


_FIELDS = _known()


def fields_named(name: str) -> Mapping[str, int]:
    """The fields that a name may stand for, each with its rank: of two names for a field the lower one counts."""
    if not name:
        return {}
    parts = name.split(".")
    for start in range(len(parts)):
        plain = _plain(".".join(parts[start:]))
        if plain in _FIELDS:
            return _FIELDS[plain]
    stem, unit = _without_unit(name)
    ranks = _FIELDS.get("".join(stem), {}) if unit else {}
    return {field: rank for field, rank in ranks.items() if field == "duration"}


def unit_named(name: str) -> str:
    """The unit of a duration that its name ends with: s, ms, us, ns, or empty."""
    return _without_unit(name)[1]


def _without_unit(name: str) -> tuple[list[str], str]:
    stem = words(name)
    for unit, names in _UNITS.items():
        if len(stem) > 1 and stem[-1] in names:
            stem = stem[:-1]
            return (stem[:-1] if stem[-1] == "in" and len(stem) > 1 else stem), unit
    return stem, ""


def is_of_another(name: str) -> bool:
    """Whether a name says that a value is another one than the request's own: an upstream's, a port, a counter."""
    return not fields_named(name) and any(map(_OTHERS.match, words(name)))


def is_no_request(names: list[str]) -> bool:
    """Whether one of these names is that of a measurement or of a packet."""
    return any(_plain(name.rpartition(".")[2]) in _NO_REQUEST for name in names)

"""Formats hits as lines of the log formats outside Apache's family: one template or JSON object a format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from tidemark.traffic.robots import Hit
from tidemark.traffic.site import HOST

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# What stands for the method and the target of a request that is not HTTP.
_NONE = "-"

IIS_FIELDS = (
    "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status"
    " sc-substatus sc-win32-status sc-bytes time-taken"
)
W3C_FIELDS = (
    "date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes cs(Referer) cs(User-Agent) cs-host"
)
# The columns of the formats whose lines need them.
COLUMNS = {"iis_w3c": IIS_FIELDS, "w3c_extended": W3C_FIELDS}

_COMBINED = '{ip} - - [{clf}] "{request}" {status} {size} "{referrer}" "{agent}"'
_ID = "4a0e0f5e9bd9a1d2c3b4a5968778695a4b3c2d1e0f1029384756aabbccddeeff"

# Values are escaped as in the combined format, except those that end in an underscore.
TEMPLATES = {
    "traefik_clf": _COMBINED + ' 1 "web@docker" "http://10.0.0.4:80" {ms}ms',
    "nginx_ingress": _COMBINED + " 462 {seconds} [shop-web-80] [] 10.0.0.4:80 {size} {seconds} {status} " + _ID[:32],
    "nginx_proxy_manager": (
        "[{clf}] - {status} {status} - {method} https {host} \"{target}\" [Client {ip}] [Length {size}] [Gzip -]"
        ' [Sent-to 10.0.0.4] "{agent}" "{referrer}"'
    ),
    "npmplus": '[{clf}] {host} {ip} {seconds} "{request}" {status} {size} 935 {referrer} {agent}',
    "zoraxy": (
        "{day_} {clock} [{day} {clock}.000000] [router:host-http] [origin:{host}] [client: {ip}] [useragent:"
        " {agent}] {method} {target} {status}"
    ),
    "haproxy_http": (
        "{ip}:41342 [{local}.000] web shop/web1 0/0/0/{ms}/{ms} {status} {size} - - ---- 1/1/1/1/0 0/0 {{{host}}}"
        ' "{request}"'
    ),
    "haproxy_clf": (
        '{ip} - - [{clf}] "{request}" {status} {size} "" "" 41342 0 "web" "shop" "web1" 0 0 0 {ms} {ms}'
        ' "----" 1 1 1 1 0 0 0'
    ),
    "iis_native": (
        "{ip}, -, {us_day}, {clock}, W3SVC1, WEB1, 10.0.0.4, {ms}, 312, {size}, {status}, 0, {method},"
        " {path_}, {query_},"
    ),
    "envoy": (
        '[{day}T{clock}.000Z] "{request}" {status} - 0 {size} {ms} 0 "{ip}" "{agent}" "' + _ID[:36] + '" "{host}"'
        ' "10.0.0.4:80"'
    ),
    "iis_w3c": (
        "{day} {clock} 10.0.0.4 {method} {path_} {query_} 443 - {ip} {plus_} {referrer} {status} 0 0 {size} {ms}"
    ),
    "w3c_extended": (
        "{day}\t{clock}\t{ip}\t{method}\t{path_}\t{query_}\t{status}\t{size}\t{referrer}\t{percent_}\t{host}"
    ),
    "aws_alb": (
        "https {day}T{clock}.000000Z app/web/50dc6c495c0c9188 {ip}:2817 10.0.0.1:80 0.000 {seconds} 0.000 {status}"
        ' {status} 0 {size} "{absolute}" "{agent}" - - arn "Root=1" "{host}" "-" 1 {day}T{clock}.000000Z "forward"'
        ' "-" "-" "10.0.0.1:80" "200" "-" "-"'
    ),
    "aws_elb": (
        "{day}T{clock}.000000Z web {ip}:2817 10.0.0.1:80 0.000000 {seconds}000 0.000000 {status} {status} 0 {size}"
        ' "{absolute}" "{agent}" - -'
    ),
    "aws_s3": (
        _ID + " bucket [{clf}] {ip} - 3E57427F3EXAMPLE REST.GET.OBJECT - \"{request}\" {status} - {size} - {ms} {ms}"
        ' "{referrer}" "{agent}" - - SigV4 - - {host} TLSv1.3'
    ),
    "cloudfront": (
        "{day}\t{clock}\tFRA2\t{size}\t{ip}\t{method}\td111111abcdef8.cloudfront.net\t{path_}\t{status}\t{referrer}\t"
        "{percent_}\t{query_}\t-\tMiss\tid\t{host}\thttps\t217\t{seconds}\t-\tTLSv1.3\tcipher\tMiss\t{protocol}\t-\t-"
    ),
    "squid": "{epoch}.000 {ms:>6} {ip} TCP_MISS/{status} {size} {method} {url} - HIER_DIRECT/10.0.0.4 text/html",
    "gandi": '{host} {ip} - - [{clf}] ({whole} s) "{request}" {status} {size} "{referrer}" "{agent}"',
    "ovh": '{ip} {host} - [{clf}] "{request}" {status} {size} "{referrer}" "{agent}"',
    "varnishncsa": '{ip} - - [{clf}] "{absolute}" {status} {size} "{referrer}" "{agent}"',
    "icecast": _COMBINED + " {whole}",
}  # fmt: skip
# Formats whose lines are read as another one unless they are named.
NAMED = ("apache_json", "ovh", "varnishncsa", "icecast")
# Formats that have a duration in milliseconds or finer. Apache's own ones have it only if it is asked for.
TIMED = (
    "nginx_json", "caddy_json", "traefik_json", "traefik_clf", "envoy", "haproxy_http", "nginx_ingress",
    "haproxy_clf", "iis_native", "caddy_console", "npmplus",
    "iis_w3c", "aws_alb", "aws_elb", "aws_s3", "cloudfront", "gcp_lb_json", "azure_json", "squid",
)  # fmt: skip
# Formats whose durations are whole seconds.
ROUNDED = ("gandi", "icecast")
# Formats without user agents.
NO_AGENTS = ("common", "haproxy_http", "haproxy_clf", "iis_native", "squid")


@dataclass(frozen=True)
class _Asked:
    """The parts of a request and its response, as they are logged."""

    request: str
    method: str
    target: str
    protocol: str
    status: str
    size: str


@lru_cache(maxsize=100_000)
def _asked(text: bytes) -> _Asked:
    request, _, result = text.decode().rpartition('" ')
    status, size = result.split()
    words = request.split(" ")
    http = len(words) == 3 and words[2].startswith("HTTP/")
    method, target, protocol = words if http else (_NONE, _NONE, _NONE)
    return _Asked(request, method, target, protocol, status, "0" if size == "-" else size)


@lru_cache(maxsize=100_000)
def _plain(text: str) -> str:
    """A text without the escapes of the combined format."""
    return text.replace("\\\\", "\x02").replace('\\"', '"').replace("\x02", "\\")


@lru_cache(maxsize=100_000)
def _took(seconds: bytes) -> Mapping[str, str]:
    """A duration in the units that logs use."""
    text = seconds.decode()
    millis = int(text.replace(".", ""))
    return {"seconds": text, "ms": str(millis), "whole": str(millis // 1000)}


@dataclass(frozen=True)
class Moment:
    """A second in the forms that logs use."""

    epoch: int

    @property
    def forms(self) -> Mapping[str, str]:
        at = datetime.fromtimestamp(self.epoch, UTC)
        # Not with strftime, whose month names depend on the locale.
        local = f"{at.day:02}/{_MONTHS[at.month - 1]}/{at:%Y:%H:%M:%S}"
        clf, day, clock = f"{local} +0000", f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}"
        return {
            "epoch": str(self.epoch),
            "local": local,
            "clf": clf,
            "day": day,
            "day_": f"{at:%Y/%m/%d}",
            "us_day": f"{at.month}/{at.day}/{at.year}",
            "clock": clock,
        }


def text(template: str) -> Callable[[Sequence[Hit], int], list[bytes]]:
    """A function that formats hits of one epoch second by a template."""

    def lines(hits: Sequence[Hit], second: int) -> list[bytes]:
        moment = Moment(second).forms
        return [template.format_map({**moment, **_texts(hit)}).encode() for hit in hits]

    return lines


def objects(
    shape: Callable[[Mapping[str, str]], Mapping[str, Any]],
) -> Callable[[Sequence[Hit], int], list[bytes]]:
    """A function that formats hits of one epoch second as JSON objects."""

    def lines(hits: Sequence[Hit], second: int) -> list[bytes]:
        moment = Moment(second).forms
        found = []
        for hit in hits:
            values = {name: _plain(value) for name, value in _texts(hit).items()}
            found.append(
                json.dumps(shape({**moment, **values}), separators=(",", ":"), ensure_ascii=False).encode()
            )
        return found

    return lines


def console(hits: Sequence[Hit], second: int) -> list[bytes]:
    """Hits of one epoch second as Caddy's console encoder writes them."""
    head = Moment(second).forms
    begin = f"{head['day_']} {head['clock']}.000\tinfo\thttp.log.access\thandled request\t".encode()
    return [begin + line for line in objects(lambda v: {**_caddy(v), "ts": None})(hits, second)]


def _texts(hit: Hit) -> dict[str, str]:
    visitor, request, referrer = hit
    asked = _asked(request.text)
    path, _, query = asked.target.partition("?")
    http = asked.method != _NONE
    url = f"https://{HOST}{asked.target}" if http else _NONE
    agent = visitor.agent or "-"
    return {
        **_took(request.seconds),
        "ip": visitor.ip, "host": HOST, "request": asked.request, "method": asked.method, "target": asked.target,
        "protocol": asked.protocol, "status": asked.status, "size": asked.size, "referrer": referrer.decode(),
        "agent": agent, "path_": path, "query_": query or "-", "url": url,
        "absolute": f"{asked.method} {url} {asked.protocol}" if http else asked.request,
        "plus_": _plain(agent).replace(" ", "+"), "percent_": quote(_plain(agent), safe="/();,:=-._"),
    }  # fmt: skip


def _nginx(v: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "time_iso8601": f"{v['day']}T{v['clock']}+00:00", "remote_addr": v["ip"], "request": v["request"],
        "status": v["status"], "body_bytes_sent": v["size"], "request_time": v["seconds"],
        "http_referer": v["referrer"], "http_user_agent": v["agent"], "host": v["host"],
    }  # fmt: skip


def _apache(v: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "time": f"[{v['clf']}]", "remoteIP": v["ip"], "host": v["host"], "request": v["target"], "method": v["method"],
        "status": v["status"], "bytes": v["size"], "userAgent": v["agent"], "referer": v["referrer"],
    }  # fmt: skip


def _fastly(v: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "timestamp": f"{v['day']}T{v['clock']}", "client_ip": v["ip"], "geo_country_code": "ZZ", "host": v["host"],
        "url": v["target"], "request_method": v["method"], "request_protocol": v["protocol"],
        "request_referer": v["referrer"], "request_user_agent": v["agent"], "response_status": int(v["status"]),
        "response_body_size": int(v["size"]), "fastly_server": "cache-fra-1", "fastly_is_edge": True,
    }  # fmt: skip


def _caddy(v: Mapping[str, str]) -> Mapping[str, Any]:
    headers = {"User-Agent": [v["agent"]], "Referer": [v["referrer"]]}
    request = {
        "remote_ip": v["ip"], "remote_port": "41342", "client_ip": v["ip"], "proto": v["protocol"],
        "method": v["method"], "host": v["host"], "uri": v["target"], "headers": headers,
    }  # fmt: skip
    return {
        "level": "info", "ts": float(v["epoch"]), "logger": "http.log.access", "msg": "handled request",
        "request": request, "bytes_read": 0, "user_id": "", "duration": float(v["seconds"]), "size": int(v["size"]),
        "status": int(v["status"]),
    }  # fmt: skip


def _traefik(v: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "ClientAddr": f"{v['ip']}:41342" if "." in v["ip"] else f"[{v['ip']}]:41342", "ClientHost": v["ip"],
        "DownstreamContentSize": int(v["size"]), "DownstreamStatus": int(v["status"]),
        "Duration": int(v["ms"]) * 1_000_000,
        "RequestHost": v["host"], "RequestMethod": v["method"], "RequestPath": v["target"],
        "RequestProtocol": v["protocol"], "StartUTC": f"{v['day']}T{v['clock']}.000000000Z",
        "request_Referer": v["referrer"], "request_User-Agent": v["agent"], "time": f"{v['day']}T{v['clock']}Z",
    }  # fmt: skip


def _gcp(v: Mapping[str, str]) -> Mapping[str, Any]:
    asked = {
        "requestMethod": v["method"], "requestUrl": v["url"], "status": int(v["status"]), "responseSize": v["size"],
        "userAgent": v["agent"], "remoteIp": v["ip"], "referer": v["referrer"], "latency": f"{v['seconds']}s",
    }  # fmt: skip
    return {"httpRequest": asked, "timestamp": f"{v['day']}T{v['clock']}.000000Z", "logName": "requests"}


def _cloudflare(v: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "ClientIP": v["ip"], "ClientRequestHost": v["host"], "ClientRequestMethod": v["method"],
        "ClientRequestURI": v["target"], "ClientRequestProtocol": v["protocol"], "ClientRequestReferer": v["referrer"],
        "ClientRequestUserAgent": v["agent"], "ClientCountry": "de", "EdgeResponseBytes": int(v["size"]),
        "EdgeResponseStatus": int(v["status"]), "EdgeStartTimestamp": f"{v['day']}T{v['clock']}Z",
    }  # fmt: skip


def _azure(v: Mapping[str, str]) -> Mapping[str, Any]:
    properties = {
        "httpMethod": v["method"], "httpVersion": "2.0.0.0", "requestUri": v["url"], "hostName": v["host"],
        "responseBytes": v["size"], "userAgent": v["agent"], "clientIp": v["ip"], "timeTaken": v["seconds"],
        "httpStatusCode": v["status"], "referer": v["referrer"],
    }  # fmt: skip
    return {
        "time": f"{v['day']}T{v['clock']}.0000000Z", "category": "FrontDoorAccessLog", "properties": properties,
    }  # fmt: skip


SHAPES: dict[str, Callable[[Mapping[str, str]], Mapping[str, Any]]] = {
    "nginx_json": _nginx, "apache_json": _apache, "fastly_json": _fastly, "caddy_json": _caddy,
    "traefik_json": _traefik, "gcp_lb_json": _gcp, "cloudflare_json": _cloudflare, "azure_json": _azure,
}  # fmt: skip

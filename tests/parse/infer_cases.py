"""Requests, and layouts of access logs that no format reads."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

PATHS = (
    "/",
    "/docs/",
    "/docs/start.html",
    "/img/logo.png",
    "/css/main.css",
    "/shop/cart",
    "/api/v1/items",
    "/news/2026",
)
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/604.1",
    "curl/8.5.0",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
)
START = datetime(2026, 11, 20, 9, 59, 58, 250_000, UTC)


@dataclass(frozen=True)
class Request:
    """What a server knows about a request."""

    number: int
    time: datetime
    ip: str
    method: str
    path: str
    query: str
    status: int
    size: int
    referrer: str
    agent: str
    host: str
    micros: int

    @property
    def target(self) -> str:
        return self.path + (f"?{self.query}" if self.query else "")

    @property
    def socket(self) -> str:
        return f"{f'[{self.ip}]' if ':' in self.ip else self.ip}:{40_000 + self.number}"

    @property
    def line(self) -> str:
        return f"{self.method} {self.target} HTTP/1.1"

    @property
    def clf_time(self) -> str:
        return self.time.strftime("%d/%b/%Y:%H:%M:%S +0000")

    @property
    def iso(self) -> str:
        return self.time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    @property
    def seconds(self) -> str:
        return f"{self.micros / 1e6:.3f}"

    @property
    def millis(self) -> int:
        return round(self.micros / 1e3)


def requests(count: int = 300, seed: int = 7, start: datetime = START) -> list[Request]:
    """Requests of some days, in the order of their times."""
    chance = random.Random(seed)
    time, log = start, []
    for number in range(count):
        time += timedelta(milliseconds=chance.randrange(1, 1_500_000))
        path = chance.choice(PATHS)
        status = chance.choices((200, 304, 404, 301, 500), (70, 12, 8, 6, 4))[0]
        size = 0 if status == 304 else 153 if status >= 400 else 512 + 7919 * PATHS.index(path)
        ip = (
            f"203.0.113.{chance.randrange(1, 255)}"
            if number % 5
            else f"2001:db8::{chance.randrange(1, 65_000):x}"
        )
        log.append(
            Request(
                number, time, ip, chance.choices(("GET", "POST", "HEAD"), (85, 10, 5))[0], path,
                f"page={number % 7}" if chance.random() < 0.3 else "", status, size,
                chance.choice(("-", "https://example.org/a", "https://www.example.net/search?q=a b".replace(" ", "+"))),
                chance.choice(AGENTS), chance.choice(("www.example.com", "shop.example.com")),
                int(chance.lognormvariate(9, 1.6)),
            )
        )  # fmt: skip
    return log


@dataclass(frozen=True)
class Case:
    """A layout: how a request is written, the names of what is expected of it, and the line with the names of columns
    that stands in front."""

    name: str
    line: Callable[[Request], str]
    columns: frozenset[str]
    header: str = ""


def _case(name: str, columns: str, line: Callable[[Request], str], header: str = "") -> Case:
    return Case(name, line, frozenset(columns.split()), header)


def _json(name: str, columns: str, of: Callable[[Request], dict[str, Any]]) -> Case:
    return _case(name, columns, lambda r: json.dumps(of(r)))


def _dash(value: int) -> str:
    return str(value) if value else "-"


ALL = "time ip method path query status"
CASES = [
    # Words, quotes and brackets.
    _case("time first", f"{ALL} bytes referrer agent protocol",
          lambda r: f'[{r.clf_time}] {r.ip} "{r.line}" {r.status} {r.size} "{r.referrer}" "{r.agent}"'),
    _case("status first", f"{ALL} bytes agent protocol",
          lambda r: f'{r.status} {_dash(r.size)} [{r.clf_time}] {r.ip} "{r.line}" "{r.agent}"'),
    _case("without size", f"{ALL} referrer agent protocol",
          lambda r: f'{r.ip} - - [{r.clf_time}] "{r.line}" {r.status} "{r.referrer}" "{r.agent}"'),
    _case("without address", "time method path query status protocol agent bytes",
          lambda r: f'[{r.clf_time}] "{r.line}" {r.status} {r.size} "{r.agent}"'),
    _case("date and clock", f"{ALL} bytes",
          lambda r: f"{r.time:%Y-%m-%d %H:%M:%S} {r.ip} {r.method} {r.target} {r.status} {_dash(r.size)}"),
    _case("date, clock and zone", f"{ALL}",
          lambda r: f"{r.time:%Y-%m-%d %H:%M:%S} +0000 {r.ip} {r.method} {r.target} {r.status}"),
    _case("epoch", f"{ALL} seconds",
          lambda r: f"{r.time.timestamp():.3f} {r.ip} {r.method} {r.target} {r.status} {r.seconds}"),
    _case("epoch milliseconds", f"{ALL}",
          lambda r: f"{round(r.time.timestamp() * 1000)} {r.ip} {r.method} {r.target} {r.status}"),
    _case("levels", f"{ALL} millis",
          lambda r: f"{r.iso} INFO access {r.ip} {r.method} {r.target} {r.status} {r.millis}ms"),
    _case("log4j", f"{ALL} millis",
          lambda r: f"[{r.iso}][INFO ][http-{r.number % 9}] {r.ip} {r.method} {r.target} -> {r.status}"
          f" ({r.millis} ms)"),
    _case("single quotes", f"{ALL} agent protocol",
          lambda r: f"{r.iso} {r.ip} '{r.line}' {r.status} '{r.agent}'"),
    _case("host in front", f"{ALL} host bytes agent",
          lambda r: f'{r.host} {r.ip} [{r.clf_time}] "{r.method} {r.target}" {r.status} {_dash(r.size)} "{r.agent}"'),
    _case("port", f"{ALL} agent",
          lambda r: f'{r.socket} {r.iso} {r.method} {r.target} {r.status} "{r.agent}"'),
    _case("forwarded", f"{ALL} forwarded bytes",
          lambda r: f'{r.ip} "{"-" if r.number % 3 else "198.51.100.7, 10.0.0.1"}" [{r.clf_time}] "{r.line}" {r.status}'
          f' {_dash(r.size)}'),
    _case("labels", f"{ALL} bytes seconds",
          lambda r: f"client: {r.ip}, time: {r.iso}, request: \"{r.line}\", status: {r.status}, bytes: {r.size},"
          f" request_time: {r.seconds}"),
    _case("agent at the end", f"{ALL} agent",
          lambda r: f"{r.iso} {r.ip} {r.method} {r.target} {r.status} {r.agent}"),
    _case("cache result", f"{ALL} bytes",
          lambda r: f"{r.time.timestamp():.3f} {r.ip} TCP_MISS/{r.status} {_dash(r.size)} {r.method}"
          f" http://{r.host}{r.target} - HIER_DIRECT/{r.host}"),
    _case("two times", f"{ALL}",
          lambda r: f"{r.time:%Y-%m-%d %H:%M:%S} {r.time.timestamp():.3f} {r.ip} {r.method} {r.target} {r.status}"),
    _case("a user", f"{ALL} bytes user",
          lambda r: f'{r.ip} - {"alice" if r.number % 4 == 0 else "-"} [{r.iso}] "{r.line}" {r.status}'
          f" {_dash(r.size)}"),
    # Servers and frameworks.
    _case("gin", f"{ALL} micros",
          lambda r: f'[GIN] {r.time:%Y/%m/%d - %H:%M:%S} | {r.status} | {r.micros / 1000:12.3f}ms | {r.ip:>15} |'
          f' {r.method:<7} "{r.target}"'),
    _case("chi", f"{ALL} protocol micros",
          lambda r: f'{r.time:%Y/%m/%d %H:%M:%S} "{r.method} http://{r.host}{r.target} HTTP/1.1" from {r.ip} -'
          f' {r.status} {r.size}B in {r.micros / 1000:.3f}ms'),
    _case("uvicorn", f"{ALL} protocol",
          lambda r: f'{r.time:%Y-%m-%d %H:%M:%S},250 INFO:     {r.ip}:{r.number + 4000} - "{r.line}" {r.status} OK'),
    _case("gunicorn", f"{ALL} agent protocol bytes",
          lambda r: f'[{r.time:%Y-%m-%d %H:%M:%S} +0000] [{r.number + 100}] {r.ip} "{r.line}" {r.status}'
          f' {_dash(r.size)} "{r.agent}"'),
    _case("a time without brackets", f"{ALL}",
          lambda r: f'{r.ip} -  {r.iso} "{r.method} {r.target}" {r.status}'),
    _case("lighttpd", f"{ALL} host bytes referrer agent protocol",
          lambda r: f'{r.ip} {r.host} [{r.clf_time}] "{r.line}" {r.status} {_dash(r.size)} "{r.referrer}" "{r.agent}"'),
    _case("jetty", f"{ALL} protocol bytes",
          lambda r: f'{r.ip} - - [{r.time:%d/%b/%Y:%H:%M:%S}.{r.time.microsecond // 1000:03} +0000] {r.status}'
          f' {_dash(r.size)} "{r.line}"'),
    _case("iis-like", f"{ALL} millis",
          lambda r: f"{r.time:%Y-%m-%d %H:%M:%S} W3SVC1 {r.method} {r.path} {r.query or '-'} 443 {r.ip}"
          f" {r.agent.replace(' ', '+')} {r.status} time_taken={r.millis}ms"),
    _case("kong", f"{ALL} protocol agent bytes",
          lambda r: f'{r.ip} - [{r.clf_time}] "{r.line}" {r.status} {_dash(r.size)} "-" "{r.agent}" kong_request_id:'
          f' "{r.number:032x}"'),
    _case("python", f"{ALL} protocol",
          lambda r: f'{r.ip} - - [{r.time:%d/%b/%Y %H:%M:%S}] "{r.line}" {r.status} -'),
    _case("django", "time method path query status protocol bytes",
          lambda r: f'[{r.time:%d/%b/%Y %H:%M:%S}] "{r.line}" {r.status} {r.size}'),
    _case("tomcat's dates", f"{ALL} millis",
          lambda r: f"{r.time:%d-%b-%Y %H:%M:%S}.250 INFO [exec-{r.number % 9}] {r.method} {r.target} {r.status}"
          f" {r.millis}ms {r.ip}"),
    _case("dates of mails", f"{ALL} protocol bytes",
          lambda r: f'[{r.time:%a, %d %b %Y %H:%M:%S GMT}] {r.ip} "{r.line}" {r.status} {r.size}'),
    _case("months first", f"{ALL} millis",
          lambda r: f"{r.time:%b %d, %Y %H:%M:%S}|{r.ip}|{r.method}|{r.target}|{r.status}|{r.millis}ms"),
    _case("pf-like brackets", f"{ALL} host",
          lambda r: f"[{r.iso}] [{r.host}] [{r.ip}] [{r.method} {r.target}] [{r.status}]"),
    # One separator.
    _case("pipes", f"{ALL} bytes agent",
          lambda r: f"{r.iso}|{r.ip}|{r.method}|{r.target}|{r.status}|{_dash(r.size)}|{r.agent}"),
    _case("pipes with spaces", f"{ALL} agent host",
          lambda r: f"{r.iso} | {r.host} | {r.ip} | {r.method} | {r.target} | {r.status} | {r.agent}"),
    _case("semicolons", f"{ALL} bytes",
          lambda r: f"{r.ip};{r.iso};{r.line};{r.status};{_dash(r.size)}"),
    _case("tabs", f"{ALL} agent referrer",
          lambda r: f"{r.iso}\t{r.ip}\t{r.method}\t{r.target}\t{r.status}\t{r.referrer}\t{r.agent}"),
    _case("ltsv", f"{ALL} bytes agent seconds",
          lambda r: f"host:{r.ip}\ttime:[{r.clf_time}]\treq:{r.line}\tstatus:{r.status}\tsize:{r.size}\tua:{r.agent}"
          f"\treqtime:{r.seconds}"),
    _case("csv", f"{ALL} bytes",
          lambda r: f"{r.iso},{r.ip},{r.method},{r.target},{r.status},{_dash(r.size)}"),
    _case("csv with quotes where needed", f"{ALL} agent",
          lambda r: f"{r.iso},{r.ip},{r.method},{r.target},{r.status},"
          + (f'"{r.agent}"' if "," in r.agent else r.agent)),
    _case("csv with a header", f"{ALL} bytes millis",
          lambda r: f"{r.time:%Y-%m-%d %H:%M:%S},{r.ip},{r.method},{r.target},{r.status},{r.size},{r.millis}",
          "time,client,verb,uri,code,size,duration_ms"),
    _case("csv, all in quotes", f"{ALL} bytes",
          lambda r: ",".join(f'"{each}"' for each in (r.iso, r.ip, r.method, r.target, r.status, _dash(r.size)))),
    _case("csv of a spreadsheet", f"{ALL} bytes millis",
          lambda r: f"{r.time:%m/%d/%Y},{r.time:%H:%M:%S},{r.ip},{r.method},{r.target},{r.status},{r.size},{r.millis}",
          "Date,Time,Client IP,Method,URL,Status,Bytes,Duration (ms)"),
    _case("twelve hours", ALL,
          lambda r: f"{r.time.month}/{r.time.day}/{r.time.year} {r.time:%I:%M:%S %p},{r.ip},{r.method},{r.target},"
          f"{r.status}"),
    _case("dotted dates", ALL, lambda r: f"{r.time:%d.%m.%Y %H:%M:%S};{r.ip};{r.method};{r.target};{r.status}"),
    _case("compact times", f"{ALL} millis",
          lambda r: f"{r.time:%Y%m%dT%H%M%SZ} {r.ip} {r.method} {r.target} {r.status} {r.millis}ms"),
    _case("double pipes", f"{ALL} bytes protocol", lambda r: f"{r.iso}||{r.ip}||{r.line}||{r.status}||{r.size}"),
    _case("carets", f"{ALL} bytes", lambda r: f"{r.iso}^{r.ip}^{r.method}^{r.target}^{r.status}^{r.size}"),
    # Keys.
    _case("logfmt", f"{ALL} bytes millis agent",
          lambda r: f'time={r.iso} level=info msg="request done" ip={r.ip} method={r.method} path={r.target}'
          f' status={r.status} bytes={r.size} took={r.millis}ms ua="{r.agent}"'),
    _case("logfmt with optional keys", f"{ALL} bytes",
          lambda r: f"ts={r.iso} rip={r.ip} " + ("user=bob " if r.number % 3 else "")
          + f"verb={r.method} url={r.target} code={r.status} size={r.size}"),
    _case("keys with quotes", f"{ALL} seconds protocol",
          lambda r: f'ip="{r.ip}" t="{r.clf_time}" req="{r.line}" st="{r.status}" rt="{r.seconds}" up_rt="0.001"'),
    _case("upstream's status", f"{ALL} seconds protocol",
          lambda r: f'{r.ip} [{r.clf_time}] "{r.line}" status={r.status}'
          f' upstream_status={r.status if r.number % 9 else 502} request_time={r.seconds}'
          f' upstream_response_time={r.seconds}'),
    _case("microseconds by name", f"{ALL} micros",
          lambda r: f"at={r.iso} peer={r.ip} m={r.method} uri={r.target} rc={r.status} dur_us={r.micros}"),
    _case("logrus", f"{ALL} millis agent",
          lambda r: f'time="{r.iso}" level=info msg="request" method={r.method} uri="{r.target}" status={r.status}'
          f' latency="{r.micros / 1000:.3f}ms" remote="{r.socket}" ua="{r.agent}"'),
    # JSON.
    _json("json of own names", f"{ALL} bytes millis agent",
          lambda r: {"zeit": r.iso, "adresse": r.ip, "methode": r.method, "pfad": r.target, "antwort": r.status,
                     "size": r.size, "took_ms": r.millis, "browser": r.agent}),
    _json("nested json", f"{ALL} bytes agent",
          lambda r: {"meta": {"when": r.iso, "level": "info"}, "req": {"peer": {"addr": r.ip}, "verb": r.method,
                     "target": r.target, "hdr": {"ua": r.agent}},
                     "res": {"final_status": r.status, "written": r.size}}),
    _json("json without address", "time method path query status",
          lambda r: {"when": r.iso, "verb": r.method, "endpoint": r.target, "final_status": r.status, "pid": 17}),
    _json("json of a gateway", "time ip method path status protocol bytes",
          lambda r: {"requestId": f"{r.number:x}", "ip": r.ip, "requestTime": r.clf_time, "httpMethod": r.method,
                     "path": r.path, "status": str(r.status), "protocol": "HTTP/1.1",
                     "responseLength": str(r.size)}),
    _json("json with a request line", f"{ALL} protocol",
          lambda r: {"at": r.time.timestamp(), "caller": r.ip, "first_line": r.line, "result": str(r.status)}),
]  # fmt: skip

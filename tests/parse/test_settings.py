"""Own formats, and settings of a site: time zone, columns of W3C lines, trusted proxies."""

from __future__ import annotations

import dataclasses
import pickle
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomlkit

from tidemark.errors import SettingError
from tidemark.parse.custom import reading_of
from tidemark.parse.detect import fields
from tidemark.parse.reading import Reading, SiteReading
from tidemark.settings import Settings, load
from tidemark.settings.formats import FormatSettings
from tidemark.settings.sites import SiteSettings

TIME = datetime(2026, 11, 21, 10, tzinfo=UTC)


def reading(**formats: FormatSettings) -> Reading:
    original = reading_of(dataclasses.replace(Settings(), formats=formats))
    copied: Reading = pickle.loads(pickle.dumps(original))  # as it is sent to executors
    return copied


def read(
    line: str, reading: Reading, named: str | None = None, site: str = "shop", header: str | None = None
) -> dict[str, Any] | None:
    """The columns of a line, in the company of a line of another site and of one that is named."""
    other = '203.0.113.9 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5'
    lines = {
        "value": pa.array([other.encode(), line.encode(), other.encode()]),
        "format": pa.array([None, named, "common"], pa.string()),
        "fields": pa.array([None, header, None], pa.string()),
        "site": pa.array(["other", site, "other"]),
    }
    rows = pa.table(fields(lines, reading)).to_pylist()
    assert rows[0]["event_time"] == rows[2]["event_time"] == TIME
    assert rows[0]["client_ip"] == rows[2]["client_ip"] == "203.0.113.9"
    row: dict[str, Any] = rows[1]
    return {name: value for name, value in row.items() if value is not None} if row["well_formed"] else None


NGINX = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"'
    ' "$http_user_agent"'
)
MS_12 = {"duration_us": 12_000}
COMBINED = '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 512 "-" "curl \\"8\\""'


OWN: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("nginx", NGINX, COMBINED, {}),
    ("nginx", NGINX + " $upstream_response_time $request_time", COMBINED + " 0.011 0.012", MS_12),
    ("nginx", f'$host {NGINX} rt=$request_time cc="$geoip_country_code"', f'A.example {COMBINED} rt=0.012 cc="DE"',
     {"host": "a.example", "duration_us": 12_000, "edge_country": "DE"}),
    ("nginx", '$msec|$remote_addr|$request_method|$uri|$args|$status|$bytes_sent|$http_user_agent|${host}',
     '1795255200.000|203.0.113.7|GET|/a|b=1|200|512|curl "8"|a.example', {"host": "a.example", "protocol": None}),
    ("nginx", "$time_iso8601\t$remote_addr\t$request\t$status\t$body_bytes_sent\t$http_user_agent",
     '2026-11-21T10:00:00+00:00\t203.0.113.7\tGET /a?b=1 HTTP/1.1\t200\t512\tcurl "8"', {}),
    ("nginx", '{"t": "$time_iso8601", "c": {"ip": "$remote_addr"}, "r": "$request", "s": $status, "b": $bytes_sent,'
     ' "a": "$http_user_agent", "d": $request_time}',
     '{"t": "2026-11-21T10:00:00+00:00", "c": {"ip": "203.0.113.7"}, "r": "GET /a?b=1 HTTP/1.1", "s": 200,'
     ' "b": 512, "a": "curl \\"8\\"", "d": 0.012}', MS_12),
    ("nginx", "$http_x_forwarded_for " + NGINX, f"1.2.3.4, 5.6.7.8 {COMBINED}", {}),
    ("nginx", NGINX.replace(" [", " $http_x_forwarded_for ["), COMBINED.replace(" [", " 1.2.3.4, unknown ["), {}),
    ("nginx", NGINX + " $upstream_addr $upstream_response_time $request_time",
     COMBINED + " 10.0.0.1:80, 10.0.0.2:80 : 10.0.0.3:80 0.001, 0.002 : 0.003 0.012", MS_12),
    ("nginx", NGINX.replace("$remote_addr", "$http_x_real_ip"), COMBINED, {}),
    ("nginx", "$http_x_real_ip " + NGINX, f"1.2.3.4 {COMBINED}", {}),
    ("nginx", '{"t": $msec, "c": "$proxy_protocol_addr", "r": "$request", "s": $status, "b": $bytes_sent,'
     ' "a": "$http_user_agent"}',
     '{"t": 1795255200.000, "c": "203.0.113.7", "r": "GET /a?b=1 HTTP/1.1", "s": 200, "b": 512,'
     ' "a": "curl \\"8\\""}', {}),
    ("apache", '%{X-Real-IP}i [%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t] "%r" %>s %b "%{User-agent}i"',
     '203.0.113.7 [21/Nov/2026:11:00:00.000 +0100] "GET /a?b=1 HTTP/1.1" 200 512 "curl \\"8\\""', {}),
    ("apache", '%h %l %u %t \\"%r\\" %>s %O \\"%{Referer}i\\" \\"%{User-Agent}i\\"', COMBINED, {}),
    ("apache", '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D', COMBINED + " 1042",
     {"duration_us": 1_042}),
    ("apache", '%v:%p %a %{%Y-%m-%dT%H:%M:%S}t.%{msec_frac}t %m %U%q %H %s %B %{ms}T "%{User-agent}i"',
     'A.example:443 203.0.113.7 2026-11-21T10:00:00.125 GET /a?b=1 HTTP/1.1 200 512 7 "curl \\"8\\""',
     {"host": "a.example", "duration_us": 7_000, "event_time": TIME.replace(microsecond=125_000)}),
    ("apache", '%{%Y-%m-%d}t;%{%H:%M:%S}t;%h;%r;%s;%b;%{User-Agent}i;%%',
     '2026-11-21;10:00:00;203.0.113.7;GET /a?b=1 HTTP/1.1;200;512;curl "8";%', {}),
    ("apache", '%{sec}t %h "%!200,304{X-Forwarded-For}i" "%r" %400,501s %^FB $ "%{User-Agent}i"',
     '1795255200 203.0.113.7 "-" "GET /a?b=1 HTTP/1.1" 200 - $ "curl \\"8\\""', {"bytes": 0}),
    ("nginx", NGINX.replace("$remote_addr", "$proxy_add_x_forwarded_for"), f"198.51.100.1, {COMBINED}", {}),
    ("nginx", NGINX.replace("$remote_addr", "$proxy_add_x_forwarded_for"), COMBINED, {}),
    ("nginx", NGINX + ' "$proxy_add_x_forwarded_for"', f'{COMBINED} "198.51.100.1, 203.0.113.7"', {}),
    ("nginx", NGINX.replace("$remote_addr", "$realip_remote_addr") + " $remote_addr",
     COMBINED.replace("203.0.113.7", "10.0.0.1") + " 203.0.113.7", {}),
    ("nginx", '${remote_addr}:${remote_port} ${time_iso8601} "$request" $status $body_bytes_sent "$http_user_agent"',
     '2001:db8::7:41342 2026-11-21T10:00:00+00:00 "GET /a?b=1 HTTP/1.1" 200 512 "curl \\"8\\""',
     {"client_ip": "2001:db8::7"}),
    ("apache", '%{%d/%b/%Y:%H:%M:%S}t %a %{c}a %t "%r" %>s %b "%{User-agent}i"',
     '21/Nov/2026:12:00:00 203.0.113.7 10.0.0.1 [21/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" 200 512'
     ' "curl \\"8\\""', {}),
    ("haproxy", '%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs'
     ' %{+Q}r',
     '203.0.113.7:41342 [21/Nov/2026:10:00:00.000] web~ shop/web1 10/0/30/69/12 200 512 - - ---- 1/1/1/1/0 0/0'
     ' {a.example|x y} {} "GET /a?b=1 HTTP/1.1"', MS_12 | {"user_agent": None, "host": "a.example"}),
    ("haproxy", "%ci:%cp\\ [%T]\\ %Tr/%Tt\\ %ST\\ %B\\ %hr\\ %{+Q}r",
     '2001:db8::7:41342 [21/Nov/2026:10:00:00 +0000] 69/12 200 512 "GET /a?b=1 HTTP/1.1"',
     MS_12 | {"user_agent": None, "client_ip": "2001:db8::7"}),
    ("haproxy", '%{+Q}o %{-Q}ci [%trl] %HM %HP %HQ %HV %ST %B %[req.hdr(host)] %[req.fhdr(user-agent),lower] %%',
     '203.0.113.7 [21/Nov/2026:11:00:00 +0100] "GET" "/a" "?b=1" "HTTP/1.1" 200 512 "a.example" "curl \\"8\\"" %',
     {"host": "a.example"}),
    ("haproxy", '{"time":%Ts.%ms,"ip":"%ci","r":"%HM %HU %HV","s":%ST,"b":%B,"a":"%[hdr(User-Agent)]"}',
     '{"time":1795255200.000,"ip":"203.0.113.7","r":"GET /a?b=1 HTTP/1.1","s":200,"b":512,"a":"curl"}',
     {"user_agent": "curl"}),
    ("tomcat", "combined", COMBINED, {}),
    ("tomcat", "common", COMBINED[:COMBINED.index(' "-"')], {"user_agent": None}),
    ("tomcat", "%{yyyy-MM-dd'T'HH:mm:ss.SSSZ}t|%a|%m|%U%q|%H|%s|%B|%{ms}T|%I|%S|%X|&quot;%{User-Agent}i&quot;|%{id}c",
     '2026-11-21T11:00:00.000+0100|203.0.113.7|GET|/a?b=1|HTTP/1.1|200|512|12|exec-1|-|+|"curl \\"8\\""|-', MS_12),
    ("tomcat", '%t [%h] [%m] [%s] %T %F %v "%U" "%q" %{User-Agent}i',
     '[21/Nov/2026:10:00:00 +0000] [203.0.113.7] [GET] [200] 0.012 3 a.example "/a" "?b=1" curl "8"',
     MS_12 | {"host": "a.example", "protocol": None, "bytes": 0}),
    ("layout", ('$time;$client_ip;$method;$target;$status;$bytes;$user_agent;$duration_ms',),
     '2026-11-21T10:00:00Z;203.0.113.7;GET;/a?b=1;200;512;curl "8";12', MS_12 | {"protocol": None}),
    ("keys", {"time": ("t",), "client_ip": ("c.address", "c.ip"), "request": ("r",), "status": ("s",), "bytes": ("b",),
              "user_agent": ("h>User-Agent",), "_kind": ("kind",)},
     '{"t": 1795255200, "c": {"ip": "203.0.113.7"}, "r": "GET /a?b=1 HTTP/1.1", "s": 200, "b": 512, "kind": "access",'
     ' "h": {"User-Agent": ["curl \\"8\\""]}}', {}),
    ("keys", {"time": ("t",), "client_ip": ("ip",), "status": ("s",)},
     '{"t": 1795255200, "ip": "203.0.113.7", "s": 200}',
     {"bytes": 0} | dict.fromkeys(("method", "path", "query", "protocol", "user_agent"))),
]  # fmt: skip


@pytest.mark.parametrize("kind, text, line, differs", OWN)
def test_a_line_of_an_own_format_is_read_by_its_name(
    kind: str, text: Any, line: str, differs: dict[str, Any]
) -> None:
    own = reading(mine=FormatSettings(**{kind: text}))
    usual = {
        "client_ip": "203.0.113.7", "event_time": TIME, "method": "GET", "path": "/a", "query": "b=1",
        "protocol": "HTTP/1.1", "status": 200, "bytes": 512, "user_agent": 'curl "8"', "read_as": "mine",
    }  # fmt: skip
    flags = dict.fromkeys(("fits", "well_formed", "format_known", "fields_known", "whole", "status_ok"), True)
    expected = {name: value for name, value in (usual | flags | differs).items() if value is not None}
    assert read(line, own, "mine") == expected
    wrapped = "<190>Nov 21 10:00:00 web1 nginx: " + line
    if "\t" not in line:
        assert read(wrapped, own, "mine") == expected
    assert read("nothing of the kind", own, "mine") is None
    unknown = read(line, Reading(), "mine")
    assert unknown is None or not unknown["format_known"]


def test_a_detected_own_format_needs_no_name() -> None:
    layout = ("$time;$client_ip;$request;$status;$bytes;$user_agent",)
    line = '2026-11-21T10:00:00Z;203.0.113.7;GET /a?b=1 HTTP/1.1;200;512;curl "8"'
    row = read(line, reading(mine=FormatSettings(layout=layout, pattern=r"^\d{4}-", detected=True)))
    assert row is not None and (row["read_as"], row["path"], row["status"]) == ("mine", "/a", 200)
    assert read(line, reading(mine=FormatSettings(layout=layout))) is None


def test_a_list_of_addresses_is_no_part_of_a_header_in_front() -> None:
    own = reading(mine=FormatSettings(nginx=NGINX.replace("$remote_addr", "$proxy_add_x_forwarded_for")))
    row = read(f"<190>Nov 21 10:00:00 web1 nginx: 198.51.100.1, {COMBINED}", own, "mine")
    assert row is not None and row["client_ip"] == "203.0.113.7"


def damaged(chance: random.Random) -> str:
    line = chance.choice(OWN)[2]
    for _ in range(chance.choice((0, 1, 2, 4))):
        at = chance.randrange(len(line) + 1)
        other = chance.choice(OWN)[2]
        part = chance.choice(
            (
                " ",
                ", ",
                '"',
                "\\",
                "-",
                "\x00",
                "é",
                "{",
                "}",
                "1.2.3.4",
                other[chance.randrange(len(other)) :],
            )
        )
        line = line[:at] + part + line[at + chance.randrange(4) :]
    return line


def test_damaged_lines_of_own_formats_are_read_the_same_among_others() -> None:
    chance = random.Random(1)
    own = reading(**{f"own{n}": FormatSettings(**{kind: text}) for n, (kind, text, *_) in enumerate(OWN)})
    own = dataclasses.replace(own, sites={"shop": SiteReading("Europe/Berlin", trusted_proxies=2)})
    lines = {
        "value": pa.array([damaged(chance).encode() for _ in range(600)]),
        "format": pa.array([chance.choice((None, f"own{chance.randrange(len(OWN))}")) for _ in range(600)]),
        "fields": pa.nulls(600, pa.string()),
        "site": pa.array([chance.choice(("shop", "other")) for _ in range(600)]),
    }
    rows = pa.table(fields(lines, own)).to_pylist()
    assert sum(row["well_formed"] for row in rows) > 50
    for start in range(0, 600, 40):
        some = {name: column[start : start + 40] for name, column in lines.items()}
        assert pa.table(fields(some, own)).to_pylist() == rows[start : start + 40]


@pytest.mark.parametrize(
    "formats, message",
    [
        (
            {"mine": FormatSettings(nginx="$remote_addr$time_local $request $status")},
            "without a text in between",
        ),
        ({"mine": FormatSettings(nginx="$remote_addr $request")}, "lacks time, status"),
        ({"mine": FormatSettings(apache="%u %t %>s")}, "lacks client_ip or request"),
        ({"mine": FormatSettings(tomcat="%h %t %s %D")}, "has %D, which is in milliseconds up to Tomcat 9"),
        ({"mine": FormatSettings(layout=("$time $status $ip",))}, "an unknown field ip"),
        ({"mine": FormatSettings(keys={"time": ("t",)})}, "lacks status"),
        (
            {"mine": FormatSettings(layout=("$time $status $target",), pattern="(?=x)")},
            "the pattern of format mine is no regular expression",
        ),
        ({"mine": FormatSettings(nginx='{"a": ')}, "is not JSON"),
        ({"combined": FormatSettings(nginx=NGINX)}, "the format combined already exists"),
    ],
)
def test_an_own_format_that_cannot_be_read_is_an_error(
    formats: dict[str, FormatSettings], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        reading(**formats)


def of_site(**values: Any) -> Reading:
    return reading_of(dataclasses.replace(Settings(), sites={"shop": SiteSettings(**values)}))


@pytest.mark.parametrize(
    "time, utc",
    [
        ("21/Nov/2026:10:00:00.123", "2026-11-21T09:00:00.123000+00:00"),
        ("21/Jul/2026:10:00:00.123", "2026-07-21T08:00:00.123000+00:00"),
        ("25/Oct/2026:02:30:00.123", "2026-10-25T00:30:00.123000+00:00"),  # comes twice, the first is taken
        ("29/Mar/2026:02:30:00.123", "2026-03-29T01:00:00+00:00"),  # does not exist
    ],
)
def test_a_time_without_a_zone_is_of_the_sites(time: str, utc: str) -> None:
    line = (
        f'203.0.113.7:41342 [{time}] web shop/web1 1/0/3/6/10 200 5 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"'
    )
    row = read(line, of_site(timezone="Europe/Berlin"))
    assert row is not None and row["event_time"].isoformat() == utc
    elsewhere = read(line, of_site(timezone="Europe/Berlin"), site="else")
    assert elsewhere is not None and elsewhere["event_time"].isoformat()[11:19] == time[12:20]


def test_a_time_with_a_zone_and_a_w3c_time_stay() -> None:
    berlin = of_site(timezone="Europe/Berlin")
    for row in (
        read(COMBINED, berlin),
        read("2026-11-21 10:00:00 203.0.113.7 GET / 200", berlin,
             header="date time c-ip cs-method cs-uri-stem sc-status"),
        read(COMBINED.replace("21/Nov/2026:10:00:00 +0000", "21/Nov/2026:12:00:00 +0200"), berlin),
    ):  # fmt: skip
        assert row is not None and row["event_time"] == TIME


def test_the_columns_of_w3c_lines_may_be_the_sites() -> None:
    line = "2026-11-21 10:00:00 203.0.113.7 GET /a 200"
    site = of_site(fields="date time c-ip cs-method cs-uri-stem sc-status")
    row = read(line, site)
    assert row is not None and (row["path"], row["status"]) == ("/a", 200)
    assert read(line, site, site="else") is None
    other = read("2026-11-21 10:00:00 404 /b GET 203.0.113.7", site,
                 header="date time sc-status cs-uri-stem cs-method c-ip")  # fmt: skip
    assert other is not None and (other["path"], other["status"]) == ("/b", 404)


@pytest.mark.parametrize(
    "proxies, chain, client",
    [
        (0, "198.51.100.1, 198.51.100.2", "203.0.113.7"),
        (1, "198.51.100.1, 198.51.100.2", "198.51.100.2"),
        (2, "198.51.100.1, 198.51.100.2", "198.51.100.1"),
        (3, "198.51.100.1,198.51.100.2", "198.51.100.1"),
        (1, "198.51.100.1, [2001:db8::1]:443", "2001:db8::1"),
        (1, "198.51.100.1:443", "198.51.100.1"),
        (1, "-", "203.0.113.7"),
        (1, "unknown", "203.0.113.7"),
        (2, "junk, 198.51.100.2", "203.0.113.7"),
    ],
)
def test_the_client_is_in_front_of_the_trusted_proxies(proxies: int, chain: str, client: str) -> None:
    site = of_site(trusted_proxies=proxies)
    lines = [
        f'{COMBINED} "{chain}"',
        f'{{"remote_addr":"203.0.113.7","time_iso8601":"2026-11-21T10:00:00Z","request":"GET / HTTP/1.1","status":200,'
        f'"http_x_forwarded_for":"{chain}"}}',
    ]
    if "," in chain and "junk" not in chain and "[" not in chain:
        lines.append(f"<190>Nov 21 10:00:00 web1 nginx: {lines[0]}")
        lines += [f"{chain}, {COMBINED}", f"{chain} {COMBINED}", f"www.example.org:443 {chain}, {COMBINED}"]
    if "junk" not in chain and "[" not in chain:
        lines += [f'"{chain}" {COMBINED}', f'www.example.org "{chain}" {COMBINED} 0.012']
    for line in lines:
        row = read(line, site)
        assert row is not None and row["client_ip"] == client, line


def test_another_list_of_own_hosts_is_another_version() -> None:
    versions = {of_site(hosts=hosts).version for hosts in ((), ("a.example",), ("a.example", "b.example"))}
    assert len(versions) == 3


def test_the_settings_file_has_sites_and_formats(tmp_path: Path) -> None:
    values = {
        "broker_port": 19_192,
        "sites": {
            "shop": {"timezone": "Europe/Berlin", "trusted_proxies": 1, "hosts": ["shop.example", "[::1]"]},
            "a b": {"fields": "x"},
        },
        "formats": {"mine": {"nginx": NGINX}},
    }
    (tmp_path / "tidemark.toml").write_text(tomlkit.dumps(values), encoding="utf-8")
    settings = load({"home": tmp_path}, {})
    assert settings.sites == {
        "shop": SiteSettings(timezone="Europe/Berlin", trusted_proxies=1, hosts=("shop.example", "[::1]")),
        "a b": SiteSettings(fields="x"),
    }
    assert (settings.broker.port, settings.formats["mine"].nginx) == (19_192, NGINX)
    assert reading_of(settings).version == reading_of(load({"home": tmp_path}, {})).version != ""
    assert reading_of(Settings()).version == ""


@pytest.mark.parametrize(
    "text, message",
    [
        ("sites = 1", "sites must be tables"),
        ("[sites]\nshop = 1", "sites must be tables"),
        ("[sites.shop]\nzone = 1", "unknown setting 'zone' of sites.shop"),
        ("[sites.shop]\ntimezone = 1", "timezone of sites.shop must be text, not 1"),
        ("[sites.shop]\ntimezone = 'Mars'", "no time zone 'Mars'"),
        ("[sites.shop]\ntimezone = '../x'", "no time zone"),
        ("[sites.shop]\ntrusted_proxies = -1", "is negative"),
        ("[sites.shop]\ntrusted_proxies = true", "must be text or a whole number or a list of texts"),
        ("[sites.shop]\nhosts = 'a.example'", "hosts of sites.shop must be a list of texts, not 'a.example'"),
        ("[sites.shop]\nhosts = ['a.example', 1]", "must be a list of texts"),
        (
            "[sites.shop]\nhosts = ['https://a.example']",
            "'https://a.example' of hosts of site shop is no host",
        ),
        ("[sites.shop]\nhosts = ['a.example:443']", "is no host"),
        ("[sites.shop]\nhosts = ['*.a.example']", "is no host"),
        ("[sites.shop]\nhosts = ['']", "is no host"),
        ("[formats.a]", "needs exactly one of apache, nginx"),
        ("[formats.a]\nlayout = [1]", "layout of formats.a must be a list of texts"),
        ("[formats.a]\nkeys = {}", "keys of formats.a must be a table of texts"),
        ("[formats.a]\nkeys = {time = 1}", "keys of formats.a must be a table of texts"),
        ("[formats.a]\nnginx = 'x'\napache = 'x'", "needs exactly one of apache, nginx"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_it(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "tidemark.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=message):
        load({"home": tmp_path}, {})

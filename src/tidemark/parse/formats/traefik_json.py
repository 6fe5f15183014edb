"""Traefik's access log as JSON."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, where
from tidemark.parse.objects import JsonFormat


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    # Behind a trusted proxy, ClientHost is the whole X-Forwarded-For: then the line's own address is taken.
    several = flags_of(pc.match_substring(texts["client_ip"], ","))
    return texts | {
        "client_ip": where(~several, texts["client_ip"], texts["own_address"]),
        "forwarded": pc.coalesce(texts["forwarded"], where(several, texts["client_ip"], None)),
    }


FORMAT = JsonFormat(
    name="traefik_json",
    about="Traefik's access log with `format: json`. It has referrer and user agent only if Traefik keeps headers.",
    docs="https://doc.traefik.io/traefik/observe/logs-and-access-logs/",
    examples=(
        '{"ClientAddr":"203.0.113.7:41342","ClientHost":"203.0.113.7","ClientPort":"41342","ClientUsername":"-",'
        '"DownstreamContentSize":512,"DownstreamStatus":200,"Duration":929675,"RequestAddr":"www.example.org",'
        '"RequestHost":"www.example.org","RequestMethod":"GET","RequestPath":"/docs/?page=2","RequestProtocol":'
        '"HTTP/2.0","RouterName":"web@docker","StartUTC":"2026-11-21T10:00:00.123456789Z","level":"info","msg":"",'
        '"request_Referer":"https://example.org/a","request_User-Agent":"curl/8.5.0","time":"2026-11-21T10:00:00Z"}',
    ),
    marks=("RequestMethod",),
    keys={
        "client_ip": ("ClientHost", "ClientAddr"),
        "own_address": ("ClientAddr",),
        "remote_user": ("ClientUsername",),
        "time": ("StartUTC", "StartLocal", "time"),
        "method": ("RequestMethod",),
        "target": ("RequestPath",),
        "protocol": ("RequestProtocol",),
        "status": ("DownstreamStatus", "OriginStatus"),
        "bytes": ("DownstreamContentSize", "OriginContentSize"),
        "referrer": ("request_Referer",),
        "user_agent": ("request_User-Agent",),
        "host": ("RequestHost", "RequestAddr"),
        "duration_ns": ("Duration",),
        "forwarded": ("request_X-Forwarded-For",),
    },
    refine=_refined,
)

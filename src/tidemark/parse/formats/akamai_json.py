"""Akamai's DataStream 2."""

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote, unquote, unquote_plus

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import matches, where
from tidemark.parse.objects import JsonFormat
from tidemark.parse.values import each_distinct
from tidemark.parse.writing import Composed


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    # `proto` may be the scheme, and a path may lack its first slash.
    version = matches(texts["protocol"], r"^HTTP/\d")
    bare = matches(texts["target"], r"^[\w.~%]")
    return texts | {
        "protocol": where(version, texts["protocol"], None),
        "target": where(~bare, texts["target"], pc.binary_join_element_wise("", texts["target"], "/")),
        "referrer": each_distinct(texts["referrer"], unquote),
        "user_agent": each_distinct(texts["user_agent"], _decoded),
    }


def _decoded(agent: str) -> str:
    return unquote(agent) if "%20" in agent else unquote_plus(agent)


def _encoded(name: str) -> Composed:
    return Composed((name,), lambda texts: each_distinct(texts[name], partial(quote, safe="")))


FORMAT = JsonFormat(
    name="akamai_json",
    about="Akamai's DataStream 2 as JSON. The duration is the turnaround time, up to the first byte.",
    docs="https://techdocs.akamai.com/datastream2/docs/log-format-1",
    examples=(
        '{"version":1,"cp":"123456","reqId":"1239f220","reqTimeSec":"1795255200.123","bytes":"512","cliIP":'
        '"203.0.113.7","statusCode":"200","proto":"HTTP/1.1","reqHost":"www.example.org","reqMethod":"GET","reqPath":'
        '"/docs/","reqPort":"443","queryStr":"page=2","UA":"curl%2F8.5.0%20(test)","referer":'
        '"https%3A%2F%2Fexample.org%2Fa","turnAroundTimeMSec":"12","country":"DE","cacheStatus":"1"}',
    ),
    marks=("reqTimeSec",),
    keys={
        "client_ip": ("cliIP",),
        "time": ("reqTimeSec",),
        "method": ("reqMethod",),
        "target": ("reqPath",),
        "query": ("queryStr",),
        "protocol": ("proto",),
        "status": ("statusCode",),
        "bytes": ("bytes", "totalBytes", "rspContentLen"),
        "referrer": ("referer",),
        "user_agent": ("UA",),
        "host": ("reqHost",),
        "duration_ms": ("turnAroundTimeMSec",),
        "edge_country": ("country",),
        "forwarded": ("xForwardedFor",),
    },
    refine=_refined,
    compose={"referrer": _encoded("referrer"), "user_agent": _encoded("user_agent")},
)

"""Azure's Front Door, content delivery network, Application Gateway, API Management and App Service."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_of, matches, where
from tidemark.parse.objects import JsonFormat
from tidemark.parse.writing import Composed


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    # Front Door writes 2.0.0.0.
    protocol = pc.replace_substring_regex(texts["protocol"], r"^(\d\.\d)\.0\.0$", r"\1")
    # Application Gateway's whole numbers are milliseconds in its first version, and otherwise of an unknown unit.
    taken, instance = texts["taken"], texts["instance"]
    whole = flags_of(pc.is_valid(instance)) & matches(taken, r"^\d+$")
    first = whole & flags_of(pc.starts_with(instance, "ApplicationGatewayRole"))
    return texts | {
        "protocol": protocol,
        "duration_s": where(~whole, taken, None),
        "duration_ms": pc.coalesce(texts["milliseconds"], where(first, taken, None)),
    }


FORMAT = JsonFormat(
    name="azure_json",
    about="Access logs of Azure Front Door, Application Gateway, API Management and App Service.",
    docs="https://learn.microsoft.com/azure/frontdoor/standard-premium/how-to-logs",
    examples=(
        '{"time":"2026-11-21T10:00:00.1234567Z","category":"FrontDoorAccessLog","operationName":'
        '"Microsoft.Cdn/Profiles/AccessLog/Write","properties":{"httpMethod":"GET","httpVersion":"2.0.0.0",'
        '"requestUri":"https://www.example.org:443/docs/?page=2","hostName":"www.example.org","responseBytes":"512",'
        '"userAgent":"curl/8.5.0","clientIp":"203.0.113.7","clientPort":"41342","timeTaken":"0.012","httpStatusCode":'
        '"200","referer":"https://example.org/a"}}',
        '{"timeStamp":"2026-11-21T10:00:00+00:00","category":"ApplicationGatewayAccessLog","operationName":'
        '"ApplicationGatewayAccess","properties":{"clientIP":"203.0.113.7","clientPort":41342,"httpMethod":"GET",'
        '"requestUri":"/docs/","requestQuery":"page=2","userAgent":"curl/8.5.0","httpStatus":200,"httpVersion":'
        '"HTTP/1.1","receivedBytes":312,"sentBytes":512,"timeTaken":0.012,"host":"www.example.org"}}',
    ),
    marks=(),
    keys={
        "client_ip": (
            "properties.clientIp",
            "properties.clientIP",
            "properties.clientip",
            "properties.CIp",
            "callerIpAddress",
        ),
        "remote_user": ("properties.CsUsername",),
        "time": ("time", "timeStamp", "timestamp"),
        "method": (
            "properties.httpMethod",
            "properties.httpMethodName",
            "properties.CsMethod",
            "properties.method",
        ),
        "target": ("properties.requestUri", "properties.CsUriStem", "properties.url"),
        "query": ("properties.requestQuery", "properties.CsUriQuery"),
        "protocol": ("properties.httpVersion", "properties.requestProtocol", "properties.Protocol"),
        "status": (
            "properties.httpStatusCode",
            "properties.httpStatus",
            "properties.httpstatus",
            "properties.ScStatus",
            "properties.responseCode",
        ),
        "bytes": (
            "properties.responseBytes",
            "properties.sentBytes",
            "properties.ScBytes",
            "properties.responseSize",
        ),
        "referrer": (
            "properties.referer",
            "properties.referrer",
            "properties.referrerHeader",
            "properties.Referer",
        ),
        "user_agent": ("properties.userAgent", "properties.userAgentHeader", "properties.UserAgent"),
        "taken": ("properties.timeTaken",),
        "instance": ("properties.instanceId",),
        "milliseconds": ("properties.TimeTaken", "durationMs", "DurationMs"),
        "host": ("properties.originalHost", "properties.hostName", "properties.host", "properties.CsHost"),
    },
    refine=_refined,
    compose={"taken": Composed(("duration_us",), lambda texts: texts["duration_s"])},
)

"""Azure's Front Door, content delivery network and Application Gateway."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.objects import JsonFormat


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    # Front Door writes 2.0.0.0.
    protocol = pc.replace_substring_regex(texts["protocol"], r"^(\d\.\d)\.0\.0$", r"\1")
    return texts | {"protocol": protocol}


FORMAT = JsonFormat(
    name="azure_json",
    about="Access logs of Azure Front Door and Application Gateway.",
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
    marks=("properties.requestUri",),
    keys={
        "client_ip": ("properties.clientIp", "properties.clientIP", "properties.clientip"),
        "time": ("time", "timeStamp", "timestamp"),
        "method": ("properties.httpMethod", "properties.httpMethodName"),
        "target": ("properties.requestUri",),
        "query": ("properties.requestQuery",),
        "protocol": ("properties.httpVersion", "properties.requestProtocol"),
        "status": ("properties.httpStatusCode", "properties.httpStatus", "properties.httpstatus"),
        "bytes": ("properties.responseBytes", "properties.sentBytes"),
        "referrer": ("properties.referer", "properties.referrer", "properties.referrerHeader"),
        "user_agent": ("properties.userAgent", "properties.userAgentHeader"),
        "duration_s": ("properties.timeTaken",),
        "host": ("properties.originalHost", "properties.hostName", "properties.host"),
    },
    refine=_refined,
)

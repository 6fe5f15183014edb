"""Standard logs of Amazon CloudFront."""

from collections.abc import Mapping
from functools import partial
from urllib.parse import quote, unquote

import pyarrow as pa

from tidemark.parse.layout import Layout
from tidemark.parse.values import each_distinct
from tidemark.parse.w3c import utc
from tidemark.parse.writing import Composed


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    return texts | {
        "time": utc(texts["date"], texts["clock"]),
        "user_agent": each_distinct(texts["user_agent"], _decoded),
    }


def _decoded(agent: str) -> str:
    # Older logs encode a space twice.
    return unquote(agent.replace("%2520", "%20"))


_COLUMNS = (
    "$date\t$clock\t$_edge\t$bytes\t$client_ip\t$method\t$_distribution\t$target\t$status\t$referrer\t$user_agent\t"
    "$query\t$_cookie\t$_result\t$_id\t$host\t$_scheme\t$_received\t$duration_s\t$_forwarded\t$_tls\t$_cipher\t"
    "$_response"
)
FORMAT = Layout(
    name="cloudfront",
    about="Standard logs of Amazon CloudFront, in the order of its documentation.",
    docs="https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html",
    examples=(
        "2026-11-21\t10:00:00\tFRA2\t512\t203.0.113.7\tGET\td111111abcdef8.cloudfront.net\t/docs/\t200\t"
        "https://example.org/a\tcurl/8.5.0%20(test)\tpage=2\t-\tMiss"
        "\tMRVMF7KydIvxMWfJIglgwHQwZsbG2IhRJ07sn9AkKUFSHS9==\t"
        "www.example.org\thttps\t217\t0.001\t-\tTLSv1.3\tTLS_AES_128_GCM_SHA256\tMiss\tHTTP/2.0\t-\t-",
    ),
    pattern=r"^\d{4}-\d\d-\d\d\t\d\d:\d\d:\d\d\t",
    # Older logs have fewer columns.
    layouts=(f"{_COLUMNS}\t$protocol\t$_rest", f"{_COLUMNS}\t$protocol", _COLUMNS),
    refine=_refined,
    compose={
        "user_agent": Composed(
            ("user_agent",),
            lambda texts: each_distinct(texts["user_agent"], partial(quote, safe="/();,:=-._")),
        )
    },
    verbatim=True,
)

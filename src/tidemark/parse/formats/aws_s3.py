"""Server access logs of Amazon S3."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import extracted
from tidemark.parse.layout import Layout
from tidemark.parse.writing import Composed

# Version, host id, signature, cipher and kind of authentication are in front of the host.
_HOST = r"^\"?(?: [^ ]+){5} (?P<host>[^ ]+)"
# S3 does not escape quotes in the user agent.
_QUOTED = r'^(?P<more>.*)"(?P<rest>[^"]*)$'


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    agent, rest = texts["user_agent"], texts["rest"]
    parts = pc.extract_regex(rest, _QUOTED)
    agent = pc.coalesce(pc.binary_join_element_wise(agent, pc.struct_field(parts, "more"), '"'), agent)
    rest = pc.coalesce(pc.struct_field(parts, "rest"), rest)
    return texts | {"user_agent": agent, "host": extracted(rest, _HOST, "host")}


FORMAT = Layout(
    name="aws_s3",
    about="Amazon S3's server access log; operations without a request have no path.",
    docs="https://docs.aws.amazon.com/AmazonS3/latest/userguide/LogFormat.html",
    examples=(
        "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be my-bucket [21/Nov/2026:10:00:00"
        " +0000] 203.0.113.7"
        ' - 3E57427F3EXAMPLE REST.GET.OBJECT docs/index.html "GET /my-bucket/docs/index.html?page=2 HTTP/1.1" 200 -'
        ' 512 512 17 16 "https://example.org/a" "curl/8.5.0" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6='
        " SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader www.example.org TLSv1.3",
    ),
    pattern=r"^[0-9a-f]{64} [^ ]+ \[",
    layouts=(
        '$_owner $_bucket [$time] $client_ip $_requester $_id $_operation $_key "$request" $status $_error'
        " $bytes $_size"
        ' $duration_ms $_processing "$referrer" "$user_agent"$rest',
    ),
    refine=_refined,
    compose={
        "rest": Composed(
            ("host",),
            lambda texts: pc.binary_join_element_wise(" - - SigV4 - -", texts["host"], "TLSv1.3", " "),
        )
    },
)

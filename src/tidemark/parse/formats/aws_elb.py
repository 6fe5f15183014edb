"""Logs of AWS Classic Load Balancers."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.durations import summed_seconds
from tidemark.parse.layout import Layout
from tidemark.parse.values import without_port
from tidemark.parse.writing import Composed


def refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    """The fields of AWS' load balancers, with a duration and the client's address."""
    # Any of them is -1 where the balancer got no response.
    parts = [texts[name] for name in ("request_time", "target_time", "response_time")]
    return texts | {"duration_us": summed_seconds(parts), "client_ip": without_port(texts["client_ip"])}


_ELSEWHERE = Composed((), lambda texts: pa.repeat("0.000", texts.rows))
COMPOSE = {
    "client_ip": Composed(
        ("client_ip",), lambda texts: pc.binary_join_element_wise(texts["client_ip"], ":2817", "")
    ),
    "request_time": _ELSEWHERE,
    "target_time": Composed(("duration_us",), lambda texts: texts["duration_s"]),
    "response_time": _ELSEWHERE,
}

FORMAT = Layout(
    name="aws_elb",
    about="AWS Classic Load Balancer; lines of TCP listeners are not requests.",
    docs="https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/access-log-collection.html",
    examples=(
        "2026-11-21T10:00:00.945958Z my-loadbalancer 203.0.113.7:2817 10.0.0.1:80 0.000073 0.001048 0.000057"
        " 200 200 0 512"
        ' "GET http://www.example.org:80/docs/?page=2 HTTP/1.1" "curl/8.5.0" - -',
    ),
    pattern=r'^\d{4}-\d\d-\d\dT[0-9:.]+Z [^ ]+ [^ ]+ [^ ]+ [0-9.-]+ [0-9.-]+ [0-9.-]+ \d+ [0-9-]+ \d+ \d+ "',
    layouts=(
        "$time $_balancer $client_ip $_target $request_time $target_time $response_time $status $_target_status"
        " $_received $bytes"
        ' "$request" "$user_agent"$_rest',
        "$time $_balancer $client_ip $_target $request_time $target_time $response_time $status $_target_status"
        " $_received $bytes"
        ' "$request"',
    ),
    refine=refined,
    compose=COMPOSE,
)

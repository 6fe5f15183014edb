"""Envoy's access log, also as Istio has it."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.layout import Layout
from tidemark.parse.writing import Composed, joined


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    # At the edge, Envoy appends the address of its client.
    own = texts.get("client_ip", pc.replace_substring_regex(texts["forwarded"], r"^.*, *", ""))
    return texts | {"client_ip": own}


FORMAT = Layout(
    name="envoy",
    about="Envoy's and Istio's default text formats. Envoy's has only X-Forwarded-For; its last address is the client.",
    docs="https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage",
    examples=(
        '[2026-11-21T10:00:00.310Z] "GET /docs/?page=2 HTTP/2" 200 - 154 512 226 100'
        ' "198.51.100.1,203.0.113.7" "curl/8.5.0"'
        ' "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "www.example.org" "tcp://10.0.2.1:80"',
        '[2026-11-21T10:00:00.310Z] "GET /docs/?page=2 HTTP/1.1" 200 - via_upstream - "-" 0 512 5 4 "-" "curl/8.5.0"'
        ' "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "www.example.org" "10.0.2.1:80" inbound|80|| 127.0.0.6:41001'
        " 10.0.2.1:80 203.0.113.7:41342 - default",
    ),
    pattern=r'^\[\d{4}-\d\d-\d\dT[^\]]*\] "',
    layouts=(
        '[$time] "$request" $status $_flags $_received $bytes $duration_ms $_service "$forwarded" "$user_agent" "$_id"'
        ' "$host" "$_upstream"$_rest',
        # Istio up to 1.4.
        '[$time] "$request" $status $_flags "$_reason" $_received $bytes $duration_ms $_service "$forwarded"'
        ' "$user_agent" "$_id" "$host" "$_upstream" $_cluster $_local $_own $client_ip $_rest',
        '[$time] "$request" $status $_flags $_details $_reason "$_failure" $_received $bytes $duration_ms $_service'
        ' "$forwarded" "$user_agent" "$_id" "$host" "$_upstream" $_cluster $_local $_own $client_ip $_rest',
    ),
    refine=_refined,
    compose={
        "forwarded": Composed(
            ("client_ip",), lambda texts: joined(",", texts["forwarded"], texts["client_ip"])
        )
    },
)

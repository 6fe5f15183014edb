"""Traefik's access log as text."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.layout import Layout


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    return texts | {"duration_ms": pc.utf8_rtrim(texts["duration"], "ms")}


FORMAT = Layout(
    name="traefik_clf",
    about="Traefik's access log in its default format: combined, then router, server and duration.",
    docs="https://doc.traefik.io/traefik/observe/logs-and-access-logs/",
    examples=(
        '203.0.113.7 - alice [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/2.0" 200 512 "https://example.org/a"'
        ' "curl/8.5.0" 3180 "web@docker" "http://10.0.0.4:80" 12ms',
    ),
    pattern=r'" \d+ "[^"]*" "[^"]*" \d+ms$',
    layouts=(
        '$client_ip - $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent" $_count "$_router"'
        ' "$_server" $duration',
    ),
    refine=_refined,
)

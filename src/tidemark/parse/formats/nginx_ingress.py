"""The log of Kubernetes' ingress-nginx."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="nginx_ingress",
    about="ingress-nginx of Kubernetes: combined, then sizes, durations and upstreams.",
    docs="https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/log-format/",
    examples=(
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/2.0" 200 512 "https://example.org/a"'
        ' "curl/8.5.0" 462 0.012 [shop-web-80] [] 10.0.0.4:8080 512 0.012 200 0a4be0a9d3e3b2c5f7f1c3d5e7a9b1c3',
    ),
    pattern=r'" \d+ [0-9.]+ \[[^\]]*\] ',
    layouts=(
        '$client_ip - $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent" $_length $duration_s'
        " [$_upstream] $_rest",
    ),
)

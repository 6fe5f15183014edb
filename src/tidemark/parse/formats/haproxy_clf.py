"""HAProxy's HTTP log in the form of the Common Log Format."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="haproxy_clf",
    about="HAProxy's `option httplog clf`.",
    docs="https://docs.haproxy.org/3.0/configuration.html#option%20httplog",
    examples=(
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512 "" "" 41342 123 "web~"'
        ' "shop" "web1" 10 0 30 69 109 "----" 1 1 1 1 0 0 0 "" "" "www.example.org" ""',
    ),
    pattern=r'" "" \d+ \d+ "[^"]*" "[^"]*" "[^"]*" -?\d+ ',
    layouts=(
        '$client_ip - - [$time] "$request" $status $bytes "" "" $_port $_millis "$_frontend" "$_backend" "$_server"'
        " $_request $_queue $_connect $_response $duration_ms $_rest",
    ),
)

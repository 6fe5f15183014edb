"""The combined format after the name of the virtual host."""

from tidemark.parse.clf import Clf

FORMAT = Clf(
    name="vhost_combined",
    about="`host[:port] `, then combined or common.",
    docs="https://httpd.apache.org/docs/2.4/logs.html#virtualhost",
    examples=(
        'www.example.org:443 203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512'
        ' "https://example.org/a" "curl/8.5.0"',
    ),
    layout='$host $client_ip $_ident $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent"$_rest',
)

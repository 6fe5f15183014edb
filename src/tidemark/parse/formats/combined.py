"""The combined format: the default of nginx, and a nickname in Apache's default configuration."""

from tidemark.parse.clf import Clf

FORMAT = Clf(
    name="combined",
    about="Apache's and nginx's `combined`, with or without trailing fields such as a request time.",
    docs="https://httpd.apache.org/docs/2.4/logs.html#combined",
    examples=(
        '203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET /docs/?page=2 HTTP/1.1" 200 512 "https://example.org/a"'
        ' "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"',
        '203.0.113.7 - alice [21/Nov/2026:10:00:00 +0000] "GET / HTTP/2.0" 200 512 "-" "curl/8.5.0" 0.012 0.010'
        ' www.example.org "198.51.100.7, 10.0.0.1"',
    ),
    layout='$client_ip $_ident $remote_user [$time] "$request" $status $bytes "$referrer" "$user_agent"$_rest',
)

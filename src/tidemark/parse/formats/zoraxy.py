"""The log of Zoraxy."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="zoraxy",
    about="Zoraxy's log of requests. Its times have no zone.",
    docs="https://github.com/tobychui/zoraxy",
    examples=(
        "2026/11/21 10:00:00 [2026-11-21 10:00:00.150624] [router:host-http] [origin:www.example.org]"
        " [client: 203.0.113.7]"
        " [useragent: curl/8.5.0] GET /docs/?page=2 200",
    ),
    pattern=r"\[router:[^\]]*\] \[origin:.* \d{3}$",
    layouts=(
        "$_date $_clock [$time] [router:$_router] [origin:$host] [client: $client_ip] [useragent: $user_agent] $method"
        " $target $status",
        "[$time] [router:$_router] [origin:$host] [client: $client_ip] [useragent: $user_agent] $method"
        " $target $status",
    ),
)

"""Squid's native log."""

from tidemark.parse.layout import Layout

FORMAT = Layout(
    name="squid",
    about="Squid's native log; entries without an HTTP status are rejected.",
    docs="https://wiki.squid-cache.org/Features/LogFormat",
    examples=(
        "1795255200.123    915 203.0.113.7 TCP_MISS/200 512 GET http://www.example.org/docs/?page=2 -"
        " HIER_DIRECT/10.0.0.4"
        " text/html",
    ),
    pattern=r"^\d{9,10}(?:\.\d{3})? +\d+ [^ ]+ [A-Z_]+/\d{3} ",
    layouts=(
        "$time $duration_ms $client_ip $_result/$status $bytes $method $target $remote_user $_server $_type",
    ),
    squeezed=True,
)

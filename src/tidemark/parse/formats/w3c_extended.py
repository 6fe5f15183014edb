"""Logs of the W3C's extended format, whose header names the columns."""

from tidemark.parse.w3c import W3c

FORMAT = W3c(
    name="w3c_extended",
    about="Other logs in the W3C's extended format, read in the same way as `iis_w3c`.",
    docs="https://www.w3.org/TR/WD-logfile.html",
    examples=(
        "2026-11-21\t10:00:00\t203.0.113.7\t-\tGET\t/docs/\tpage=2\tHTTP/1.1\t200\t512"
        "\thttps://example.org/a\tcurl/8.5.0"
        "\twww.example.org",
    ),
    taken="duration_s",
    header="",  # any
    fields="date time c-ip cs-username cs-method cs-uri-stem cs-uri-query cs-version sc-status sc-bytes cs(Referer)"
    " cs(User-Agent) cs-host",
)

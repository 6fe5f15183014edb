"""IIS's logs, which name their columns in a header."""

from tidemark.parse.w3c import W3c

FORMAT = W3c(
    name="iis_w3c",
    about="IIS's W3C logs. The import sends the columns that `#Fields` names; other senders set the header `fields`.",
    docs="https://learn.microsoft.com/windows/win32/http/w3c-logging",
    examples=(
        "2026-11-21 10:00:00 10.0.0.4 GET /docs/ page=2 443 - 203.0.113.7 Mozilla/5.0+(Windows+NT+10.0;+Win64)"
        " https://example.org/a 200 0 0 512 312 93",
    ),
    taken="duration_ms",
    header=r"sc-(?:win32-|sub)status|s-sitename",
    fields="date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer)"
    " sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken",
)

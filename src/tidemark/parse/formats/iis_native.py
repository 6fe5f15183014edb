"""IIS's own format with commas, which has no header."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.parse.layout import Layout
from tidemark.parse.writing import Composed

_DATE = r"^(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4}|\d\d)$"


def _refined(texts: dict[str, pa.Array]) -> Mapping[str, pa.Array]:
    parts = pc.extract_regex(texts["date"], _DATE)
    month, day, year = (pc.struct_field(parts, name) for name in ("month", "day", "year"))
    date = pc.binary_join_element_wise(
        pc.utf8_replace_slice(pc.utf8_lpad(year, 4, "2"), 0, 2, "20"),
        pc.utf8_lpad(month, 2, "0"),
        pc.utf8_lpad(day, 2, "0"),
        "-",
    )
    clock = pc.utf8_lpad(texts["clock"], 8, "0")
    return texts | {"time": pc.binary_join_element_wise(date, clock, " ")}


FORMAT = Layout(
    name="iis_native",
    about="IIS's log file format, with commas between its columns. Its times have no zone; the month comes first.",
    docs="https://learn.microsoft.com/windows/win32/http/iis-logging",
    examples=(
        "203.0.113.7, -, 11/21/2026, 10:00:00, W3SVC1, WEB1, 10.0.0.4, 93, 312, 512, 200, 0, GET, /docs/, page=2,",
    ),
    pattern=r"^[^ ,]+, [^,]*, \d\d?/\d\d?/\d\d(?:\d\d)?, \d\d?:\d\d:\d\d, ",
    layouts=(
        "$client_ip, $remote_user, $date, $clock, $_service, $_server, $_own, $duration_ms, $_received, $bytes,"
        " $status, $_win32, $method, $target, $query,",
    ),
    refine=_refined,
    compose={"date": Composed(("event_time",), lambda texts: texts["date_mdy"])},
)

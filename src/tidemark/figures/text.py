"""Makes text from log lines safe, because anyone can write them."""

from __future__ import annotations

import io
from csv import QUOTE_NONNUMERIC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# A spreadsheet runs a cell that starts with one of these as a formula (OWASP, "CSV injection").
_FORMULA_START = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# The same as a regular expression.
FORMULA = "^[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_{}[]()<>#+-.!|~$:&"})


def shown(value: Any) -> str:
    """Raw bytes of a line as text; bytes that are not UTF-8 and control characters are escaped."""
    if value is None:
        return ""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


def plain(text: str) -> str:
    """Text escaped for Streamlit's Markdown; needed for labels and captions, not for tables."""
    return " ".join(shown(text).split()).translate(_MARKDOWN)


def neutral(value: Any) -> Any:
    """A cell that no spreadsheet treats as a formula: such text gets a leading apostrophe."""
    if isinstance(value, bytes | bytearray):
        value = shown(value)
    if isinstance(value, str) and value.startswith(_FORMULA_START):
        return "'" + value
    return value


def csv(frame: pd.DataFrame, *, printable: bool = False) -> bytes:
    """The frame as UTF-8 CSV with every text cell and heading neutralised; lists are joined by spaces. In `printable`
    CSV, control characters of texts are escaped, so that a terminal does not obey them."""
    import pandas as pd

    clean = frame.copy()
    for position, column in enumerate(frame.columns):
        if pd.api.types.is_object_dtype(frame.dtypes.iloc[position]) or isinstance(
            frame.dtypes.iloc[position], pd.StringDtype
        ):
            cells = [neutral(_joined(v)) for v in frame[column]]
            clean[column] = [shown(v) if printable and isinstance(v, str) else v for v in cells]
    clean.columns = pd.Index([neutral(str(c)) for c in clean.columns])
    buffer = io.StringIO()
    # Quotes all text, because pandas does not quote a lone carriage return, which ends a row.
    clean.to_csv(buffer, index=False, date_format="%Y-%m-%dT%H:%M:%S", quoting=QUOTE_NONNUMERIC)
    return buffer.getvalue().encode("utf-8")


def _joined(value: Any) -> Any:
    if isinstance(value, str | bytes | bytearray) or not hasattr(value, "__iter__"):
        return value
    return " ".join(str(v) for v in value)


def duration(seconds: float | None) -> str:
    """Seconds for people: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None or _is_missing(seconds):
        return "–"
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    whole = round(seconds)
    for large, small, size in (("d", "h", 86400), ("h", "min", 3600), ("min", "s", 60)):
        if whole >= size:
            rest = (whole % size) // {"d": 3600, "h": 60, "min": 1}[large]
            return f"{whole // size} {large}" + (f" {rest} {small}" if rest else "")
    return f"{whole} s"


def _is_missing(value: Any) -> bool:
    # Not all that make text need pandas, which takes time to load.
    import pandas as pd

    return bool(pd.isna(value))


def number(value: float | None) -> str:
    """A count with thousands separators, or – where there is none."""
    return "–" if value is None or _is_missing(value) else f"{value:,.0f}"


def several(count: int, noun: str) -> str:
    """A count with its noun: 1 request, 2,000 requests."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float | None) -> str:
    return "–" if share is None or _is_missing(share) else f"{share:.1%}"


def share(part: float, whole: float) -> str:
    return "–" if not whole else f"{part / whole:.1%}"


def size(value: float | None) -> str:
    """Bytes in decimal units."""
    if value is None or _is_missing(value):
        return "–"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return ""

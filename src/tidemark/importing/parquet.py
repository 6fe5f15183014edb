"""Parquet files as lines: rows are JSON objects, or lines of the W3C's format if the columns have its names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.importing.compression import DamagedError
from tidemark.importing.raw import RawFile, skipped

_ROWS = 20_000
_W3C = frozenset({"date", "time", "sc-status"})
# Names of headers, which services that allow no brackets in a column write with an underscore.
_HEADERS = {
    "cs_host": "cs(Host)",
    "cs_referer": "cs(Referer)",
    "cs_user_agent": "cs(User-Agent)",
    "cs_cookie": "cs(Cookie)",
}
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_CONTROL = r"[\x00-\x07\x0b\x0e-\x1f]"
# Values that JSON has without quotes.
_PLAIN = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_nested)


class ParquetLines:
    """The content of a Parquet file as text, which the same file always gives. It implements the interface of Members.

    Rows of columns that are named like fields of the W3C's format (CloudFront) become its lines, after a line of
    `#Fields`. Other rows become JSON objects without the columns that are NULL; a time is in ISO 8601, in UTC.
    """

    def __init__(self, file: RawFile) -> None:
        """Raises DamagedError for a file that cannot be read as Parquet."""
        self._name = file.name
        self._size = file.status.st_size
        descriptor = file.duplicate()
        try:
            self._file = pq.ParquetFile(f"/dev/fd/{descriptor}")
        except (pa.ArrowException, OSError) as error:
            raise self._damaged() from error
        finally:
            os.close(descriptor)
        self._texts = self._all()
        self._rest = b""
        self._rows = 0

    @property
    def position(self) -> int:
        """Bytes of the file that have been read, as its rows are a part of all rows."""
        rows = self._file.metadata.num_rows
        return self._size * self._rows // rows if rows else self._size

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; empty at the end. Raises DamagedError."""
        if not self._rest:
            try:
                self._rest = next(self._texts, b"")
            except (pa.ArrowException, OSError) as error:
                raise self._damaged() from error
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def skip(self, offset: int, tail: int) -> bytes | None:
        """Moves to `offset` of the content. Returns the `tail` bytes before it, or None if the content is shorter."""
        return skipped(self.read, offset, tail)

    def _all(self) -> Iterator[bytes]:
        names = self._file.schema_arrow.names
        fields = w3c_fields(names)
        if fields:
            yield f"#Fields: {' '.join(fields)}\n".encode()
        for batch in self._file.iter_batches(_ROWS):
            lines = w3c_lines(batch) if fields else json_lines(batch)
            self._rows += batch.num_rows
            yield _joined(lines)

    def _damaged(self) -> DamagedError:
        return DamagedError(
            f"{self._name} is no Parquet file that can be read",
            "Import a sound copy; the import continues from there.",
        )


def w3c_fields(names: list[str]) -> list[str]:
    """The names of columns as fields of the W3C's format; empty unless date, time and status are among them."""
    fields = [_HEADERS.get(name.lower(), re.sub(r"[_\s]", "-", name)) for name in names]
    return fields if {field.lower() for field in fields} >= _W3C else []


def w3c_lines(batch: pa.RecordBatch) -> pa.Array:
    """Rows as lines with tabs between their values, and `-` for NULL."""
    values = [pc.fill_null(_text(column), "-") for column in batch.columns]
    values = [pc.replace_substring_regex(each, r"[\t\r\n]+", " ") for each in values]
    return pc.binary_join_element_wise(*values, "\t")


def json_lines(batch: pa.RecordBatch) -> pa.Array:
    """Rows as JSON objects, without the columns that are NULL."""
    members = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = _text(column)
        if not any(test(column.type) for test in _PLAIN):
            texts = pc.binary_join_element_wise('"', _escaped(texts), '"', "")
        members.append(pc.binary_join_element_wise(f",{json.dumps(name)}:", texts, ""))
    if not members:
        return pa.array([], pa.string())
    # The empty text keeps rows whose values are all NULL.
    joined = pc.binary_join_element_wise("", *members, "", null_handling="skip")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def _text(column: pa.Array) -> pa.Array:
    """A column as text; times in ISO 8601, in UTC."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _text(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        # Nanoseconds are more than formats read.
        utc = column.cast(pa.timestamp("us" if kind.unit == "ns" else kind.unit, "UTC"), safe=False)
        return pc.strftime(utc, "%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_nested(kind):
        return pa.array([None if row is None else _dumped(row) for row in column.to_pylist()], pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        decoded = [None if row is None else row.decode("utf-8", "replace") for row in column.to_pylist()]
        return pa.array(decoded, pa.string())
    return column.cast(pa.string())


def _dumped(value: object) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
        return pa.array(
            [None if text is None else _dumped(text)[1:-1] for text in texts.to_pylist()], pa.string()
        )
    for raw, escaped in _ESCAPED.items():
        texts = pc.replace_substring(texts, raw, escaped)
    return texts


def _joined(lines: pa.Array) -> bytes:
    return b"".join(b"%b\n" % line for line in lines.cast(pa.binary()).to_pylist())

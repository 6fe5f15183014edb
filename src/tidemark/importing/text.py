"""The beginning of a log file: the encoding of its text and its line ends, or that it is no text."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

HEAD_BYTES = 64 * 1024
# So many NUL bytes within a line are a hole in the file: a crash or copytruncate has ended the line. Fewer of them
# may be content, such as the padding of a TLS message.
HOLE_BYTES = 512
HOLE = re.compile(rb"\0{%d,}" % HOLE_BYTES)
_MARKS = (
    # UTF-32's first: UTF-16's is the beginning of one of them.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED_BYTES = 64
_LEAST_UNMARKED_BYTES = 16
_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\r\n"

# Whether a line begins like text, and what text does not contain: control characters but those of terminals.
_TEXT_LINE = re.compile(rb"^[\t\x20-\x7e]{16}", re.MULTILINE)
_CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\v\f\r\b\a\x1b"))
_MOST_CONTROLS, _LEAST_CONTROLS = 0.05, 8
_BINARY = (
    (0, b"\x89PNG\r\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program (ELF)"),
    (0, b"MZ", "a program of Windows"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"ORC", "an ORC file"),
    (0, b"ARROW1\0\0", "an Arrow file"),
    (0, b"LPKSHHRH", "a journal of systemd, which `journalctl --file FILE --output json` reads"),
    (0, b"ElfFile\0", "an event log of Windows (EVTX)"),
    (0, b"\xd4\xc3\xb2\xa1", "a capture of network traffic (pcap)"),
    (0, b"\x0a\x0d\x0d\x0a", "a capture of network traffic (pcapng)"),
    (0, b"\xca\xfe\xba\xbe", "a Java class"),
    (0, b"\xd0\xcf\x11\xe0", "a document of Microsoft Office"),
    (0, b"PK\x03\x04", "a zip archive in a compressed file"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (0, b"\x1f\x8b\x08", "gzip data in a compressed file"),
    (0, b"BZh", "bzip2 data in a compressed file"),
    (0, b"\xfd7zXZ\0", "xz data in a compressed file"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data in a compressed file"),
    (0, b"\x04\x22\x4d\x18", "LZ4 data"),
    (0, b"\x1f\x9d", "data of compress (.Z)"),
    (0, b"LZIP\x01", "lzip data"),
    (257, b"ustar", "a tar archive, of which `tar -xOf FILE NAME` prints a file"),
)


@dataclass(frozen=True)
class Text:
    """How lines are written. `line_end`: "\\n" for lines that end with LF or CRLF, "\\r" for CR, LF or CRLF."""

    encoding: str = "utf-8"
    line_end: str = "\n"

    @property
    def unit(self) -> int:
        """The bytes of the smallest character."""
        return len("\n".encode(self.encoding))


PLAIN = Text()


@dataclass(frozen=True)
class Head:
    """The beginning of a content: NUL bytes, and at most HEAD_BYTES after them."""

    nuls: int
    data: bytes

    @property
    def whole(self) -> bytes:
        """The first HEAD_BYTES of the content, NUL bytes too."""
        return (b"\0" * min(self.nuls, HEAD_BYTES) + self.data)[:HEAD_BYTES]

    @property
    def text(self) -> Text:
        """The encoding, by its mark or because every second byte is NUL, and the line ends."""
        whole = self.whole
        encoding = next((name for mark, name in _MARKS if whole.startswith(mark)), None)
        encoding = encoding or self._unmarked()
        if encoding:
            return Text(encoding)
        # A CR at the end may be half a CRLF.
        by_returns = b"\n" not in self.data and b"\r" in self.data[:-1]
        return Text(line_end="\r") if by_returns else PLAIN

    @property
    def first_line(self) -> bytes:
        """The first line, or the beginning of a long one, without its end."""
        return re.split(rb"\r?\n" if self.text.line_end == "\n" else rb"[\r\n]", self.data, maxsplit=1)[0]

    @property
    def has_line(self) -> bool:
        """Whether the first line has ended, or is longer than a head."""
        return len(self.data) >= HEAD_BYTES or len(self.first_line) < len(self.data)

    @property
    def binary(self) -> str:
        """The probable type of content that is no text; else empty."""
        # Looking for the bytes of a hole is much quicker than the expression.
        holes = bytes(HOLE_BYTES) in self.data
        data = (HOLE.sub(b"", self.data) if holes else self.data).rstrip(b"\0")
        if self.text.encoding != "utf-8":
            return ""
        controls = len(data) - len(data.translate(None, _CONTROLS))
        for at, magic, kind in _BINARY:
            if not self.nuls and data.startswith(magic, at) and (controls or len(data) < len(magic) + 8):
                return kind
        odd = controls > max(_MOST_CONTROLS * len(data), _LEAST_CONTROLS)
        return "binary data" if odd and not _TEXT_LINE.search(data) else ""

    def _unmarked(self) -> str | None:
        """The encoding of text that mostly consists of ASCII characters in UTF-16 without a mark."""
        data = (b"\0" * (self.nuls % 2) + self.data)[:_UNMARKED_BYTES]
        if len(data) < _LEAST_UNMARKED_BYTES:
            return None
        for name, low, high in (
            ("utf-16-le", data[::2], data[1::2]),
            ("utf-16-be", data[1::2], data[::2]),
        ):
            if not high.strip(b"\0") and not low.strip(_PRINTABLE):
                return name
        return None

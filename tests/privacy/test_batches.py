"""A batch is masked like each of its lines, whatever lines are beside it; it keeps nothing of others."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.lines import (
    ANONYMOUS,
    EXACT,
    KEY,
    MASKED,
    as_bronze,
    bronze,
    columns,
    masking,
    validated,
    without,
)
from tidemark.parse.detect import DECLARED
from tidemark.privacy.masking import Masking
from tidemark.privacy.salts import Salts
from tidemark.settings.privacy import Privacy, SitePrivacy

CLIENTS = {
    "198.51.100.77": "198.51.100.0",
    "203.0.113.9": "203.0.113.0",
    "2001:db8:1:2::9": "2001:db8:1::",
    "[2001:db8:1:2::9]:443": "2001:db8:1::",
    "dialin.example.net": "-",
    "-": "-",
}
COMBINED = '{client} {user} [21/Nov/2026:10:00:00 +0000] "{request}" {result} "{referrer}" "{agent}"'
# What is in a line of the combined family: what stays as it is, and what makes the line one that is written anew.
USUAL = {
    "user": ("- -", "- alice", "- a b", "- [x [y", "ident bob@example.org"),
    "request": (
        "GET / HTTP/1.1",
        "GET /a?page=2",
        "HEAD /é/[z]?x=[1] HTTP/2.0",
        "GET /at/10:20:30 HTTP/1.1",
        "-",
    ),
    "result": ("200 5", "304 -", "404 0", "200 007", "500 1099511627776"),
    "referrer": ("-", "https://example.net/[x]?y=1", ""),
    "agent": ("-", "", "Mozilla/5.0 [FBAN/x;FBAV/1] 1.2", "Agent é/1"),
}
UNUSUAL = {
    "user": ("-", "- - -"),
    "request": (
        "GET /a?token=s3cret HTTP/1.1",
        "GET /b%40example.org/c HTTP/1.1",
        "GET /q?mail=bob%2540example.org",
        'GET /x\\"y\\\\ HTTP/1.1',
        "OPTIONS * HTTP/1.1",
        "GET /a b HTTP/1.1",
        "bob@example.org",
        "",
    ),
    "result": ("200 5 7", "200 5.0", "- -", "200", "200 5  ", "200 bob@example.org", "200 5 bob@example.org"),
    "referrer": ("https://u:s3cret@example.net/", "android-app://x\\x", "https://example.net/?sig=s3cret#a"),
    "agent": ('a \\"b\\" c', "a\tb", "\\"),
}
BEHIND = (' "203.0.113.9, 10.0.0.1"', " 0.003", ' "198.51.100.77" 17', " ", '"')
SECRETS = ("198.51.100.77", "s3cret", "bob")
COMMON = {name: texts[0] for name, texts in USUAL.items()} | {"agent": "Agent/1"}
TIMES = ("2026-11-21T10:00:00Z", "198.51.100.77", "21/Nov/2026:10:00:00")
OTHERS = (
    '198.51.100.77, 10.0.0.1 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"',
    'shop.example 198.51.100.77 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"',
    'no format 198.51.100.77 [2001:db8:1:2::9]:443 bob%40example.org token=s3cret {"key":"s3cret"}',
    '{"time":"2026-11-21T10:00:00Z","remote_addr":"198.51.100.77","request":"GET /a?key=s3cret","status":"200"}',
    "",
    "a\nb 198.51.100.77",
    "#Fields: date time c-ip",
)


def line_of(client: str, **parts: str) -> str:
    """A line of the combined family, by default the most usual one."""
    return COMBINED.format(client=client, **COMMON | parts)


@st.composite
def usual_lines(draw: st.DrawFn) -> tuple[str, str]:
    """A line of the combined family of which only the beginning is masked, and the masked line."""
    client = draw(st.sampled_from(sorted(CLIENTS)))
    parts = {name: draw(st.sampled_from(texts)) for name, texts in USUAL.items()}
    return line_of(client, **parts), line_of(CLIENTS[client], **parts | {"user": "- -"})


@st.composite
def other_lines(draw: st.DrawFn) -> bytes:
    """A line of any other shape."""
    kind = draw(st.sampled_from(("combined", "example", "other", "bytes")))
    if kind == "example":
        return draw(st.sampled_from([each for format in DECLARED for each in format.examples])).encode()
    if kind == "other":
        return draw(st.sampled_from(OTHERS)).encode()
    if kind == "bytes":
        return draw(st.binary(max_size=20)) + b"198.51.100.77"
    parts = {name: draw(st.sampled_from(USUAL[name] + texts)) for name, texts in UNUSUAL.items()}
    line = line_of(draw(st.sampled_from(sorted(CLIENTS))), **parts)
    line = line.replace(
        "21/Nov/2026:10:00:00 +0000", draw(st.sampled_from(("21/Nov/2026:10:00:00 +0000", *TIMES)))
    )
    return (line + draw(st.sampled_from(("", *BEHIND)))).encode()


@settings(max_examples=20, deadline=None)
@given(st.lists(usual_lines(), min_size=1, max_size=40))
def test_of_usual_lines_only_the_beginning_changes(lines: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as home:
        rows = validated(bronze([line.encode() for line, _ in lines]), Path(home), MASKED)
        again = validated(as_bronze(rows), Path(home), MASKED)
    assert [row["value"] for row in rows] == [masked.encode() for _, masked in lines]
    assert [without(row, {"ingested_at"}) for row in again] == [without(row, {"ingested_at"}) for row in rows]


@pytest.mark.parametrize("mode", (MASKED, ANONYMOUS), ids=lambda mode: mode.mode)
@settings(max_examples=6, deadline=None)
@given(st.lists(other_lines() | usual_lines().map(lambda each: each[0].encode()), min_size=2, max_size=12))
def test_a_line_is_masked_as_it_is_alone(mode: SitePrivacy, lines: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as home:
        together = validated(bronze(lines), Path(home), mode)
        alone = [validated(bronze([line]), Path(home), mode)[0] for line in lines]
        logged = validated(bronze(lines), Path(home), EXACT)
    kept = [without(row, {"ingested_at"}) for row in together]
    assert kept == [without(row, {"ingested_at"}) for row in alone]
    for row, exact in zip(kept, logged, strict=True):
        # A user agent stays as it was logged, also one that an escaped quote joins to what stands behind it.
        agent = exact["user_agent"] or "" if mode is MASKED else ""
        assert not [secret for secret in SECRETS if secret in str(row) and secret not in agent]


def both_modes(home: Path) -> pa.Table:
    """Lines of a site that is masked, one that is anonymous and one that is neither, as the pipeline makes them. The
    first one is masked already; the second one has its facts, but is another line."""
    modes = Privacy(EXACT, {"shop": MASKED, "blog": ANONYMOUS})
    lines = [line_of(client).encode() for client in ("198.51.100.77", "203.0.113.9")]
    [masked] = validated(bronze([lines[1]]), home, MASKED)
    facts = str(masked["privacy"])
    values = [masked["value"], lines[0], lines[0], lines[0], lines[1], b"no format 198.51.100.77", b""]
    table = bronze(
        values,  # type: ignore[arg-type]
        privacy=[facts, facts, None, None, None, None, None],
        site=["shop", "shop", "shop", "blog", "news", "blog", "shop"],
    )
    return columns(table, Masking(modes, KEY, Salts(home / "salts.json"), seals=True))


def test_sites_of_several_modes_in_a_batch(tmp_path: Path) -> None:
    rows = both_modes(tmp_path).to_pylist()
    starts = [row["value"].split(b" ")[0].decode() for row in rows]
    assert starts == ["203.0.113.0", "198.51.100.0", "198.51.100.0", "-", "203.0.113.9", "xx", ""]
    assert [row["client_ip"] for row in rows][:5] == [*starts[:3], None, starts[4]]
    modes = [(row["privacy"] or "").split("\t")[0] for row in rows]
    assert modes == ["mode=masked"] * 3 + ["mode=anonymous", "", "", ""]
    assert rows[0]["visitor_id"] != rows[1]["visitor_id"] == rows[2]["visitor_id"] != rows[3]["visitor_id"]


def test_a_dictionary_has_no_values_that_no_line_has(tmp_path: Path) -> None:
    """Files have whole dictionaries: an address that no row has any more would still stand in them."""
    for table in (
        both_modes(tmp_path),
        columns(bronze([line_of("198.51.100.77").encode()]), masking(tmp_path, ANONYMOUS)),
    ):
        for name in ("client_ip", "user_agent", "visitor_id", "privacy", "referrer"):
            column = table[name].combine_chunks()
            assert sorted(column.dictionary.to_pylist()) == sorted({*column.drop_null().to_pylist()}), name

"""Inference over random layouts: what is inferred reads the lines right, or nothing is inferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parse.infer_cases import Request, requests
from tests.parse.test_infer import assert_read, read
from tidemark.parse.infer import Ambiguous, infer

REQUESTS = requests(120)
Write = Callable[[Request], str]

TIMES: list[Write] = [
    lambda r: f"[{r.clf_time}]",
    lambda r: r.iso,
    lambda r: f"{r.time:%Y-%m-%d %H:%M:%S}",
    lambda r: f'"{r.time:%Y-%m-%d %H:%M:%S}"',
    lambda r: f"{r.time.timestamp():.3f}",
    lambda r: f"{r.time:%d/%m/%Y %H:%M:%S}",
    lambda r: f"{r.time:%m/%d/%Y %H:%M:%S}",
]
REQUEST_FIELDS: list[list[Write]] = [
    [lambda r: f'"{r.line}"'],
    [lambda r: r.method, lambda r: r.target],
    [lambda r: r.target, lambda r: r.method],
    [lambda r: r.method, lambda r: r.path, lambda r: r.query or "-"],
]
OTHERS: list[Write] = [
    lambda r: r.ip,
    lambda r: str(r.size),
    lambda r: str(r.size or "-"),
    lambda r: f'"{r.referrer}"',
    lambda r: f'"{r.agent}"',
    lambda r: r.host,
    lambda r: f"{r.millis}ms",
    lambda r: f"rt={r.seconds}",
    lambda r: f"took={r.millis}",
    lambda r: r.seconds,
    # What is no column of a request.
    lambda r: str(r.number + 17),
    lambda r: str(4711 + r.number % 3),
    lambda r: "10.0.0.4",
    lambda r: ("INFO", "WARN")[r.number % 2],
    lambda r: f"[worker-{r.number % 4}]",
    lambda r: f"{r.number * 7919:032x}",
    lambda r: "-",
    lambda r: str((200, 502)[r.number % 11 == 0]),
]
SEPARATORS = (" ", "\t", "|", " | ", ";", ", ")


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Sequence[Write], str]:
    """The fields of a line in any order, and what stands between them."""
    parts = [draw(st.sampled_from(TIMES)), *draw(st.sampled_from(REQUEST_FIELDS)), lambda r: str(r.status)]
    parts += draw(st.lists(st.sampled_from(OTHERS), max_size=6, unique=True))
    return draw(st.permutations(parts)), draw(st.sampled_from(SEPARATORS))


@settings(max_examples=30, deadline=None)
@given(layouts())
def test_no_layout_is_read_wrong(layout: tuple[Sequence[Write], str]) -> None:
    parts, separator = layout
    lines = [separator.join(part(request) for part in parts) for request in REQUESTS]
    result = infer([line.encode() for line in lines])
    if result is None:
        return
    readings = result.readings if isinstance(result, Ambiguous) else (result,)
    mistakes = []
    for reading in readings:
        try:
            for columns, request in zip(read(reading, lines), REQUESTS, strict=True):
                assert_read(columns, request, frozenset())
        except AssertionError as mistake:
            mistakes.append((reading.shown, mistake))
    assert len(mistakes) < len(readings), (lines[0], mistakes)

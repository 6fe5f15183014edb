from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from tidemark.figures import text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_cell_that_starts_like_a_formula_is_neutralised_in_a_download(start: str) -> None:
    frame = pd.DataFrame({"path": [f"{start}HYPERLINK(1)", "/plain"], start + "heading": [1, 2]})

    rows = list(csv.reader(io.StringIO(text.csv(frame).decode(), newline="")))

    assert rows == [["path", f"'{start}heading"], [f"'{start}HYPERLINK(1)", "1"], ["/plain", "2"]]


def test_bytes_and_lists_in_a_download_are_text() -> None:
    frame = pd.DataFrame({"value": [b"=1\xff"], "reasons": [["bad_date", "bad_size"]], "none": [None]})

    assert text.csv(frame).decode() == '"value","reasons","none"\n"\'=1\\xff","bad_date bad_size",""\n'


def test_a_terminal_gets_no_control_characters() -> None:
    frame = pd.DataFrame({"tag": ["\x1b[31mred", "\x9b1m", "\u202eleft", "two\nlines", "plain"]})

    shown = text.csv(frame, printable=True).decode().splitlines()

    assert shown == ['"tag"', r'"\x1b[31mred"', r'"\x9b1m"', r'"\u202eleft"', r'"two\nlines"', '"plain"']


def test_negative_numbers_stay_numbers_in_a_download() -> None:
    assert text.csv(pd.DataFrame({"n": [-5]})).decode() == '"n"\n-5\n'


def test_undecodable_bytes_and_control_characters_show_as_escapes() -> None:
    assert text.shown(b"caf\xc3\xa9 \xff\x00\n") == "café \\xff\\x00\\n"
    assert text.shown("a\u202eb") == "a\\u202eb"
    assert text.shown(None) == ""


def test_markdown_is_taken_out_of_labels() -> None:
    assert text.plain("**b** [x](javascript:1)") == "\\*\\*b\\*\\* \\[x\\]\\(javascript\\:1\\)"


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0.42, "0.4 s"),
        (3, "3 s"),
        (59, "59 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert text.duration(seconds) == words


def test_sizes_and_shares() -> None:
    assert [text.size(n) for n in (None, 999, 12_345, 2_500_000)] == ["–", "999 B", "12.3 kB", "2.5 MB"]
    assert (text.share(1, 8), text.share(1, 0)) == ("12.5%", "–")

"""`tidemark import` of lines that no format reads, with and without `--infer`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.parse.infer_cases import CASES, requests
from tidemark.settings import load

Start = Callable[..., "subprocess.Popen[bytes]"]
LINES = [CASES[0].line(request).encode() for request in requests(200)]
LAYOUT = '[$time] $client_ip "$request" $status $bytes "$referrer" "$user_agent"'


def output(process: subprocess.Popen[bytes], data: bytes | None = None) -> list[str]:
    out, err = process.communicate(data, timeout=60)
    assert process.returncode == 0 and err == b"", err
    return out.decode().splitlines()


def test_an_import_says_what_it_would_infer_and_saves_it_if_asked(
    tidemark: Start, write: Callable[..., Path], tmp_path: Path
) -> None:
    path, home = write(tmp_path / "shop.log", LINES), tmp_path / "home"
    _, formats, outlook = output(tidemark(path, "--home", home))
    assert formats == "formats: 200 of no format; `tidemark explain` shows where they differ"
    assert outlook == (
        f"200 lines match no format; they look like the layout {LAYOUT}. `tidemark import --infer` saves that, and"
        " `tidemark rebuild silver.requests` brings in the lines that are in quarantine."
    )
    assert not load({"home": home}).formats

    saved, summary, hint = output(tidemark(path, "--infer", "--home", home))
    assert saved == f"{path}: the layout {LAYOUT}, saved as the format shop in {home / 'tidemark.toml'}"
    assert summary.startswith("1 file: 0 lines added, 200 already there")
    assert hint == "200 lines were there before: `tidemark rebuild silver.requests` reads them by it"
    text = (home / "tidemark.toml").read_text()

    for options in (["--infer"], []):  # nothing is left to infer
        assert output(tidemark(path, "--again", "--home", home, *options))[1:] == ["formats: shop 200"]
    assert (home / "tidemark.toml").read_text() == text


def test_lines_carry_no_format_so_others_in_the_file_are_read_too(
    tidemark: Start, lines: Callable[[], list[bytes]], write: Callable[..., Path], tmp_path: Path
) -> None:
    combined = b'203.0.113.7 - - [21/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 512 "-" "curl/8.5.0"'
    path = write(tmp_path / "a.log", [combined, *LINES, combined])
    out = output(tidemark(path, "--infer", "--home", tmp_path / "home"))
    assert out[-1] == "formats: a 200, combined 2"
    assert sorted(lines()) == sorted([combined, *LINES, combined])


def test_the_lines_of_a_stream_are_looked_at_when_they_are_sent(tidemark: Start, tmp_path: Path) -> None:
    process = tidemark("-", "--infer", "--home", tmp_path / "home", stdin=subprocess.PIPE)
    out = output(process, b"\n".join(LINES) + b"\n")
    assert out[-2].endswith(f"saved as the format inferred in {tmp_path / 'home' / 'tidemark.toml'}")
    assert out[-1].startswith("Once the pipeline has read them, `tidemark rebuild silver.requests`")


def test_what_is_not_sure_is_asked_and_what_is_no_request_is_not_inferred(
    tidemark: Start, write: Callable[..., Path], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    path = write(tmp_path / "a.log", [b"03/05/2026 10:00:%02d 203.0.113.7 GET /a 200" % n for n in range(20)])
    out = output(tidemark(path, "--infer", "--home", home))
    assert out[0] == (
        f"{path}: 20 lines match no format. Are the first numbers of 03/05/2026 day and month, or month and day?"
        " `tidemark explain` prints a format for either answer."
    )
    path = write(tmp_path / "b.log", [b"note %d" % n for n in range(20)])
    assert len(output(tidemark(path, "--infer", "--home", home))) == 2
    assert not load({"home": home}).formats


def test_a_format_is_either_named_or_inferred(
    tidemark: Start, write: Callable[..., Path], tmp_path: Path
) -> None:
    process = tidemark(write(tmp_path / "a.log", LINES), "--infer", "--format", "common")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and b"leave out one of them" in err

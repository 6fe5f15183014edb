from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from silver.requests import validation
from tests import processes
from tidemark.errors import PlatformError
from tidemark.parse.columns import Knowledge
from tidemark.parse.visitor import fingerprint, make_visitor_key, visitor_id, visitor_key
from tidemark.settings import Settings

KEY = b"k" * 32
SECRET = b"not to be seen by anybody at all"


def new_key(home: Settings) -> bytes:
    make_visitor_key(home)
    return visitor_key(home)


def test_an_id_is_stable_and_keyed() -> None:
    same = visitor_id(KEY, "shop", "203.0.113.7", "Firefox")
    # Pinned: another hash would cut every visitor's history in two.
    assert same == visitor_id(KEY, "shop", "203.0.113.7", "Firefox") == "f60ba765ee960cf627e3dd7306e42486"
    others = [
        visitor_id(b"l" * 32, "shop", "203.0.113.7", "Firefox"),
        visitor_id(KEY, "blog", "203.0.113.7", "Firefox"),
        visitor_id(KEY, "shop", "203.0.113.8", "Firefox"),
        visitor_id(KEY, "shop", "203.0.113.7", ""),
        visitor_id(KEY, "shop203.0.113.7", "", "Firefox"),
    ]
    assert len({same, *others}) == 6


def test_a_home_keeps_its_key_to_its_owner(home: Settings) -> None:
    make_visitor_key(home)
    key = visitor_key(home)
    make_visitor_key(home)
    assert len(key) == 32 and visitor_key(home) == key
    assert stat.S_IMODE((home.home / "visitor.key").stat().st_mode) == 0o600
    assert [path.name for path in home.home.iterdir()] == ["visitor.key"]


def test_homes_have_different_keys_and_a_setting_goes_first(home: Settings) -> None:
    other = home.changed(home=home.home / "other")
    make_visitor_key(home)
    make_visitor_key(other)
    assert visitor_key(home) != visitor_key(other)
    named = home.changed(visitor_key="secret")
    assert visitor_key(named) == visitor_key(other.changed(visitor_key="secret"))
    assert visitor_key(named) != visitor_key(home)


def test_threads_and_processes_that_start_together_agree(home: Settings) -> None:
    program = (
        "import sys, pathlib; from tidemark.settings import Settings; from tidemark.parse import visitor\n"
        "sys.stdin.read(); home = Settings.of(home=pathlib.Path(sys.argv[1]))\n"
        "visitor.make_visitor_key(home); print(visitor.visitor_key(home).hex())"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        processes.Popen([sys.executable, "-c", program, str(home.home)], **pipes)  # type: ignore[call-overload]
        for _ in range(3)
    ]
    with ThreadPoolExecutor(8) as pool:
        from_processes = list(pool.map(lambda process: process.communicate()[0].strip(), started))
        from_threads = list(pool.map(lambda _: new_key(home).hex(), range(40)))
    assert len({*from_processes, *from_threads}) == 1


def test_threads_race_for_the_first_key(home: Settings) -> None:
    with ThreadPoolExecutor(16) as pool:
        keys = list(pool.map(lambda _: new_key(home), range(16)))
    assert len(set(keys)) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 65])
def test_a_damaged_key_is_refused(content: bytes, home: Settings) -> None:
    home.home.mkdir()
    (home.home / "visitor.key").write_bytes(content)
    with pytest.raises(PlatformError, match="backup"):
        visitor_key(home)


def test_a_home_that_is_a_file_is_a_clear_error(home: Settings) -> None:
    home.home.write_text("")
    with pytest.raises(PlatformError, match="TIDEMARK_VISITOR_KEY"):
        make_visitor_key(home)


def test_a_key_is_never_made_by_reading_it(home: Settings) -> None:
    with pytest.raises(PlatformError, match=r"visitor\.key: No such file"):
        visitor_key(home)
    assert not home.home.exists()


def test_a_fingerprint_tells_keys_apart() -> None:
    # Pinned: with another function every home would seem to have another key.
    assert fingerprint(KEY) == "626d55ca75ea739a" != fingerprint(SECRET)


def test_the_key_shows_nowhere(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    knowledge = Knowledge(SECRET)
    frame = spark.createDataFrame(
        [("s", bytearray(b"203.0.113.7 - - []"), None, None, None, datetime.now(UTC))],
        "site string, value binary, format string, fields string, chunk string, kafka_timestamp timestamp",
    )
    enriched = validation(knowledge).to_frame(frame)
    enriched.explain(True)
    shown = capsys.readouterr().out + repr(knowledge) + str(knowledge) + repr(enriched)
    assert "columns(" in shown
    for form in (SECRET.decode(), SECRET.hex(), repr(list(SECRET)), "not to be seen"):
        assert form not in shown
    assert os.fsencode(str(Settings.of(visitor_key=SECRET.decode()))).find(SECRET) == -1

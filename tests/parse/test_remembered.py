"""A cache of texts that anybody can send."""

from __future__ import annotations

from tidemark.parse.remembered import MOST_CHARACTERS, remembered


def test_only_short_texts_are_kept_and_only_so_many() -> None:
    asked = []

    @remembered(2)
    def size(text: str) -> int:
        """The size."""
        asked.append(text)
        return len(text)

    short, long = "a" * MOST_CHARACTERS, "b" * (MOST_CHARACTERS + 1)
    assert [size(each) for each in (short, long, short, long)] == [len(short), len(long)] * 2
    assert asked == [short, long, long]
    assert [size(each) for each in ("c", "d", short)] == [1, 1, len(short)]
    assert asked[3:] == ["c", "d", short], "the oldest one is forgotten"
    assert size.__doc__ == "The size."

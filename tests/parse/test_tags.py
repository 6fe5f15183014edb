from __future__ import annotations

from urllib.parse import parse_qsl

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.parse.tags import CLICK_IDS, NO_TAGS, SEARCH_PARAMETERS, UTM, Tags, tagged, tags_of
from tidemark.parse.text import decoded


@pytest.mark.parametrize(
    "query, expected",
    [
        (
            "utm_source=a&utm_medium=b&utm_campaign=c&utm_term=d&utm_content=e",
            Tags("a", "b", "c", "d", "e"),
        ),
        ("utm_source=New+York%20%C3%A9%2B&x=1", Tags("New York é+")),
        # Bytes that are no UTF-8 stay distinct (matomo-org/matomo#5885).
        ("utm_campaign=caf%E9", Tags(utm_campaign=r"caf\xE9")),
        ("utm_campaign=caf%e8", Tags(utm_campaign=r"caf\xE8")),
        ("q=%CF%F0%E8%E2%E5%F2", Tags(search_term=r"\xCF\xF0\xE8\xE2\xE5\xF2")),
        ("q=%EF%EE%EA%F3%EF%E8", Tags(search_term=r"\xEF\xEE\xEA\xF3\xEF\xE8")),
        ("q=é+%C3%A9+%ED%A0%80+%zz%", Tags(search_term=r"é é \xED\xA0\x80 %zz%")),
        ("utm_source=%20&utm_medium=social%20", Tags(" ", "social ")),
        ("q=+", NO_TAGS),
        ("q=%20&q=+a&s=b", Tags(search_term=" a")),
        ("utm%5Fsource=a", Tags("a")),
        ("utm_source=a&utm_source=b", Tags("a")),
        ("utm_source=&utm_source=b&utm_medium=c", Tags(None, "c")),
        ("utm_source=", NO_TAGS),
        ("utm_source", NO_TAGS),
        ("UTM_SOURCE=a", NO_TAGS),
        ("my_utm_source=a", NO_TAGS),
        ("utm_source=a=b", Tags("a=b")),
        ("utm_campaign=" + "é" * 201, Tags(utm_campaign="é" * 200)),
        ("utm_campaign=" + "%C3%A9" * 201, Tags(utm_campaign="é" * 200)),
        ("gclid=x", Tags(click_id="gclid")),
        ("gclid=", NO_TAGS),
        ("fbclid=x&yclid=y&gclid=", Tags(click_id="yclid")),
        ("a=gclid=x", NO_TAGS),
        ("term=a&q=b", Tags(search_term="b")),
        ("keyword=a&search=b", Tags(search_term="b")),
        ("q=&s=a+b%26c", Tags(search_term="a b&c")),
        ("q=&q=a", Tags(search_term="a")),
        ("query=" + "x" * 300, Tags(search_term="x" * 200)),
        ("page=2&sq=a", NO_TAGS),
        ("", NO_TAGS),
        # Links as mail programs, redirects and people write them.
        ("utm_source=a&amp;utm_medium=b&amp;utm_campaign=c", Tags("a", "b", "c")),
        ("x=1&amp;gclid=y", Tags(click_id="gclid")),
        ("utm_source=a&#38;utm_medium=b", Tags("a", "b")),
        ("utm_source=a&amp;amp;utm_medium=b", Tags("a", "b")),
        ("utm_source=a&amp%3Butm_medium=b", Tags("a", "b")),
        ("utm_source=a;utm_medium=b;utm_campaign=c", Tags("a", "b", "c")),
        ("x=1;q=shoes", Tags(search_term="shoes")),
        ("utm_source=a%3Bb%26c", Tags("a;b&c")),
        ("utm_source=fb&utm_medium=cpc#utm_source=x", Tags("fb", "cpc")),
        ("x=1#utm_source=a", Tags("a")),
        ("utm_medium=social#top", Tags(utm_medium="social")),
        ("?utm_source=a", Tags("a")),
        ("id=3?utm_source=a&utm_medium=b", Tags("a", "b")),
        ("utm_source=a?utm_medium=b", Tags("a", "b")),
        ("id=3?fbclid=x", Tags(click_id="fbclid")),
        ("q=who?&s=b", Tags(search_term="who?")),
        ("q=a?b=c", Tags(search_term="a?b=c")),
        ("utm_source%3Dnews%26utm_medium%3Demail", NO_TAGS),
        ("&&;=&utm_source=a&", Tags("a")),
        ("amp;amp;", NO_TAGS),
    ],
)
def test_tags(query: str, expected: Tags) -> None:
    assert tags_of(query) == expected
    assert tagged(pa.array([query])).to_pylist()[0] == query or expected == NO_TAGS


_NAMES = st.sampled_from([*UTM, *CLICK_IDS, *SEARCH_PARAMETERS, "page", "utm%5Fsource", "%71", "a+b"])
_VALUES = st.text("ab+%20=é", max_size=5)


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=5))
def test_tags_equal_those_of_the_standard_library(parameters: list[tuple[str, str]]) -> None:
    query = "&".join(f"{name}={value}" for name, value in parameters)
    parsed = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    result = [(name, decoded(value.encode("utf-8", "surrogateescape"))) for name, value in parsed]
    first = dict(reversed(result))
    filled = {name: value for name, value in reversed(result) if value}
    searched = {name: value for name, value in reversed(result) if value.strip()}
    expected = Tags(
        *(first.get(name) or None for name in UTM),
        next((name for name in CLICK_IDS if name in filled), None),
        next((searched[name] for name in SEARCH_PARAMETERS if name in searched), None),
    )
    assert tags_of(query) == expected
    assert expected == NO_TAGS or tagged(pa.array([query, None])).to_pylist() == [query, None]


def test_most_queries_are_not_parsed() -> None:
    queries = pa.array(["page=2", "id=7&sort=price", "x=%20", None, "sq=1", "a=utm_source"])
    assert tagged(queries).null_count == len(queries)

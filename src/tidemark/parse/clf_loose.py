"""Reader of lines that are nearly of the combined family: with quotes that are not escaped, without some of its fields,
or with others in between."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import extracted, flags_of, matches, where
from tidemark.parse import trailing
from tidemark.parse.clf import DOMAIN, KINDS, NAME
from tidemark.parse.text import Lines
from tidemark.parse.values import Read, columns_of, present

# Some servers write numbers, a dash, words in brackets or the host (APISIX) between the time and the request.
_AMONG = rf"(?:(?:[\d./:-]+|\(?{NAME}\)?|\[[\w. ]+\]) +){{0,3}}"
# The time, and all text up to the request. Each line of this reader has it once.
MARK = rf'\[\d[^\]]*\] +{_AMONG}"'
# The fields. The status behind the request marks its end.
_HEAD = (
    r'^(?P<before>[^\["]*(?:(?:"[^"]*"|\[[0-9A-Fa-f.:, ]+\])[^\["]*)?) ?\[(?P<time>\d[^\]]*)\] +'
    rf'(?P<among>{_AMONG})"(?P<request>.*?)" +'
    # Some name the upstream here.
    r'(?:(?:to:|->) *"?[\w.:-]+"? +)?'
    rf"(?:(?P<server>{NAME}) +)?(?P<status>\d{{3}}|-) +(?P<bytes>\d+|-|\.)"
)
_TEXTS = (  # some servers write a dash without quotes
    r'(?P<numbers>(?: [^" ]+)*) +(?:"(?P<referrer>.*?)"|-) +(?:\[[^\]"]*\] +)?(?:"(?P<user_agent>.*?)"|-)'
    r'(?P<rest>(?:(?: |\d+\.\d+(?: |$))[^"]*(?:"[^"]*"[^"]*)*)?(?: ")?)$'
)
# The last one is of a line that ends within the referrer or the agent.
_PATTERNS = (
    _HEAD + _TEXTS,
    _HEAD + r'(?P<rest>(?: [^"]*)?)$',
    _HEAD + r' "(?P<referrer>[^"]*)(?:" "(?P<user_agent>[^"]*)|"? ?)$',
)
_LISTED = r"[0-9A-Fa-f.:\[\]]*[.:][0-9A-Fa-f.:\[\]]*(?:, ?[0-9A-Fa-f.:\[\]]+)*"
_CLIENT = (
    rf'^(?:(?P<host>[^ ",]*[^ ",:0-9a-f][^ ",]*) (?:- )?)?"?(?P<client_ip>{_LISTED})"?'
    r"(?: +(?P<ident>[^ ]+))?(?: +(?P<user>[^ ].*))?$"
)
# A host in quotes in front of the request or behind it, among other fields.
_HOST = r"(?P<host>-|[\w.\[\]-]+(?::\d+)?)"
_HOST_FIRST = rf'^{_HOST}" +"(?P<request>[A-Z]+ .*)$'
_OTHER_FIRST = r'^.*" +"(?P<request>[A-Z]+ [^"]* HTTP/\d(?:\.\d)?)$'
_HOST_BEHIND = rf'^(?P<request>.*? HTTP/\d(?:\.\d)?)" +"(?:{_HOST}(?:" .*)?|.*)$'


def read(lines: Lines, hidden: pa.Array) -> tuple[Read, np.ndarray]:
    """The fields of lines that are nearly of the family; `hidden` are their texts with escapes hidden. And for each
    line the index of its format in KINDS. Two lines in one are none."""
    one = flags_of(pc.equal(pc.count_substring_regex(hidden, MARK), 1))
    one &= flags_of(pc.less_equal(pc.count_substring_regex(hidden, r'\d\] "'), 1))
    hidden = where(one, hidden, None)
    texts: dict[str, pa.Array] = {}
    for pattern in _PATTERNS:
        parts = pc.extract_regex(hidden, pattern)
        for name, part in zip([each.name for each in parts.type], parts.flatten(), strict=True):
            texts[name] = pc.coalesce(texts[name], part) if name in texts else part
    sound = flags_of(pc.is_valid(texts["time"]))
    # Apache writes an empty name of a user in quotes.
    before = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts.pop("before")), ' ""$', " -")
    # Ingress controllers write the addresses of proxies again, in brackets.
    before = pc.replace_substring_regex(before, r" - \[[^\]]*\]", "")
    client = pc.extract_regex(before, _CLIENT)
    # Without an address in front, that of the client may be among the words behind the time: such a line is not read.
    sound &= flags_of(pc.is_valid(client)) | flags_of(pc.equal(texts["among"], ""))
    hosted = [pc.extract_regex(texts["request"], pattern) for pattern in (_HOST_FIRST, _HOST_BEHIND)]
    requests = (*hosted, pc.extract_regex(texts["request"], _OTHER_FIRST))
    texts["request"] = pc.coalesce(*(pc.struct_field(each, "request") for each in requests), texts["request"])
    first = pc.replace_substring_regex(before, "[ ].*$", "")
    texts |= _with_bare_referrer(texts)
    among = texts.pop("among")
    # A number in front of the request is a duration if it has decimals. A whole one may be the number of a process.
    seconds = extracted(among, r"(?:^|[ \[])(?P<seconds>\d+\.\d+)[ \]]", "seconds")
    tail = pc.binary_join_element_wise(
        pc.fill_null(pc.binary_join_element_wise(" ", seconds, ""), ""),
        *(pc.fill_null(texts.pop(name), "") for name in ("numbers", "rest")),
        "",
    )
    more = trailing.fields(tail, tail)
    ident = pc.struct_field(client, "ident")
    named = matches(ident, DOMAIN)
    host = pc.coalesce(
        present(pc.struct_field(client, "host")),
        where(named, ident, None),
        *(present(pc.struct_field(each, "host")) for each in hosted),
        extracted(among, rf"(?:^| )\(?(?P<host>{NAME})\)?(?: |$)", "host"),
        present(texts.pop("server")),
    )
    texts |= {
        "client_ip": pc.coalesce(pc.struct_field(client, "client_ip"), first),
        "remote_user": pc.replace_substring_regex(pc.struct_field(client, "user"), "^[- ]+$", "-"),
        "host": pc.coalesce(host, more["host"]),
        "forwarded": more["forwarded"],
    }
    read = columns_of({name: lines.restored(text) for name, text in texts.items()}, sound)
    vhost = flags_of(pc.is_valid(host))
    common = flags_of(pc.is_null(texts["user_agent"]))
    kinds = np.where(vhost, KINDS.index("vhost_combined"), np.where(common, KINDS.index("common"), 0))
    duration = trailing.without_times(more["duration_us"], read.columns["event_time"])
    return Read(read.sound, {**read.columns, "duration_us": duration}), kinds


def _with_bare_referrer(texts: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """The texts of lines whose referrer is not in quotes: an address, as Jira writes it, or the dash of App Engine in
    front of an agent and a host. Then the next field is the user agent."""
    parts = pc.extract_regex(texts["numbers"], r"^(?P<numbers>.*?) +(?P<referrer>https?://[^ ]+|-)$")
    bare = flags_of(pc.is_valid(parts))
    dash = flags_of(pc.equal(pc.struct_field(parts, "referrer"), "-"))
    if dash.any():
        dashed = matches(texts["user_agent"], DOMAIN)
        dashed &= ~matches(texts["referrer"], "^(?:-|[a-z-]+:.*)?$")
        bare &= ~dash | dashed
    if not bare.any():
        return {}
    behind = pc.binary_join_element_wise("", ' "', texts["user_agent"], '"', texts["rest"], "")
    return {
        "numbers": where(~bare, texts["numbers"], pc.struct_field(parts, "numbers")),
        "user_agent": where(~bare, texts["user_agent"], texts["referrer"]),
        "referrer": where(~bare, texts["referrer"], pc.struct_field(parts, "referrer")),
        "rest": where(~(bare & dash), texts["rest"], behind),
    }

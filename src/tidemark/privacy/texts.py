"""Masking of texts: addresses, e-mail addresses, user names in URLs, and values of parameters, wherever they stand."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Parts, flags_of, where
from tidemark.parse.remembered import remembered
from tidemark.parse.values import canonical_address
from tidemark.settings.privacy import ANONYMOUS

REMOVED = "removed"
# What stands in a line where there is no value.
NONE = "-"
# Bits of an address that stay, by its version.
_KEPT_BITS = {4: 24, 6: 48}
# Characters that a URL may have encoded, also twice.
_PERCENT = "%(?:25)*"
_AT = rf"(?:@|{_PERCENT}40)"
_LOCAL = rf"(?:[^\W_]|[_.+'~-]|{_PERCENT}(?:2[BbDdEe]|5[Ff]|[89A-Fa-f][0-9A-Fa-f]))"
_EMAIL = re.compile(rf"{_LOCAL}{{1,64}}{_AT}[^\W_][\w.-]{{0,252}}\.[^\W\d_]{{2,24}}")
_USERINFO = re.compile(rf"((?::|{_PERCENT}3[Aa])(?://|(?:{_PERCENT}2[Ff]){{2}}))[^/?#\s\"@&]{{1,200}}?{_AT}")
_DOT = rf"(?:\.|{_PERCENT}2[Ee])"
_IPV4 = re.compile(rf"(\d{{1,3}}{_DOT}\d{{1,3}}{_DOT}\d{{1,3}}{_DOT})\d{{1,3}}")
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_CANONICAL_IPV4 = rf"^{_OCTET}(?:\.{_OCTET}){{3}}$"
_COLON = rf"(?::|{_PERCENT}3[Aa])"
_IPV6 = re.compile(rf"(?:[0-9A-Fa-f]{{0,4}}{_COLON}){{2,8}}[0-9A-Fa-f]{{0,4}}")
_ENCODED_COLON = re.compile(rf"{_PERCENT}3[Aa]")
# A test of texts that have nothing to mask, which takes a fraction of the time.
_SUSPECT = (
    rf"(?i){_AT}|\d{_DOT}\d{{1,3}}{_DOT}\d{{1,3}}{_DOT}\d|{_COLON}{_COLON}|(?:[0-9a-f]{{1,4}}{_COLON}){{7}}"
)


@dataclass(frozen=True)
class TextMask:
    """The masking of texts at a level of `tidemark.settings.privacy`, with the names of parameters to strip."""

    level: int
    strip: tuple[str, ...]

    def column(self, text: pa.Array) -> pa.Array:
        """Paths, queries, URLs or hosts; the same array if there is nothing to mask."""
        coded = text.dictionary_encode()
        suspect = flags_of(pc.match_substring_regex(coded.dictionary, self._suspect))
        if not suspect.any():
            return text
        mask = pa.array(suspect)
        masked = pa.array(list(map(self.text, coded.dictionary.filter(mask).to_pylist())), pa.string())
        return pc.replace_with_mask(coded.dictionary, mask, masked).take(coded.indices)

    def text(self, text: str) -> str:
        """One text."""
        text = self._parameters.sub(rf"\1{REMOVED}", text)
        text = self._encoded_parameters.sub(rf"\1{REMOVED}", text)
        if "@" in text or "40" in text:
            text = _EMAIL.sub(REMOVED, _USERINFO.sub(r"\1", text))
        return self._addresses(text)

    def unread(self, line: str) -> str:
        """A line of which it is not known where its fields begin: values of parameters also as JSON and other notations
        have them."""
        return self.text(self._named.sub(rf"\1{REMOVED}", line))

    def addresses(self, addresses: pa.Array) -> pa.Array:
        """Clients as `tidemark.parse.values.address` has them. A name is not kept."""
        if self.level == ANONYMOUS:
            return pa.nulls(len(addresses), pa.string())
        plain = flags_of(pc.match_substring_regex(addresses, _CANONICAL_IPV4))
        networks = pc.binary_join_element_wise(
            Parts.of(where(plain, addresses, None), ".", 1, last=True).at(0), ".0", ""
        )
        if plain.all():
            return networks
        rest = [each and _network(each) for each in addresses.filter(pa.array(~plain)).to_pylist()]
        return pc.replace_with_mask(networks, pa.array(~plain), pa.array(rest, pa.string()))

    @cached_property
    def _suspect(self) -> str:
        return rf"{_SUSPECT}|(?:^|[?&;#]|{_PERCENT}(?:3f|26|3b|23)){self._names}(?:=|{_PERCENT}3d)"

    @cached_property
    def _names(self) -> str:
        # Without a name nothing matches.
        return f"(?:{'|'.join(map(re.escape, self.strip))})" if self.strip else r"[^\x00-\x{10FFFF}]"

    @cached_property
    def _pattern(self) -> str:
        return self._names if self.strip else "(?!)"

    @cached_property
    def _parameters(self) -> re.Pattern[str]:
        return re.compile(rf"(?i)((?:^|[?&;#]){self._pattern}=)[^&;#\s\"]+")

    @cached_property
    def _encoded_parameters(self) -> re.Pattern[str]:
        before, equals = rf"(?:^|[?&;#]|{_PERCENT}(?:3f|26|3b|23))", rf"(?:=|{_PERCENT}3d)"
        return re.compile(rf"(?i)({before}{self._pattern}{equals})(?:(?!{_PERCENT}(?:26|3b|23))[^&;#\s\"])+")

    @cached_property
    def _named(self) -> re.Pattern[str]:
        return re.compile(rf"(?i)(\b{self._pattern}\b[\\\"']*\s*[:=]\s*[\\\"']*)[^\s\"'&;,}}\\]+")

    def _addresses(self, text: str) -> str:
        text = _IPV6.sub(self._ipv6, text)
        return _IPV4.sub(NONE if self.level == ANONYMOUS else r"\g<1>0", text)

    def _ipv6(self, match: re.Match[str]) -> str:
        text = _ENCODED_COLON.sub(":", match[0])
        if "::" not in text and text.count(":") < 7:
            return match[0]  # a time
        if self.level == ANONYMOUS:
            return NONE
        return _network(text) or _network(text.strip(":")) or NONE


@remembered(100_000)
def _network(address: str) -> str | None:
    """The first address of the network of an address, in canonical form; None for a name."""
    canonical = canonical_address(address)
    try:
        parsed = ipaddress.ip_address(canonical or "")
    except ValueError:
        return None
    network = ipaddress.ip_network((parsed, _KEPT_BITS[parsed.version]), strict=False)
    return str(network.network_address)

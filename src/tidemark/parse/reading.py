"""The site's settings for reading its lines, and the formats that the user has declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Pieces, flags_of, where
from tidemark.parse.format import Format
from tidemark.parse.logtime import in_zone
from tidemark.parse.values import address

_ADDRESS = r"^\[?[0-9A-Fa-f.]*[.:][0-9A-Fa-f:.]+(?:\]:\d+|\]|:\d+)?$"


@dataclass(frozen=True)
class SiteReading:
    """How lines of a site are read: `timezone` of times without a zone; `fields`, the names of the columns of a W3C
    log, for lines that come without; `trusted_proxies`, how many proxies in front of the server append the address of
    their client to X-Forwarded-For; `hosts`, its own hosts, whose pages refer to its other pages."""

    timezone: str = ""
    fields: str = ""
    trusted_proxies: int = 0
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reading:
    """The settings by site, and the user's own formats; `declared` is these formats' text."""

    sites: Mapping[str, SiteReading] = field(default_factory=dict)
    formats: tuple[Format, ...] = ()
    declared: str = ""

    @property
    def version(self) -> str:
        """Changes with the settings; empty without any."""
        if not (self.sites or self.formats):
            return ""
        said = repr((sorted(self.sites.items()), self.declared))
        return blake2b(said.encode(), digest_size=4).hexdigest()

    def own_hosts(self, site: str) -> tuple[str, ...]:
        """The site's own hosts by the settings."""
        return self.sites[site].hosts if site in self.sites else ()

    def headers(self, header: pa.Array, site: pa.Array) -> pa.Array:
        """The names of the columns of W3C lines: the sender's, else the site's."""
        return self._changed(
            header,
            site,
            lambda each: bool(each.fields),
            lambda rows, each: pc.fill_null(header.take(rows), each.fields),
        )

    def settled(self, columns: Mapping[str, pa.Array], site: pa.Array) -> Mapping[str, pa.Array]:
        """The columns `tidemark.parse.values.READ`, with each site's time zone and the clients behind its proxies."""
        time, client, zoneless = (columns[name] for name in ("event_time", "client_ip", "zoneless"))

        def moved(rows: pa.Array, each: SiteReading) -> pa.Array:
            some = time.take(rows)
            return where(~flags_of(zoneless.take(rows)), some, in_zone(some, each.timezone))

        def behind(rows: pa.Array, each: SiteReading) -> pa.Array:
            chain = Pieces.of(columns["forwarded"].take(rows), ",")
            found = pc.utf8_trim_whitespace(chain.at(np.maximum(chain.count - each.trusted_proxies, 0)))
            sound = flags_of(pc.match_substring_regex(found, _ADDRESS))
            return where(sound, address(found), client.take(rows))

        return {
            **columns,
            "event_time": self._changed(time, site, lambda each: bool(each.timezone), moved),
            "client_ip": self._changed(client, site, lambda each: each.trusted_proxies > 0, behind),
        }

    def _changed(
        self,
        column: pa.Array,
        site: pa.Array,
        concerned: Callable[[SiteReading], bool],
        change: Callable[[pa.Array, SiteReading], pa.Array],
    ) -> pa.Array:
        """A column with the changed values of the lines of the sites that are concerned."""
        for name, each in self.sites.items():
            mine = flags_of(pc.equal(site, name)) if concerned(each) else np.zeros(0, bool)
            if mine.any():
                column = pc.replace_with_mask(
                    column, pa.array(mine), change(pa.array(np.flatnonzero(mine)), each)
                )
        return column


PLAIN = Reading()

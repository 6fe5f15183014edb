"""The site's settings for reading its lines, and the formats that the user has declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import flags_at, flags_of, where
from tidemark.parse.format import Format
from tidemark.parse.logtime import in_zone
from tidemark.parse.networks import Own, Trust
from tidemark.parse.proxies import client_before, client_of


@dataclass(frozen=True)
class SiteReading:
    """How lines of a site are read: `timezone` of times without a zone; `fields`, the names of the columns of a W3C
    log, for lines that come without; `trusted_proxies`, as `tidemark.settings.sites.SiteSettings`; `hosts`, its own
    hosts, whose pages refer to its other pages; `robots`, the text of its robots.txt. `networks`: lists of networks
    that the home has itself. Raises SettingError for a trusted proxy that is no network."""

    timezone: str = ""
    fields: str = ""
    trusted_proxies: str | int | tuple[str, ...] = "auto"
    hosts: tuple[str, ...] = ()
    robots: str = ""
    networks: Own = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.trusted_proxies != "auto":
            Trust.of(self._entries, self.networks)

    @property
    def _entries(self) -> tuple[str, ...]:
        if isinstance(self.trusted_proxies, int) or self.trusted_proxies == "none":
            return ()
        return (self.trusted_proxies,) if isinstance(self.trusted_proxies, str) else self.trusted_proxies

    def client(self, own: pa.Array, forwarded: pa.Array) -> pa.Array:
        """The client of each line, by its own address and the forwarded ones."""
        if isinstance(self.trusted_proxies, int) and self.trusted_proxies:
            return client_before(own, forwarded, self.trusted_proxies)
        if not self._entries:
            return own
        return client_of(own, forwarded, Trust.of(self._entries, self.networks).trusts)


@dataclass(frozen=True)
class Reading:
    """The settings by site, and the user's own formats; `declared` is these formats' text. `networks`: lists of
    networks that the home has itself."""

    sites: Mapping[str, SiteReading] = field(default_factory=dict)
    formats: tuple[Format, ...] = ()
    declared: str = ""
    networks: Own = field(default=(), repr=False)

    @property
    def version(self) -> str:
        """Changes with the settings; empty without any."""
        if not (self.sites or self.formats):
            return ""
        text = repr((sorted(self.sites.items()), self.declared))
        return blake2b(text.encode(), digest_size=4).hexdigest()

    def own_hosts(self, site: str) -> tuple[str, ...]:
        """The site's own hosts by the settings."""
        return self.sites[site].hosts if site in self.sites else ()

    def robots(self, site: str) -> str:
        """The text of the site's robots.txt by the settings; empty if it is not known."""
        return self.sites[site].robots if site in self.sites else ""

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

        return {
            **columns,
            "event_time": self._changed(time, site, lambda each: bool(each.timezone), moved),
            "client_ip": self._clients(client, columns["forwarded"], site),
        }

    def _clients(self, own: pa.Array, forwarded: pa.Array, site: pa.Array) -> pa.Array:
        if forwarded.null_count == len(forwarded):
            return own
        rows = np.flatnonzero(flags_of(pc.is_valid(forwarded)))
        coded = site.take(pa.array(rows)).dictionary_encode(null_encoding="encode")
        unset = SiteReading(networks=self.networks)
        readings = [self.sites.get(name, unset) for name in coded.dictionary.to_pylist()]
        numbers = {each: number for number, each in enumerate(dict.fromkeys(readings))}
        number = np.array([numbers[each] for each in readings])[coded.indices.to_numpy()]
        for each in numbers:
            mask = pa.array(flags_at(rows[number == numbers[each]], len(own)))
            own = pc.replace_with_mask(own, mask, each.client(own.filter(mask), forwarded.filter(mask)))
        return own

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

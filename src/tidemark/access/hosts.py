"""Host and Origin of a request. A page of another site can rebind its own name to the address of this server; a browser
still sends the page's name as Host, and its origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from tidemark.errors import SettingError

Headers = Sequence[tuple[bytes, bytes]]
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Allowed:
    """The names by which a server may be called, besides those of loopback. `setting` is where users write them."""

    names: frozenset[str] = frozenset()
    setting: str = ""

    def refusal(
        self, headers: Headers, served_at: str = "", *, changing: bool = False
    ) -> tuple[str, str] | None:
        """Why a request is refused, as the problem and what to do; None if it is not.

        `served_at` is the address of this server at which the request has arrived. A `changing` one may not come from a
        page of another site, even if its browser sends no origin.
        """
        hosts = values(headers, b"host")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        if not self.has(name, served_at):
            shown = ", ".join(hosts)[:200]
            remedy = f"Add it to {self.setting}" if self.setting else "Use its address"
            return (
                f"this server is not called {shown!r}",
                f"{remedy}, if the request is meant for this server.",
            )
        for origin in values(headers, b"origin"):
            if not self._same(origin, hosts[0]):
                return f"a page of {origin[:200]!r} may not call this server", "Open the server's own page."
        sites = values(headers, b"sec-fetch-site")
        if changing and any(site not in ("same-origin", "none") for site in sites):
            return "a page of another site may not change anything here", "Open the server's own page."
        return None

    def has(self, name: str, served_at: str = "") -> bool:
        """Whether a host name may be used."""
        return is_loopback_name(name) or (bool(name) and name in {*self.names, served_at.lower()})

    def _same(self, origin: str, host: str) -> bool:
        parts = _split(origin)
        if parts is None or parts[0] not in _DEFAULT_PORTS:
            return False
        return parts[1:] == _authority(host, parts[0]) or parts[1] in self.names


def allowed_names(text: str, setting: str) -> Allowed:
    """The names in a setting, separated by spaces or commas. Raises SettingError."""
    names = text.replace(",", " ").split()
    for name in names:
        if not host_name(name) or "/" in name or host_name(name) != name.lower():
            raise SettingError(
                f"{setting} has {name!r}, which is no host name",
                "Use names such as stats.example.org, without https:// and port.",
            )
    return Allowed(frozenset(map(host_name, names)), setting)


def is_loopback_name(name: str) -> bool:
    """Whether a host name always means the client's own machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name or address in a Host header, in lower case, without port and brackets; empty if it has none."""
    authority = _authority(host, "http")
    return authority[0] if authority else ""


def values(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    """The values of a header."""
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _authority(host: str, scheme: str) -> tuple[str, int] | None:
    parts = _split(f"{scheme}://{host}")
    return parts[1:] if parts else None


def _split(url: str) -> tuple[str, str, int] | None:
    """Scheme, name and port of an origin; None if it has anything else."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    name = (parts.hostname or "").rstrip(".")
    if not name or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.scheme, name, port if port is not None else _DEFAULT_PORTS.get(parts.scheme, 0)

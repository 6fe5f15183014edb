"""The table `[access]` of `tidemark.toml`: how people log in, and what each of them may see."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, get_args

from tidemark.errors import SettingError
from tidemark.figures.declared import FILE
from tidemark.figures.right import ROLES, Right
from tidemark.figures.toml_tables import table_of, tables_of, toml_of

Login = Literal["none", "password", "oidc", "header"]
# Takes precedence over the file.
LOGIN = "TIDEMARK_ACCESS_LOGIN"
LOGINS: tuple[Login, ...] = get_args(Login)


@dataclass(frozen=True)
class Oidc:
    """An OpenID provider: the address of its metadata, and the address of this server to which it sends people back; by
    default that by which the browser calls it. Id and secret of the client are in the environment."""

    server_metadata_url: str = ""
    redirect_uri: str = ""
    scope: str = "openid email profile"


@dataclass(frozen=True)
class Header:
    """The header in which a proxy names the person, and the networks of proxies that are believed."""

    name: str = "X-Forwarded-Email"
    networks: tuple[IPv4Network | IPv6Network, ...] = (ip_network("127.0.0.1/32"),)

    def believes(self, address: str) -> bool:
        """Whether the header counts in a request from this address."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self.networks)


@dataclass(frozen=True)
class Access:
    """Settings of `[access]`. `people` has rights by name, or by a pattern such as `*@example.org`."""

    login: Login = "none"
    oidc: Oidc = field(default_factory=Oidc)
    header: Header = field(default_factory=Header)
    people: Mapping[str, Right] = field(default_factory=dict)

    def right_of(self, name: str) -> Right | None:
        """The right of a person that somebody else has named: of the exact name, else of the first pattern that
        matches; None if there is none. Case does not matter."""
        wanted = name.lower()
        known = {pattern.lower(): right for pattern, right in self.people.items()}
        if wanted in known:
            return known[wanted]
        patterns = (right for pattern, right in known.items() if "*" in pattern and _matches(wanted, pattern))
        return next(patterns, None)


def access_of(table: Any, source: str) -> Access:
    """The settings of the table `[access]` of a file. Raises SettingError."""
    if not isinstance(table, dict):
        raise SettingError(f"{source}: access must be a table", "Write [access], then its settings.")
    if unknown := sorted(table.keys() - {"login", "oidc", "header", "people"}):
        raise SettingError(
            f"{source}: unknown setting {unknown[0]!r} of access", "Use login, oidc, header or people."
        )
    login = table.get("login", "none")
    if login not in LOGINS:
        raise SettingError(
            f"{source}: login of access must be {', '.join(LOGINS[:-1])} or {LOGINS[-1]}, not {login!r}",
            "Correct it.",
        )
    oidc = Oidc(**table_of("access.oidc", table.get("oidc", {}), Oidc, source))
    if login == "oidc" and not oidc.server_metadata_url:
        raise SettingError(
            f"{source}: server_metadata_url of access.oidc is missing",
            "Set it to https://PROVIDER/.well-known/openid-configuration.",
        )
    return Access(
        login, oidc, _header(table.get("header", {}), source), _people(table.get("people", {}), source)
    )


def access(home: Path, environment: Mapping[str, str] | None = None) -> Access:
    """The settings of a home, with the login that the environment names, if it does. Raises SettingError."""
    table, source = toml_of(home / FILE).get("access", {}), str(home / FILE)
    login = (os.environ if environment is None else environment).get(LOGIN)
    return access_of({**table, "login": login} if login and isinstance(table, dict) else table, source)


def _matches(name: str, pattern: str) -> bool:
    # Brackets and question marks have no meaning in these patterns.
    return fnmatchcase(name, "".join(f"[{c}]" if c in "[?" else c for c in pattern))


@dataclass(frozen=True)
class _HeaderTable:
    name: str = Header.name


def _header(table: Any, source: str) -> Header:
    networks = table.get("from", ["127.0.0.1/32"]) if isinstance(table, dict) else table
    named = (
        {key: value for key, value in table.items() if key != "from"} if isinstance(table, dict) else table
    )
    name = _HeaderTable(**table_of("access.header", named, _HeaderTable, source)).name
    if not isinstance(networks, list) or not all(isinstance(each, str) for each in networks):
        raise SettingError(f"{source}: from of access.header must be a list of networks", "Correct it.")
    try:
        return Header(name, tuple(map(ip_network, networks)))
    except ValueError as error:
        raise SettingError(
            f"{source}: from of access.header: {error}", "Use networks such as 127.0.0.1/32."
        ) from error


@dataclass(frozen=True)
class _PersonTable:
    role: str = ""
    sites: tuple[str, ...] = ()


def _people(tables: Any, source: str) -> dict[str, Right]:
    people = {}
    for name, values in tables_of("access.people", tables, _PersonTable, source).items():
        table = _PersonTable(**values)
        if table.role not in ROLES:
            raise SettingError(
                f"{source}: role of {name} in access.people must be {', '.join(ROLES)}, not {table.role!r}",
                "Correct it.",
            )
        people[name] = Right.of(next(role for role in ROLES if role == table.role), table.sites)
    return people

"""Decides who asks: by a session's cookie, a key, a share's address, or the word of a proxy."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from tidemark.access.asking import OWNER, Asking, Shared
from tidemark.access.audit import Audit, audit_of_home
from tidemark.access.database import Database
from tidemark.access.declared import Access, access
from tidemark.access.hosts import Allowed, allowed_names, is_loopback_name, values
from tidemark.access.keys import PREFIX, Keys
from tidemark.access.limits import Attempts
from tidemark.access.people import People
from tidemark.access.sessions import COOKIE, Session, Sessions
from tidemark.access.shares import Share, Shares
from tidemark.errors import SettingError
from tidemark.figures.declared import FILE, home_in
from tidemark.figures.right import Right

log = logging.getLogger("tidemark.access")

HOSTS = "TIDEMARK_DASHBOARD_HOSTS"
ADDRESS = "TIDEMARK_DASHBOARD_ADDRESS"
# Set by Databricks Apps, whose proxy is the only one that reaches an app and names the person in a header.
_PLATFORM = "DATABRICKS_APP_NAME"
_PLATFORM_HEADER = "X-Forwarded-Email"
# Whom the platform lets in is an analyst unless [access.people] names people.
_PLATFORM_RIGHT = Right("analyst")


@dataclass
class Door:
    """The settings and stores that the guard of one home uses. `platform`: this is a Databricks app."""

    home: Path
    hosts: Allowed = field(default_factory=Allowed)
    platform: bool = False
    failures: Attempts = field(default_factory=Attempts)
    _known: tuple[tuple[int, int], Access] | None = None

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None) -> Door:
        """The door of the home that an environment names. Raises SettingError for settings that cannot be used."""
        environment = os.environ if environment is None else environment
        home = home_in(environment)
        setting = f"{HOSTS} (dashboard_hosts)"
        hosts = allowed_names(environment.get(HOSTS, ""), setting)
        address = environment.get(ADDRESS, "").lower()
        hosts = replace(hosts, names=hosts.names | ({address} if address else set()))
        door = cls(home, hosts, platform=bool(environment.get(_PLATFORM)))
        # From now on a file that breaks leaves these settings in force.
        require_login(door.access, address, platform=door.platform)
        return door

    def __post_init__(self) -> None:
        self.database = Database(self.home)
        self.people, self.sessions = People(self.database), Sessions(self.database)
        self.keys, self.shares = Keys(self.database), Shares(self.database)

    @cached_property
    def audit(self) -> Audit:
        return audit_of_home(self.home)

    @property
    def access(self) -> Access:
        """The settings as the file has them now; the last ones that could be used while it cannot be read."""
        path = self.home / FILE
        try:
            about = path.stat()
            mark = (about.st_mtime_ns, about.st_size)
        except OSError:
            mark = (0, 0)
        known = self._known
        if known is None or known[0] != mark:
            try:
                known = (mark, access(self.home))
            except SettingError as error:
                if known is None:
                    raise
                log.error("%s", error)
                known = (mark, known[1])
            self._known = known
        return known[1]

    def asking(self, scope: Mapping[str, Any]) -> Asking | None:
        """Who asks, by the scope of a request; None if nobody is known, or nobody any more. A key that is not valid is
        nobody's, whatever else the request has."""
        headers, address = scope["headers"], client_of(scope)
        scheme, _, given = next(iter(values(headers, b"authorization")), "").partition(" ")
        # A platform's own token, which its proxy has checked, is no key.
        if scheme.lower() == "bearer" and (not self.platform or given.strip().startswith(PREFIX)):
            key = self.keys.of(given.strip())
            return Asking(key.name, key.right, "key", address) if key else None
        if self.platform:
            return self._named(headers, _PLATFORM_HEADER, address)
        settings = self.access
        if settings.login == "none":
            return replace(OWNER, address=address)
        if settings.login == "header":
            believed = settings.header.believes(address)
            return self._named(headers, settings.header.name, address) if believed else None
        session = self.sessions.of(cookie(headers, COOKIE))
        return self.of_session(session, address) if session else None

    def sharing(self, token: str, scope: Mapping[str, Any]) -> Asking | None:
        """Who asks by a share's address; None if the share has ended."""
        share = self.shares.of(token)
        return share_asking(share, client_of(scope)) if share else None

    def unlocked(self, share: Share, scope: Mapping[str, Any]) -> bool:
        """Whether the share needs no password, or a session has it."""
        if not share.password:
            return True
        session = self.sessions.of(cookie(scope["headers"], share_cookie(share)))
        return session == Session(share.id, "share")

    def _named(self, headers: Any, header: str, address: str) -> Asking | None:
        names = values(headers, header.lower().encode())
        if len(names) != 1 or not names[0].strip():
            return None
        return self._declared(names[0].strip(), "header", address)

    def of_session(self, session: Session, address: str) -> Asking | None:
        """Who a session is of; None if its kind of login is none any more, or the person has been removed."""
        if session.how != self.access.login:
            return None
        if session.how == "oidc":
            return self._declared(session.name, "oidc", address)
        right = self.people.right_of(session.name)
        return Asking(session.name, right, "password", address) if right else None

    def _declared(self, name: str, how: Any, address: str) -> Asking | None:
        """Somebody of `[access.people]`; without a right where the table does not have them."""
        settings = self.access
        right = settings.right_of(name)
        if right is None and self.platform and not settings.people:
            right = _PLATFORM_RIGHT
        return Asking(name, right or NOTHING, how, address)


# The right of somebody who is known and has none: no site.
NOTHING = Right("viewer", frozenset())


def share_asking(share: Share, address: str) -> Asking:
    """Who asks by a share: a viewer of its site."""
    shared = Shared(share.id, share.page, share.site, tuple(map(str, share.filters)))
    return Asking(f"share {share.id}", Right.of("viewer", [share.site]), "share", address, shared)


def share_cookie(share: Share) -> str:
    return f"tidemark_share_{share.id}"


def require_login(settings: Access, address: str, *, platform: bool = False) -> None:
    """Raises SettingError if everybody who reaches the address would see everything."""
    if settings.login == "none" and address and not is_loopback_name(address) and not platform:
        raise SettingError(
            f"everybody who reaches {address} could see everything",
            "Leave dashboard_address at 127.0.0.1, or let people log in: `tidemark access login password`, then "
            "`tidemark access user add NAME --role admin`.",
        )


def client_of(scope: Mapping[str, Any]) -> str:
    """The address that a request came from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def cookie(headers: Any, name: str) -> str:
    """The value of a cookie; empty if it is missing."""
    for text in values(headers, b"cookie"):
        # One cookie at a time, because a bad one would hide the others.
        for part in text.split(";"):
            cookies: SimpleCookie = SimpleCookie()
            try:
                cookies.load(part.strip())
            except CookieError:
                continue
            if name in cookies:
                return cookies[name].value
    return ""

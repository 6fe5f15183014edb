"""Who asks, and what they may see: the one value that the guard gives to whatever answers."""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from tidemark.figures.right import EVERYTHING, Right

Login = Literal["none", "password", "oidc", "header", "key", "share"]

# The entry of an ASGI scope, and the header by which a page's script learns it. No client can send the header: the
# guard removes it, and only this process can sign one.
SCOPE = "tidemark.asking"
HEADER = "x-tidemark-asking"


@dataclass(frozen=True)
class Shared:
    """The page, site and filters of a share, which nobody can leave."""

    id: str
    page: str
    site: str
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asking:
    """Somebody's name and right, and how they are known. `address` is where the request came from."""

    name: str
    right: Right
    how: Login
    address: str = ""
    shared: Shared | None = None


# Everybody who reaches a dashboard without login.
OWNER = Asking("", EVERYTHING, "none")


def asking_of(scope: Mapping[str, Any]) -> Asking:
    """Who asks, in the ASGI scope of a request that has passed the guard."""
    asking: Asking = scope[SCOPE]
    return asking


def signed(asking: Asking) -> str:
    """The header's value."""
    shared = asking.shared
    claims = {
        "name": asking.name,
        "role": asking.right.role,
        "sites": None if asking.right.sites is None else sorted(asking.right.sites),
        "how": asking.how,
        "address": asking.address,
        "shared": None if shared is None else [shared.id, shared.page, shared.site, list(shared.filters)],
    }
    body = urlsafe_b64encode(json.dumps(claims).encode())
    return f"{body.decode()}.{_signature(body)}"


def verified(value: str) -> Asking | None:
    """Who asks, if this process has signed the value."""
    body, _, signature = value.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body.encode()).encode()):
        return None
    claims = json.loads(urlsafe_b64decode(body))
    right = Right(claims["role"], None if claims["sites"] is None else frozenset(claims["sites"]))
    shared = claims["shared"]
    within = Shared(shared[0], shared[1], shared[2], tuple(shared[3])) if shared else None
    return Asking(claims["name"], right, claims["how"], claims["address"], within)


def _signature(body: bytes) -> str:
    return hmac.digest(_key(), body, "sha256").hex()


@cache
def _key() -> bytes:
    return secrets.token_bytes(32)

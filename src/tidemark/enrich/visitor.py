"""Pseudonymous visitor ids."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b

from tidemark.errors import PlatformError
from tidemark.settings import Settings


def visitor_id(key: bytes, site: str, client_ip: str, user_agent: str) -> str:
    """Keyed hash of (site, address, user agent): 32 hex digits, the same for the same key only.

    BLAKE2b in its keyed mode (RFC 7693) with a 16-byte digest; the parts are NUL-separated, which
    none of them can hold.
    """
    return blake2b(f"{site}\0{client_ip}\0{user_agent}".encode(), key=key, digest_size=16).hexdigest()


def visitor_key(settings: Settings) -> bytes:
    """The hash key: the setting, else the home's own, made on first use and readable by its owner only.

    Losing the key cuts every visitor's history in two, so it belongs into the backup.
    """
    if settings.visitor_key:
        return blake2b(settings.visitor_key.encode(), digest_size=32).digest()
    path = settings.home / "visitor.key"
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = path.with_suffix(f".{os.getpid()}")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(secrets.token_bytes(32))
            try:
                os.link(draft, path)
            except FileExistsError:
                pass  # another process was first: its key counts
            finally:
                draft.unlink()
        return path.read_bytes()
    except OSError as error:
        raise PlatformError(
            f"cannot keep the visitor key at {path}: {error.strerror}",
            "Make the home writable, or set TIDEMARK_VISITOR_KEY.",
        ) from error

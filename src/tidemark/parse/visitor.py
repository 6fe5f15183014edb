"""Pseudonymous visitor ids."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from tidemark.errors import PlatformError, unwritable
from tidemark.settings import Settings


def visitor_id(key: bytes, site: str, client_ip: str, user_agent: str) -> str:
    """Keyed hash of (site, address, user agent): 32 hex digits, which depend on the key.

    BLAKE2b in its keyed mode (RFC 7693) with a 16-byte digest. The parts are separated by NUL, which
    none of them can contain.
    """
    return blake2b(f"{site}\0{client_ip}\0{user_agent}".encode(), key=key, digest_size=16).hexdigest()


def visitor_key(settings: Settings) -> bytes:
    """The hash key: the setting, else the home's key. Raises PlatformError if it is missing or damaged.

    With another key the same people are new visitors, so the key belongs into the backup.
    """
    if settings.meaning.visitor_key:
        return blake2b(settings.meaning.visitor_key.encode(), digest_size=32).digest()
    path = _file(settings)
    try:
        key = path.read_bytes()
    except OSError as error:
        raise PlatformError(
            f"cannot read the visitor key {path}: {error.strerror}",
            "Restore it from a backup, or set TIDEMARK_VISITOR_KEY.",
        ) from error
    if not 16 <= len(key) <= 64:  # BLAKE2b takes at most 64 bytes
        raise PlatformError(
            f"the visitor key at {path} is damaged: it has {len(key)} bytes, not 16 to 64",
            "Restore it from a backup; without it, visitors seen before count as new ones.",
        )
    return key


def has_visitor_key(settings: Settings) -> bool:
    """Whether the settings or the home have a key."""
    return bool(settings.meaning.visitor_key) or _file(settings).exists()


def make_visitor_key(settings: Settings) -> None:
    """Creates the home's key, readable by its owner only, unless it exists.

    Raises PlatformError if the home cannot be written.
    """
    path = _file(settings)
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix="visitor.key.", dir=settings.home)  # mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first: use its key
                os.link(draft, path)
        finally:
            Path(draft).unlink()
    except OSError as error:
        raise unwritable(
            f"cannot keep the visitor key at {path}",
            error,
            "Make the home writable, or set TIDEMARK_VISITOR_KEY.",
        ) from error


def fingerprint(key: bytes) -> str:
    """A fingerprint that distinguishes keys without revealing them: 16 hex digits."""
    return blake2b(b"tidemark visitor key", key=key, digest_size=8).hexdigest()


def _file(settings: Settings) -> Path:
    return settings.home / "visitor.key"

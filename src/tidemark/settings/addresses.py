"""Addresses to listen on."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address to listen on."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"

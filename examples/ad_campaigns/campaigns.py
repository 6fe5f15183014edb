"""Campaigns and their ads, as in the benchmark: 100 campaigns of 10 ads, each id a UUID."""

from __future__ import annotations

from random import Random
from uuid import UUID

CAMPAIGNS = 100
ADS_PER_CAMPAIGN = 10


def uuid(chance: Random) -> str:
    """A random UUID that depends on the seed."""
    return str(UUID(int=chance.getrandbits(128), version=4))


def ads() -> dict[str, str]:
    """Campaign by ad; the same in every run."""
    chance = Random("campaigns")
    campaigns = [uuid(chance) for _ in range(CAMPAIGNS)]
    return {uuid(chance): campaign for campaign in campaigns for _ in range(ADS_PER_CAMPAIGN)}

"""Events in the benchmark's proportions: uniform ads and event types, times off by up to 50 ms, a few by far more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

from examples.ad_campaigns.campaigns import ads, uuid
from examples.ad_campaigns.job import EVENTS
from examples.kit.events import MISSING, NOT_JSON
from examples.kit.load import Event, Load, as_json

BEGIN_MS = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
USERS = PAGES = 100
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
SKEW_MS = 50
LATE_MS = 60_000
BAD = 0.001


def events(load: Load) -> Iterator[Event]:
    """The events in the order of sending. The load's late share is up to a minute late (in the benchmark one in
    100,000); the others are off by up to 50 ms in both directions."""
    chance = load.random("events")
    known = list(ads())
    users, pages = ([uuid(chance) for _ in range(number)] for number in (USERS, PAGES))
    for at in load.times():
        off = (
            -chance.uniform(0, LATE_MS) if chance.random() < load.late else chance.uniform(-SKEW_MS, SKEW_MS)
        )
        fields = {
            "user_id": chance.choice(users),
            "page_id": chance.choice(pages),
            "ad_id": chance.choice(known),
            "ad_type": chance.choice(AD_TYPES),
            "event_type": chance.choice(EVENT_TYPES),
            "event_time": str(round(BEGIN_MS + at * 1000 + off)),
            "ip_address": "1.2.3.4",
        }
        value, reason = as_json(fields), ""
        if chance.random() < BAD:
            value, reason = _spoiled(fields, chance)
        yield Event(at, EVENTS.topic, value, reason=reason)


def _spoiled(fields: dict[str, str], chance: Random) -> tuple[bytes, str]:
    """An invalid event and the reason. Every field is text, so none has a wrong type."""
    how = chance.choice([NOT_JSON, MISSING, "event_type", "event_time"])
    if how == NOT_JSON:
        whole = as_json(fields)
        return whole[: chance.randrange(1, len(whole))], NOT_JSON
    if how == MISSING:
        gone = chance.choice(sorted(fields))
        return as_json({name: value for name, value in fields.items() if name != gone}), MISSING + gone
    return as_json({**fields, how: "noon"}), how

"""At least two payments of one customer within a few seconds of event time.

The later payment of each such pair of neighbours is alerted. A payment that comes late can only add pairs, so
an alert is final as soon as both payments of a pair have been read, in whatever order.
"""

from __future__ import annotations

from bisect import bisect_left, insort

NAME = "together"

# Event time in ms, then id: an order of all payments of a customer.
Moment = tuple[int, str]


def add(moments: list[Moment], new: Moment, within_ms: int) -> list[tuple[Moment, Moment]]:
    """Puts a payment among the customer's others, in order; returns the pairs (earlier, later) that it makes
    with its neighbours, at most `within_ms` apart."""
    place = bisect_left(moments, new)
    before, after = moments[place - 1 : place] if place else [], moments[place : place + 1]
    insort(moments, new)
    pairs = [(one, new) for one in before] + [(new, one) for one in after]
    return [(one, other) for one, other in pairs if other[0] - one[0] <= within_ms]


def reason(earlier: Moment, later: Moment) -> str:
    return f"{(later[0] - earlier[0]) / 1000:.1f} s after payment {earlier[1]}"

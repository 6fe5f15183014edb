"""An amount above the customer's previous maximum.

Previous means: before it in the customer's partition of the topic, the order in which the payments were
authorised. So the answer is final the moment that the payment is read.
"""

from __future__ import annotations

NAME = "amount"


def exceeds(amount: int, highest: int, count: int, history: int) -> bool:
    """Whether `amount` is above `highest`, the maximum of the `count` payments before it, given that they are
    enough to go by."""
    return count >= history and amount > highest


def reason(amount: int, highest: int) -> str:
    return f"{amount / 100:.2f} EUR is above the highest so far, {highest / 100:.2f} EUR"

"""Amounts in minor units (cents) of several currencies, compared in euro cents by fixed rates."""

from __future__ import annotations

# Millionths of a euro for one unit. Whole numbers, so that Spark and Python agree to the cent.
RATES = {"EUR": 1_000_000, "USD": 920_000, "GBP": 1_170_000, "CHF": 1_050_000, "SEK": 88_000, "JPY": 6_100}

# The largest amount that is accepted, in minor units of any currency.
MOST = 1_000_000_000_000


def euro_cents(amount: int, currency: str) -> int:
    """`amount` in minor units of `currency`, in euro cents, rounded down. The yen is counted in hundredths
    here, too. Raises KeyError for a currency that is not in RATES."""
    return amount * RATES[currency] // 1_000_000


EURO_CENTS_SQL = (
    "amount * CASE currency "
    + " ".join(f"WHEN '{currency}' THEN {rate}L" for currency, rate in RATES.items())
    + " END DIV 1000000"
)

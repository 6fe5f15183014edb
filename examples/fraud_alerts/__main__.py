"""`python -m examples.fraud_alerts`: alerts on made payments, printed as they come."""

from __future__ import annotations

from examples.fraud_alerts.example import EXAMPLE
from examples.kit.example import main

if __name__ == "__main__":
    main(EXAMPLE)

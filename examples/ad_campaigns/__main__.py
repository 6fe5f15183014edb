"""`python -m examples.ad_campaigns`"""

from __future__ import annotations

from examples.ad_campaigns.example import example
from examples.ad_campaigns.server import redis
from examples.kit.example import main

if __name__ == "__main__":
    with redis() as address:
        main(example(address))

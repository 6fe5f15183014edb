"""`python -m examples.top_sellers`"""

from __future__ import annotations

from examples.top_sellers.example import EXAMPLE
from tidemark.jobs.example import main

if __name__ == "__main__":
    main(EXAMPLE)

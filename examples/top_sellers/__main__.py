"""`python -m examples.top_sellers`"""

from __future__ import annotations

from examples.kit.example import main
from examples.top_sellers.example import EXAMPLE

if __name__ == "__main__":
    main(EXAMPLE)

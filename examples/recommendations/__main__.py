"""`python -m examples.recommendations`"""

from __future__ import annotations

from examples.recommendations.example import EXAMPLE
from tidemark.jobs.example import main

if __name__ == "__main__":
    main(EXAMPLE)

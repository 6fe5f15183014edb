"""`python -m examples.ski_lifts`"""

from __future__ import annotations

from examples.ski_lifts.example import EXAMPLE
from tidemark.jobs.example import main

if __name__ == "__main__":
    main(EXAMPLE)

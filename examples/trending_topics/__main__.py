"""`python -m examples.trending_topics`"""

from __future__ import annotations

from examples.trending_topics.example import EXAMPLE
from tidemark.jobs.example import main

if __name__ == "__main__":
    main(EXAMPLE)

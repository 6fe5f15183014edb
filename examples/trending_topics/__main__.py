"""`python -m examples.trending_topics`"""

from __future__ import annotations

from examples.kit.example import main
from examples.trending_topics.example import EXAMPLE

if __name__ == "__main__":
    main(EXAMPLE)

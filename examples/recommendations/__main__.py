"""`python -m examples.recommendations`"""

from __future__ import annotations

from examples.kit.example import main
from examples.recommendations.example import EXAMPLE

if __name__ == "__main__":
    main(EXAMPLE)

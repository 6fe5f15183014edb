"""`python -m examples.ski_lifts`"""

from __future__ import annotations

from examples.kit.example import main
from examples.ski_lifts.example import EXAMPLE

if __name__ == "__main__":
    main(EXAMPLE)

"""`python -m examples.bus_positions`"""

from __future__ import annotations

from examples.bus_positions.example import EXAMPLE
from examples.kit.example import main

if __name__ == "__main__":
    main(EXAMPLE)

"""`python -m examples.sensors`"""

from __future__ import annotations

from examples.kit.example import main
from examples.sensors.example import EXAMPLE

if __name__ == "__main__":
    main(EXAMPLE)

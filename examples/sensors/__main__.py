"""`python -m examples.sensors`"""

from __future__ import annotations

from examples.sensors.example import EXAMPLE
from tidemark.jobs.example import main

if __name__ == "__main__":
    main(EXAMPLE)

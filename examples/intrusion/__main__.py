"""`python -m examples.intrusion`"""

from __future__ import annotations

from examples.intrusion.example import EXAMPLE
from examples.kit.example import main

if __name__ == "__main__":
    main(EXAMPLE)

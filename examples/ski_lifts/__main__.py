"""`python -m examples.ski_lifts`"""

from __future__ import annotations

from examples.ski_lifts.check import check, show
from examples.ski_lifts.generator import events
from examples.ski_lifts.job import JOB
from tidemark.jobs.example import Example, main

if __name__ == "__main__":
    main(Example("examples.ski_lifts", JOB, events, show, check))

"""The example as a whole."""

from __future__ import annotations

from examples.kit.example import Example
from examples.ski_lifts.check import check, show
from examples.ski_lifts.generator import events
from examples.ski_lifts.job import JOB

EXAMPLE = Example("examples.ski_lifts", JOB, events, show, check)

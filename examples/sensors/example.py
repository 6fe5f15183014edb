"""The example as a whole."""

from __future__ import annotations

from examples.kit.example import Example
from examples.sensors.check import check
from examples.sensors.generator import events
from examples.sensors.job import JOB
from examples.sensors.show import show

EXAMPLE = Example("examples.sensors", JOB, events, show, check)

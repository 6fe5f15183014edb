"""The type of a chart that a panel can draw."""

from __future__ import annotations

from typing import TypeAlias

import altair as alt

Drawn: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart

"""A flow through levels: pages as bars, and bands between them as wide as the sessions that go there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from tidemark.figures.paths import LEFT, OTHER, Paths
from tidemark.figures.text import clipped, shown
from tidemark.figures.timespec import PICK

from .. import colors

if TYPE_CHECKING:
    import altair as alt

HEIGHT = 430
# Width of a node, and the gap between nodes of a level, as parts of a level's width and of the whole height.
WIDTH = 0.045
GAP = 0.035
NAME_SHOWN = 60
# Least height of a node for a click, in pixels, and how far its label reaches, as a part of a level's width.
CLICK = 12
LABEL = 0.5
# A band is a smooth curve through these parts of its way.
CURVE = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)


@dataclass(frozen=True)
class Layout:
    """`nodes` has the columns level, path, count, x, x2, top, bottom; `bands` has x, low, high, band and what a tooltip
    says. Heights are counts."""

    nodes: pd.DataFrame
    bands: pd.DataFrame
    height: float


def layout(paths: Paths) -> Layout:
    """Places the nodes of each level below each other, and each band at the sides of its two nodes."""
    levels = [sheet for sheet in paths.levels if len(sheet)]
    total = float(levels[0]["count"].sum())
    nodes: list[dict[str, Any]] = []
    for level, sheet in enumerate(levels):
        top = 0.0
        for path, count in sheet.itertuples(index=False):
            nodes.append(
                {
                    "level": level,
                    "path": path,
                    "count": count,
                    "x": level,
                    "x2": level + WIDTH,
                    "top": top,
                    "bottom": top + count,
                }
            )
            top += count + GAP * total
    placed = {(node["level"], node["path"]): node for node in nodes}
    out = {key: node["top"] for key, node in placed.items()}
    into = dict(out)
    order = {key: place for place, key in enumerate(placed)}
    rows: Iterable[Any] = paths.links.itertuples(index=False)
    links = sorted(
        rows,
        key=lambda link: (order[link.level, link.source], order[link.level + 1, link.target]),
    )
    bands = []
    for number, link in enumerate(links):
        source, target = (link.level, link.source), (link.level + 1, link.target)
        start, end = out[source], into[target]
        out[source] += link.count
        into[target] += link.count
        for part in CURVE:
            eased = part * part * (3 - 2 * part)
            low = start + (end - start) * eased
            bands.append(
                {
                    "x": link.level + WIDTH + (1 - WIDTH) * part,
                    "low": low,
                    "high": low + link.count,
                    "band": number,
                    "level": link.level,
                    "source": link.source,
                    "target": link.target,
                    "count": link.count,
                }
            )
    height = max(node["bottom"] for node in nodes)
    return Layout(pd.DataFrame(nodes), pd.DataFrame(bands), height)


def flow(paths: Paths, *, backward: bool) -> alt.LayerChart:
    """The diagram; a click on a page picks its `path` and `level`. Backward, the first level is at the right."""
    import altair as alt

    placed = layout(paths)
    last = len(paths.levels)
    ink, halo = colors.ink(), "#10151e" if colors.is_dark() else "#ffffff"
    # The room of a level lies at the right of its nodes.
    across = [WIDTH - 1, last - 1 + WIDTH] if backward else [0, last]
    x = alt.Scale(domain=across, reverse=backward, nice=False)
    y = alt.Scale(domain=[0, placed.height], reverse=True, nice=False)
    nodes = placed.nodes.assign(
        kind=[_kind(path) for path in placed.nodes["path"]],
        label=[called(path, backward=backward) for path in placed.nodes["path"]],
        number=[f"{count:,}" for count in placed.nodes["count"]],
        middle=(placed.nodes["top"] + placed.nodes["bottom"]) / 2,
    )
    room = placed.height / HEIGHT * CLICK / 2
    nodes["hit_top"] = nodes["top"].clip(upper=nodes["middle"] - room)
    nodes["hit_bottom"] = nodes["bottom"].clip(lower=nodes["middle"] + room)
    nodes["reach"] = nodes["x"] - LABEL if backward else nodes["x2"] + LABEL
    bands = placed.bands.assign(
        kind=[_kind(target) for target in placed.bands["target"]],
        route=[
            " → ".join(called(path, backward=backward) for path in ((b, a) if backward else (a, b)))
            for a, b in zip(placed.bands["source"], placed.bands["target"], strict=True)
        ],
    )
    kinds = alt.Scale(
        domain=["page", OTHER, LEFT],
        range=colors.of(["Pages of a flow", "Other pages of a flow", "Left a flow"]),
    )
    color = alt.Color("kind:N", scale=kinds, legend=None)
    band = (
        alt.Chart(bands)
        .mark_area(interpolate="monotone", opacity=0.26, line=False)
        .encode(
            x=alt.X("x:Q", scale=x, axis=None),
            y=alt.Y("low:Q", scale=y, axis=None, stack=None),
            y2="high:Q",
            detail="band:N",
            color=color,
            tooltip=[
                alt.Tooltip("route:N", title="From and to"),
                alt.Tooltip("count:Q", title="Sessions", format=","),
            ],
        )
    )
    base = alt.Chart(nodes).encode(
        tooltip=[
            alt.Tooltip("label:N", title="Page"),
            alt.Tooltip("count:Q", title="Sessions", format=","),
        ]
    )
    bar = base.mark_rect(cornerRadius=2).encode(
        x=alt.X("x:Q", scale=x, axis=None),
        x2="x2:Q",
        y=alt.Y("top:Q", scale=y, axis=None),
        y2="bottom:Q",
        color=color,
    )
    # A bar may be too thin to hit, so its label counts, too.
    hit = base.mark_rect(opacity=0, cursor="pointer").encode(
        x=alt.X("x2:Q" if backward else "x:Q", scale=x),
        x2="reach:Q",
        y=alt.Y("hit_top:Q", scale=y),
        y2="hit_bottom:Q",
    )
    hit = hit.add_params(alt.selection_point(name=PICK, fields=["path", "level"]))
    style: dict[str, Any] = {
        "align": "left",
        "baseline": "middle",
        "fontSize": 12,
        "limit": alt.ExprRef(f"width / {last} - 24"),
    }
    words = base.transform_calculate(text="datum.number + '  ' + datum.label").encode(
        x=alt.X("x2:Q" if not backward else "x:Q", scale=x), y=alt.Y("middle:Q", scale=y), text="text:N"
    )
    below = words.mark_text(
        **style, dx=5, color=halo, stroke=halo, strokeWidth=3, strokeJoin="round", opacity=0.85
    )
    above = words.mark_text(**style, dx=5, color=ink)
    chart: alt.LayerChart = (
        alt.layer(band, bar, below, above, hit).properties(height=HEIGHT).configure_view(stroke=None)
    )
    return chart


def called(path: str, *, backward: bool) -> str:
    """A node's name: what left on the way forward began on the way back."""
    return "began" if backward and path == LEFT else clipped(shown(path), NAME_SHOWN)


def _kind(path: str) -> str:
    return path if path in (OTHER, LEFT) else "page"


def described(paths: Paths, *, backward: bool) -> str:
    """The diagram in words: the pages of each level."""
    parts = []
    for level, sheet in enumerate(paths.levels):
        if len(sheet):
            pages = ", ".join(
                f"{called(path, backward=backward)} {count:,}"
                for path, count in sheet.itertuples(index=False)
            )
            parts.append(f"Level {level + 1}: {pages}")
    return "Sessions by page, level by level. " + "; ".join(parts) + "."

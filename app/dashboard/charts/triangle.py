"""A triangle of cohorts as a table: a row per cohort, a column per period after it, coloured by the share."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from tidemark.figures.retention import Retention
from tidemark.figures.text import share

from .. import colors

# Shares are coloured in steps up to that one, because most are far below the whole.
STEPS = 12
HIDDEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)"


def triangle(
    retention: Retention, cohorts: Sequence[int], labels: Sequence[str], unit: str, most: int
) -> None:
    """Draws the cohorts with these numbers under their labels, newest last, with at most `most` later periods."""
    columns = min(most, max((len(retention.periods) - c for c in cohorts), default=1) - 1)
    head = "".join(f'<th scope="col">{n}</th>' for n in range(1, columns + 1))
    top = _top(retention, cohorts, columns)
    body = "".join(_row(retention, c, label, columns, top) for c, label in zip(cohorts, labels, strict=True))
    st.html(
        f"{_style()}<p class='triangle-says'>Share of each cohort that came again, by {unit}s after its own."
        " Dashed: so far.</p>"
        f"<div class='triangle' tabindex='0' role='region' aria-label='Cohorts'><table>"
        f"<thead><tr><th scope='col'>{unit.capitalize()}</th><th scope='col'>Visitors</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _top(retention: Retention, cohorts: Sequence[int], columns: int) -> float:
    shares = [
        retention.matrix[c, n] / retention.sizes[c]
        for c in cohorts
        for n in range(1, min(columns, len(retention.periods) - c - 1) + 1)
    ]
    return max([*map(float, shares), 0.01])


def _row(retention: Retention, cohort: int, label: str, columns: int, top: float) -> str:
    size = float(retention.sizes[cohort])
    cells = []
    for after in range(1, columns + 1):
        if cohort + after >= len(retention.periods):
            cells.append("<td class='none'></td>")
            continue
        count = float(retention.matrix[cohort, after])
        is_open = retention.is_open(cohort, after)
        words = f"{count:,.0f} of {size:,.0f}" + (", so far" if is_open else "")
        so_far = f"<span style='{HIDDEN}'> so far</span>" if is_open else ""
        strength = round(STEPS * min(count / size / top, 1.0))
        kind = f"s{strength} open" if is_open else f"s{strength}"
        cells.append(f"<td class='{kind}' title='{words}'>{share(count, size)}{so_far}</td>")
    so_far = "<span class='sofar'> so far</span>" if retention.is_open(cohort, 0) else ""
    return f"<tr><th scope='row'>{escape(label)}</th><td>{size:,.0f}{so_far}</td>{''.join(cells)}</tr>"


def _style() -> str:
    """White or black has a contrast of at least 4.5:1 with any colour."""
    base, full = ((27, 43, 53), (94, 234, 212)) if colors.is_dark() else ((227, 241, 241), (11, 92, 99))
    rules = []
    for step in range(STEPS + 1):
        mixed = [round(a + (b - a) * step / STEPS) for a, b in zip(base, full, strict=True)]
        ink = max(("#ffffff", "#000000"), key=lambda c: contrast(c, mixed))
        rules.append(f".triangle .s{step} {{background: rgb({','.join(map(str, mixed))}); color: {ink}}}")
    page = "#10151e" if colors.is_dark() else "#ffffff"
    # Also the text's colour, since a theme that changes is known here only when the panel is drawn again.
    own = f".triangle {{--page: {page}; --ink: {colors.ink()}; --line: {colors.tones()['quiet']}}}"
    return f"<style>{own} {' '.join(rules)}</style>"


def contrast(color: str, background: Sequence[int]) -> float:
    """The contrast ratio of WCAG 2.2 between a colour such as #000000 and one of red, green and blue."""
    first = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    light, dark = sorted((_luminance(first), _luminance(background)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(rgb: Sequence[int]) -> float:
    parts = [v / 255 for v in rgb]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

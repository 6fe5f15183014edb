"""Funnels by trying every choice of pageviews."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidemark.figures.walks import matches

# A visitor's or a session's pageviews in order: (seconds, path).
Walk = list[tuple[int, str]]


def depth(walk: Walk, steps: Sequence[str], within: int | None, end: int | None) -> int:
    """The most steps that any choice of pageviews takes; the first one lies before `end`, all `within` of it."""

    def deeper(done: int, place: int, begun: int | None) -> int:
        best = done
        for later in range(place, len(walk) if done < len(steps) else place):
            at, path = walk[later]
            in_time = (end is None or at < end) if begun is None else within is None or at - begun <= within
            if in_time and matches(steps[done], path):
                best = max(best, deeper(done + 1, later + 1, at if begun is None else begun))
        return best

    return deeper(0, 0, None)


def chains(walk: Walk, steps: Sequence[str], within: int, end: int) -> Iterator[tuple[int, ...]]:
    """All chains of pageviews that take the first steps, as places in the walk."""
    grown: list[tuple[int, ...]] = [(i,) for i, (at, _) in enumerate(walk) if at < end]
    grown = [chain for chain in grown if matches(steps[0], walk[chain[0]][1])]
    for step in steps[1:]:
        yield from grown
        grown = [
            (*chain, i)
            for chain in grown
            for i in range(chain[-1] + 1, len(walk))
            if walk[i][0] - walk[chain[0]][0] <= within and matches(step, walk[i][1])
        ]
    yield from grown


def deepest(walk: Walk, steps: Sequence[str], within: int, end: int) -> tuple[int, ...]:
    """Of the longest chains, the one that is done first and begun last; empty if there is none."""
    ordered = sorted(chains(walk, steps, within, end), key=lambda chain: (-len(chain), chain[-1], -chain[0]))
    return ordered[0] if ordered else ()

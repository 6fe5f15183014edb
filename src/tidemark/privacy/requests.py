"""Requests whose lines are gone, as a stricter privacy mode leaves them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemark.engine.arrays import Arrays, Vectorized, flags_of, plain
from tidemark.privacy.masking import (
    DAY_US,
    EPOCH,
    TEXTS,
    Masking,
    by_level,
    clients,
    masked_rows,
    salted_ids,
    sites_of,
    without,
)
from tidemark.settings.privacy import ANONYMOUS

_MASKABLE = ("client_ip", "user_agent", "remote_user", "visitor_id", *TEXTS)


def masked_requests(masking: Masking) -> Vectorized:
    """Masks requests by the mode of their sites. What is masked already stays the same. Whether a request asked for
    privacy is not known any more."""
    results = ", ".join(f"{name} string" for name in _MASKABLE)
    return Vectorized(("site", "event_time", *_MASKABLE), results, partial(_masked, masking))


def _masked(masking: Masking, rows: Arrays) -> dict[str, pa.Array]:
    sites, index = sites_of(masking.privacy, plain(rows["site"]))
    wanted = np.array([each.level for each in sites], np.int64)[index]
    columns = {name: plain(rows[name]) for name in _MASKABLE}
    # An anonymous request has neither, and its visitor has the salt of the day.
    known = pc.or_(pc.is_valid(columns["client_ip"]), pc.is_valid(columns["user_agent"]))
    unsalted = flags_of(pc.and_(known, pc.is_valid(columns["visitor_id"])))
    for level, masks in by_level(sites, index, wanted).items():
        for mask, some in masks:
            columns |= {name: masked_rows(mask, columns[name], some) for name in TEXTS}
        of_level = wanted == level
        columns["client_ip"] = plain(clients(masks[0][0], columns["client_ip"], of_level))
        columns["remote_user"] = without(columns["remote_user"], of_level)
        if level == ANONYMOUS:
            columns["user_agent"] = without(columns["user_agent"], of_level)
            salted = pa.array(of_level & unsalted)
            ids = _by_day(masking, columns["visitor_id"].filter(salted), rows["event_time"].filter(salted))
            columns["visitor_id"] = pc.replace_with_mask(columns["visitor_id"], salted, ids)
    return columns


def _by_day(masking: Masking, visitors: pa.Array, times: pa.Array) -> pa.Array:
    """The ids that visitors have on the days of their requests."""
    if not len(visitors):
        return visitors
    coded, days = visitors.dictionary_encode(), times.cast(pa.int64()).to_numpy() // DAY_US
    first = int(days.min())
    number = int(days.max()) - first + 1
    pairs, back = np.unique(
        coded.indices.to_numpy().astype(np.int64) * number + days - first, return_inverse=True
    )
    dates = [EPOCH + timedelta(days=first + int(each)) for each in pairs % number]
    return salted_ids(masking, coded.dictionary.take(pa.array(pairs // number)), dates).take(pa.array(back))

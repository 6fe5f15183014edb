"""Dialogs over the page: the requests behind a figure with their raw lines, and a panel's whole table."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from tidemark.figures import drill
from tidemark.figures.permitted import ForbiddenError
from tidemark.figures.reader import MissingTableError, Reader, ReadError
from tidemark.figures.selection import Selection
from tidemark.figures.silver import SESSIONS
from tidemark.figures.text import clipped, plain, shown, size
from tidemark.figures.timeline import session_at

from .. import clock, who
from ..filters import Filters
from ..panel import EmptyError, Look, nothing
from . import actions, timeline
from .grid import count_column, grid, sheet, texts, time_column

TEXT_SHOWN = 200
LINE_SHOWN = 20_000


def show(reader: Reader, filters: Filters) -> None:
    """Opens the view that a click selected."""
    view = actions.opened() or (actions.Whole("Session", timeline.body) if actions.session() else None)
    if view is None:
        return
    title = "Requests" if isinstance(view, actions.Requests) else view.title

    @st.dialog(title, width="large", on_dismiss=actions.close_view)
    def dialog() -> None:
        actions.apply()
        look = Look(reader, filters, clock.now(), "view")
        try:
            if isinstance(view, actions.Requests):
                _requests(look, view)
            else:
                view.body(look)
        except EmptyError as empty:
            nothing(*empty.args)
        except MissingTableError as error:
            nothing(f"No data yet: {error}.")
        except ForbiddenError as error:
            st.caption(f"{who.LOCK} {plain(str(error))}.")
        except ReadError as error:
            st.warning(plain(str(error)), icon=":material/error:")

    dialog()


def _requests(look: Look, view: actions.Requests) -> None:
    requests = drill.newest(look.rows, view.selection, view.where)
    st.text(_heading(view.selection, look, len(requests)))
    if requests.empty:
        return nothing("No request fits.")
    start, end = view.selection.start, view.selection.end
    if start is not None and end is not None:
        st.button(
            "Look at this time on all pages",
            key="zoom-requests",
            type="tertiary",
            icon=":material/zoom_in:",
            on_click=actions.zoom,
            args=(*(at.replace(tzinfo=None) for at in (start, end)), "UTC"),
        )
    table, columns = _requests_table(requests, look)
    picked = grid(table, "requests", columns, rows=12, select=True)
    if picked is None:
        nothing("Select a row to see its line as it was received.")
    else:
        _line(look, requests.iloc[picked])
    return None


def _heading(selection: Selection, look: Look, count: int) -> str:
    zone = look.filters.zone
    start = "the first line" if selection.start is None else clock.stamp(selection.start, zone)
    end = "now" if selection.end is None else clock.stamp(selection.end, zone)
    site = "all sites" if selection.site is None else selection.site
    what = ", ".join(map(str, selection.filters))
    requests = "request" if count == 1 else f"{count:,} requests"
    text = f"The newest {requests} of {site}, {start} to {end} ({zone})"
    return f"{text}, {what}" if what else text


# The columns of a request that are only known of some, with their labels.
KNOWN_OF_SOME = {
    "country": "Country",
    "device": "Device",
    "browser": "Browser",
    "os": "OS",
    "bot_name": "Bot",
    "channel": "Channel",
    "source": "Source",
    "referrer": "Referrer",
    "client_ip": "Address",
    "user_agent": "User agent",
}


def _requests_table(requests: pd.DataFrame, look: Look) -> tuple[pd.DataFrame, dict[str, Any]]:
    text = st.column_config.TextColumn
    return sheet(
        {
            "event_time": (look.wall(requests["event_time"]), time_column("Time", look.filters.zone)),
            "site": (texts(requests["site"], TEXT_SHOWN), text("Site")),
            "method": (texts(requests["method"], TEXT_SHOWN), text("Method")),
            "path": (texts(requests["path"], TEXT_SHOWN), text("Path", width="medium")),
            "query": (texts(requests["query"], TEXT_SHOWN), text("Query")),
            "status": (requests["status"], st.column_config.NumberColumn("Status", format="%d")),
            "bytes": ([size(v) for v in requests["bytes"]], text("Sent")),
            "milliseconds": (requests["duration_us"] / 1000, count_column("Took (ms)")),
        }
        | {
            name: (
                [clipped(shown(v), TEXT_SHOWN) if v else None for v in requests[name]],
                text(label, width="medium" if name in ("referrer", "user_agent") else None),
            )
            for name, label in KNOWN_OF_SOME.items()
        }
    )


def _line(look: Look, row: pd.Series) -> None:
    """The raw line of a row, with how and when it was read, and the way to its session."""
    if look.reader.version(SESSIONS) is not None and (session := session_at(look.rows, row)) is not None:
        st.button(
            "Open its session",
            key="line-session",
            type="tertiary",
            icon=":material/route:",
            on_click=actions.open_session,
            args=(session,),
        )
    zone = look.filters.zone
    line = drill.line(look.rows, row)
    if line is None:
        return nothing("The raw line is not there any more: it is older than bronze is kept.")
    who.record("raw lines opened", f"{row['site']}: {row['topic']}/{row['partition']}/{row['offset']}")
    st.code(clipped(shown(line.value), LINE_SHOWN), language=None, wrap_lines=True)
    facts = {
        "Format": line.format or "–",
        "Rules": line.rules_version or "–",
        "Batch": "–" if line.batch is None else f"{line.batch:,}",
        "Sent to Kafka": clock.stamp(line.kafka_timestamp, zone),
        "Read": clock.stamp(line.ingested_at, zone),
        "Record": f"{row['topic']}, partition {row['partition']}, offset {row['offset']}",
    }
    facts |= {f"Header {name}": value for name, value in line.headers.items()}
    # No Markdown, which makes links of hosts.
    st.text("\n".join(f"{name}: {shown(value)}" for name, value in facts.items()))
    return None

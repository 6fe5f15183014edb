"""A report as HTML that mail programs show, light and dark, on wide and narrow screens; and as plain text.

Mail programs run no script, load nothing, and know little CSS: layout is by tables and inline blocks, colours stand in
the elements and, for dark ones, in a style sheet that overrides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap

from tidemark.figures.digest import Digest, Figure
from tidemark.operate.mails import words
from tidemark.operate.mails.words import Links

_LIGHT = {"page": "#eef1f4", "card": "#ffffff", "ink": "#1c2733", "quiet": "#5b6b7d", "line": "#dde3ea",
          "accent": "#0b7a83", "good": "#0b7f5f", "bad": "#c93636", "warn": "#fdf3e1"}  # fmt: skip
_DARK = {"page": "#0e1318", "card": "#182029", "ink": "#e4eaf2", "quiet": "#9fb0c3", "line": "#2c3844",
         "accent": "#2dd4bf", "good": "#34d399", "bad": "#f87171", "warn": "#33291a"}  # fmt: skip
_FONT = (
    "font-family:-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;font-size:15px;line-height:1.45"
)
_LAYOUT = 'role="presentation" cellpadding="0" cellspacing="0"'
_IMAGE = "width:100%;height:auto;display:block;border:0"
_BACKGROUNDS = ("page", "card", "warn")
_ALT = {
    "visitors.png": "Visitors over time, dashed: the period before",
    "errors.png": "Failed requests over time, by 4xx and 5xx",
}
_HEADINGS = {"visitors.png": "Visitors", "errors.png": "Failed requests"}


def html(
    digest: Digest, pictures: Mapping[str, str], base: str = "", *, repeated: bool = False, name: str = ""
) -> str:
    """The HTML of a report. `pictures`: addresses by file name, such as cid: ones. `base`: the dashboard's address.
    `repeated`: it may have been sent before. `name`: that of its settings."""
    links = Links(base, digest)
    body = "\n".join(_body(digest, pictures, links, repeated=repeated, name=name))
    page, card = (f'class="{each}" style="background:{_LIGHT[each]}' for each in ("page", "card"))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">
<title>{escape(words.title(digest))}</title>
<style>{_style()}</style></head>
<body {page};margin:0;padding:0">
<table {_LAYOUT} width="100%" {page}"><tr><td align="center" style="padding:16px 8px">
<table {_LAYOUT} {card};width:100%;max-width:600px;border-radius:10px;{_FONT}">
<tr><td class="pad ink" style="padding:24px 28px;color:{_LIGHT["ink"]}">
{body}
</td></tr></table></td></tr></table></body></html>
"""


def _style() -> str:
    dark = "".join(
        f".{name}{{{'background' if name in _BACKGROUNDS else 'color'}:{color}!important}}"
        for name, color in _DARK.items()
        if name != "line"
    )
    return (
        "@media (max-width:480px){.pad{padding:16px 14px!important}.tile{width:50%!important}}"
        f"@media (prefers-color-scheme:dark){{{dark}.rule{{border-color:{_DARK['line']}!important}}}}"
    )


def _body(
    digest: Digest, pictures: Mapping[str, str], links: Links, *, repeated: bool, name: str
) -> Iterator[str]:
    zone = digest.period.zone
    yield f'<h1 style="font-size:21px;line-height:1.25;margin:0 0 4px">{escape(words.title(digest))}</h1>'
    yield _quiet(words.compared(digest))
    if repeated:
        yield _box([words.REPEATED])
    if len(digest.began):
        yield _heading("Began in this period")
        yield _box([words.alert(row, zone) for row in digest.began.itertuples()], links.to("alerts"))
    if digest.is_empty:
        yield _box([words.EMPTY])
    else:
        yield '<div style="font-size:0;margin:14px 0 4px">' + "".join(map(_tile, digest.figures)) + "</div>"
        for file, address in pictures.items():
            yield _heading(_HEADINGS[file])
            yield f'<img src="{escape(address)}" alt="{escape(_ALT[file])}" style="{_IMAGE}">'
        for why in digest.moved:
            yield _heading(f"What moved most: {why.name} {words.change(why.change)}")
            yield _table([(*words.moved(row), "", links.to("", *filters)) for row, filters in why.each()])
        for heading, rows in digest.lists.items():
            if rows:
                yield _heading(heading)
                yield _table(
                    [
                        (words.label(heading, row), f"{row.count:,}", words.change(row.change), "")
                        for row in rows
                    ]
                )
    if len(digest.notes):
        yield _heading("Notes")
        yield _box([words.note(row, zone) for row in digest.notes.itertuples()], plain=True)
    if address := links.to():
        yield f'<p style="margin:22px 0 4px">{_link(address, "Open the dashboard", "font-weight:600")}</p>'
    sent = [f"Sent by the report {name} of tidemark.toml."] if name else []
    yield _quiet(" ".join((*words.about(digest), *sent)), top=True)


def _tile(figure: Figure) -> str:
    changed = words.change(figure.change, figure.kind)
    tone = "quiet"
    ratio = figure.change.sorted_by
    if figure.good is not None and ratio:
        tone = "good" if (ratio > 0) == figure.good else "bad"
    return (
        '<div class="tile" style="display:inline-block;width:33.3%;vertical-align:top;font-size:15px;padding:0 0 12px">'
        f'<div class="quiet" style="font-size:13px;color:{_LIGHT["quiet"]}">{escape(figure.name)}</div>'
        f'<div style="font-size:22px;font-weight:600;line-height:1.2">{escape(words.value(figure))}</div>'
        f'<div class="{tone}" style="font-size:13px;color:{_LIGHT[tone]}">{escape(changed) or "&nbsp;"}</div></div>'
    )


def _heading(text: str) -> str:
    return f'<h2 style="font-size:15px;margin:20px 0 6px">{escape(text)}</h2>'


def _quiet(text: str, *, top: bool = False) -> str:
    margin = "18px 0 0" if top else "0"
    return (
        f'<p class="quiet" style="font-size:13px;margin:{margin};color:{_LIGHT["quiet"]}">{escape(text)}</p>'
    )


def _box(lines: Sequence[str], address: str = "", *, plain: bool = False) -> str:
    """Lines in a coloured box, or `plain`; the first one leads to the address."""
    background = "" if plain else f"background:{_LIGHT['warn']};padding:8px 12px;border-radius:6px;"
    texts = [f'<p style="margin:0 0 4px">{escape(line)}</p>' for line in lines]
    if address:
        texts.append(_link(address, "Show the alerts"))
    cls = "" if plain else ' class="warn"'
    return f'<div{cls} style="{background}font-size:14px;margin:10px 0;word-break:break-word">{"".join(texts)}</div>'


def _link(address: str, text: str, style: str = "") -> str:
    """A link around a text that is HTML already."""
    return f'<a class="accent" href="{escape(address)}" style="color:{_LIGHT["accent"]};{style}">{text}</a>'


def _table(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Rows of a label, numbers, a change, and the address that the label leads to."""
    cells = []
    for label, number, changed, address in rows:
        text = escape(label)
        if address:
            text = _link(address, text, "text-decoration:none")
        border = f"border-top:1px solid {_LIGHT['line']};padding:5px 0"
        right = f"{border};text-align:right;white-space:nowrap;padding-left:10px"
        last = (
            f'<td class="rule quiet" style="{right};color:{_LIGHT["quiet"]};width:62px">{escape(changed)}</td>'
            if any(each[2] for each in rows)
            else ""
        )
        cells.append(
            f'<tr><td class="rule" style="{border};word-break:break-word">{text}</td>'
            f'<td class="rule" style="{right}">{escape(number)}</td>{last}</tr>'
        )
    return (
        f'<table {_LAYOUT} width="100%" style="border-collapse:collapse;font-size:14px">'
        + "".join(cells)
        + "</table>"
    )


def text(digest: Digest, base: str = "", *, repeated: bool = False, name: str = "") -> str:
    """The same as plain text, for mail programs without HTML, and for chats."""
    return "\n".join(_lines(digest, Links(base, digest), repeated=repeated, name=name)) + "\n"


def _lines(digest: Digest, links: Links, *, repeated: bool, name: str) -> Iterator[str]:
    zone = digest.period.zone
    yield words.title(digest)
    yield words.compared(digest)
    if repeated:
        yield f"\n{words.REPEATED}"
    if len(digest.began):
        yield "\nBegan in this period"
        for alert in digest.began.itertuples():
            yield from wrap(words.alert(alert, zone), 76, initial_indent="  ", subsequent_indent="    ")
    if digest.is_empty:
        yield f"\n{words.EMPTY}"
    else:
        yield ""
        for figure in digest.figures:
            yield f"  {figure.name:<20}{words.value(figure):>12}  {words.change(figure.change, figure.kind)}".rstrip()
        for why in digest.moved:
            yield f"\nWhat moved most: {why.name} {words.change(why.change)}"
            for row, _ in why.each():
                what, how = words.moved(row)
                yield f"  {what}: {how}"
        for heading, rows in digest.lists.items():
            if rows:
                yield f"\n{heading}"
                width = max(len(words.label(heading, row)) for row in rows)
                for row in rows:
                    yield f"  {words.label(heading, row):<{width}}{row.count:>10,}  {words.change(row.change)}".rstrip()
    if len(digest.notes):
        yield "\nNotes"
        for noted in digest.notes.itertuples():
            yield from wrap(words.note(noted, zone), 76, initial_indent="  ", subsequent_indent="    ")
    if address := links.to():
        yield f"\nDashboard: {address}"
    sent = [f"Sent by the report {name} of tidemark.toml."] if name else []
    yield ""
    yield from wrap(" ".join((*words.about(digest), *sent)), 78)

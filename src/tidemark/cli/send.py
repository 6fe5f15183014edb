"""`tidemark send`."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from tidemark.cli import with_settings
from tidemark.errors import PlatformError, SettingError
from tidemark.settings import Settings


@click.command("send")
@click.argument("name")
@with_settings
@click.option(
    "--period", metavar="DATE", help="A day of the period, ISO 8601 (default: the last that is over)."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write the report to a file instead of sending it.",
)
def send_command(settings: Settings, name: str, period: str | None, out: Path | None) -> None:
    """Send the report NAME of tidemark.toml to its targets now, also beside a running pipeline.

    The pipeline sends reports by itself, each once. It does not send a period that this command has sent after its end.
    """
    from tidemark.home import Home
    from tidemark.local.directories import prepare_home
    from tidemark.operate.alerts.delivery import targets_of
    from tidemark.operate.mails import record, sending

    mailing = sending.mailing_of(settings, name)
    wanted = sending.period_of(settings, mailing, period)
    store = Home.of(settings).store
    mail = sending.mail_of(settings, store, name, mailing, wanted)
    if out:
        html = mail.html
        for file, png in mail.pictures.items():
            html = html.replace(f"cid:{file}", f"data:image/png;base64,{b64encode(png).decode()}")
        out.write_text(html, encoding="utf-8")
        click.echo(f"{mail.title}: written to {out}")
        return
    targets = targets_of(mailing.to, settings, os.environ)
    if not targets:
        raise SettingError(f"report {name} has no target", "Set `to` of the report, or alert_to.")
    taken = {label: sending.send(target, mail) for label, target in targets.items()}
    if failed := [label for label, ok in taken.items() if not ok]:
        raise PlatformError(f"{' and '.join(failed)} of report {name} did not take it", "Correct `to`.")
    if wanted.end <= datetime.now(UTC):
        prepare_home(settings)
        known = {row.period: row for row in record.recorded(store, name)}
        row = known.get(wanted.key) or record.Sending.of(name, mailing.site, wanted)
        row = replace(row, attempts=row.attempts + 1, failure=None)
        sent = replace(row, state=record.SENT, sent_at=datetime.now(UTC), sent_to=", ".join(taken))
        record.record(settings, store, sent)
    click.echo(f"{mail.title}: sent to {', '.join(taken)}")

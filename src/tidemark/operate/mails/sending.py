"""Makes a report and sends it: HTML with pictures and plain text by mail, plain text to any other target."""

from __future__ import annotations

import email
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemark.contract.store import Store
from tidemark.errors import SettingError
from tidemark.figures import digest, extents, periods
from tidemark.figures.declared import declared
from tidemark.figures.periods import Period
from tidemark.figures.permitted import permitted
from tidemark.figures.right import Right
from tidemark.figures.rows import Rows
from tidemark.figures.unions import UnionCache
from tidemark.operate.alerts.delivery import Message, Target
from tidemark.operate.alerts.delivery import send as send_message
from tidemark.operate.mails import picture, render, words
from tidemark.settings import Settings
from tidemark.settings.mails import Mailing


@dataclass(frozen=True)
class Mail:
    """A report: `html` with pictures at `cid:` addresses, which are PNG by file name, and the same as `text`."""

    title: str
    text: str
    html: str
    pictures: Mapping[str, bytes]


def zone_of(settings: Settings, mailing: Mailing) -> str:
    """The time zone of a report's periods."""
    site = settings.sites.get(mailing.site)
    return (site.timezone if site else "") or "UTC"


def mailing_of(settings: Settings, name: str) -> Mailing:
    """A report of the settings by its name. Raises SettingError."""
    if name not in settings.reports:
        known = ", ".join(settings.reports) or "none"
        raise SettingError(f"there is no report {name!r}", f"Reports of tidemark.toml: {known}.")
    return settings.reports[name]


def period_of(settings: Settings, mailing: Mailing, day: str | None) -> Period:
    """The period in which a day (ISO 8601) lies; without one, the last that is over. Raises SettingError."""
    zone = zone_of(settings, mailing)
    if day is None:
        return periods.latest(mailing.period, datetime.min.time(), zone, datetime.now(UTC))
    try:
        return periods.of(mailing.period, datetime.fromisoformat(day).date(), zone)
    except ValueError as error:
        raise SettingError(f"{day!r} is no day", "Write a day of the period, such as 2026-11-24.") from error


def mail_of(
    settings: Settings, store: Store, name: str, mailing: Mailing, period: Period, *, repeated: bool = False
) -> Mail:
    """The report of a period, with what a viewer of its site may see. `repeated`: it may have been sent before. Raises
    TableError, SettingError for a site without lines, and PlatformError without the library for pictures."""
    right = Right.of("viewer", [mailing.site] if mailing.site else [])
    rows = Rows(permitted(store.reader, right), UnionCache.forgetful())
    known = extents.extents(Rows(store.reader))
    if mailing.site and mailing.site not in known:
        raise SettingError(
            f"report {name}: there is no site {mailing.site!r}",
            f"There are: {', '.join(sorted(known)[:20])}." if known else "No line has arrived yet.",
        )
    contents = digest.digest(rows, mailing.site, period, mailing.filters, declared(settings.home))
    pictures = picture.pictures(contents)
    base = settings.dashboard.url
    return Mail(
        words.title(contents),
        render.text(contents, base, repeated=repeated, name=name),
        render.html(contents, {each: f"cid:{each}" for each in pictures}, base, repeated=repeated, name=name),
        pictures,
    )


def send(target: Target, mail: Mail) -> bool:
    """Sends a report. False if the target did not take it, or its URL is none. Raises PlatformError without the
    library."""
    plugin = target.opened()
    from apprise.plugins.email.base import NotifyEmail

    if isinstance(plugin, NotifyEmail):
        return _send_email(plugin, mail)
    return send_message(target, Message(mail.title, mail.text, "info"))


def _send_email(plugin: Any, mail: Mail) -> bool:
    """Sends HTML, pictures and our own plain text, in place of the library's, which takes tables apart."""
    from smtplib import SMTPException

    from apprise.attachment.memory import AttachMemory
    from apprise.plugins.email.smtp import AppriseSMTPController

    attached = [
        AttachMemory(content=png, name=name, mimetype="image/png")  # type: ignore[no-untyped-call]
        for name, png in mail.pictures.items()
    ]
    prepared = plugin.prepare_emails(
        mail.title,
        mail.html,
        plugin.from_addr,
        plugin.targets,
        plugin.cc,
        plugin.bcc,
        plugin.reply_to,
        plugin.smtp_host,
        attach=attached,
        headers={"X-Application": "Tidemark", **plugin.headers},
        names=plugin.names,
        pgp=plugin.pgp,
        pgp_mode=plugin.pgp_mode,
        inline=True,
        tzinfo=plugin.tzinfo,
    )
    try:
        with AppriseSMTPController(
            host=plugin.smtp_host,
            port=plugin.port,
            secure_mode=plugin.secure_mode,
            user=plugin.user,
            password=plugin.password,
            verify_certificate=plugin.verify_certificate,
            socket_connect_timeout=plugin.socket_connect_timeout,
        ) as smtp:
            taken = [
                smtp.sendmail(plugin.from_addr[1], each.to_addrs, _with_text(each.body, mail.text))
                for each in prepared
            ]
    # ValueError: a password or an address beyond ASCII.
    except (OSError, SMTPException, RuntimeError, ValueError):
        return False
    return bool(taken) and all(taken)


def _with_text(message: str, text: str) -> str:
    """The message with another plain text beside its HTML; an encrypted one has none."""
    mail = email.message_from_string(message)
    for part in mail.walk():
        if part.get_content_type() == "text/plain" and not part.get_filename():
            del part["Content-Transfer-Encoding"]
            part.set_payload(text, "utf-8")
            break
    return mail.as_string()

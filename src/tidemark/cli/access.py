"""`tidemark access`: people, keys, shares, and the record of what they did."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tidemark.access.declared import LOGINS, access
from tidemark.access.door import Door
from tidemark.access.shares import PAGES, Share
from tidemark.cli import with_settings
from tidemark.figures.right import ROLES, Right, Role
from tidemark.local.directories import prepare_home
from tidemark.service.access import audit_of
from tidemark.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

_SITES = click.option(
    "--site", "sites", multiple=True, help="Only this site; repeatable (default: all sites)."
)
_FROM_STDIN = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")


@click.group("access")
def access_command() -> None:
    """Say who may see what: people with passwords, keys of programs, shared pages."""


@access_command.command("login")
@click.argument("login", type=click.Choice(LOGINS))
@with_settings
def login_set(settings: Settings, login: str) -> None:
    """Set how people log in: writes `login` of [access] into the home's tidemark.toml."""
    from tidemark.figures.toml_tables import text_of
    from tidemark.settings import edit

    prepare_home(settings)
    path = settings.home / "tidemark.toml"
    edit.replace(path, edit.with_value(text_of(path), "access", "login", login))
    access(settings.home)
    click.echo(f"login = {json.dumps(login)} from now on, as {path} says")


@access_command.group("user")
def user_group() -> None:
    """People who log in with a password."""


@user_group.command("add")
@click.argument("name")
@with_settings
@click.option("--role", type=click.Choice(ROLES), required=True, help="What they may see and do.")
@_SITES
@_FROM_STDIN
def user_add(settings: Settings, name: str, role: Role, sites: tuple[str, ...], password_stdin: bool) -> None:
    """Add NAME. A viewer sees figures; an analyst raw lines and visitors, too; an editor changes definitions and notes;
    an admin people, keys and shares."""
    prepare_home(settings)
    door = Door(settings.home)
    door.people.add(name, role, sites, _password(password_stdin))
    _record(settings, "person added", name)
    click.echo(f"added {name}: {Right.of(role, sites).about}")
    if access(settings.home).login != "password":
        click.echo("`tidemark access login password` lets people log in with passwords.", err=True)


@user_group.command("list")
@with_settings
def user_list(settings: Settings) -> None:
    """List people with their roles and sites."""
    people = Door(settings.home).people.all()
    _show([f"{person.name:<24} {person.right.about}" for person in people], "nobody yet")


@user_group.command("remove")
@click.argument("name")
@with_settings
def user_remove(settings: Settings, name: str) -> None:
    """Remove NAME, whose sessions end at once."""
    prepare_home(settings)
    Door(settings.home).people.remove(name)
    _record(settings, "person removed", name)
    click.echo(f"removed {name}")


@access_command.group("key")
def key_group() -> None:
    """Keys of programs, which read only."""


@key_group.command("add")
@click.argument("name")
@with_settings
@_SITES
@click.option(
    "--role", type=click.Choice(ROLES[:2]), default="viewer", show_default=True, help="What it may see."
)
@click.option("--expires", metavar="TIME", help="Ends after this time, such as 90d (default: never).")
def key_add(settings: Settings, name: str, sites: tuple[str, ...], role: Role, expires: str | None) -> None:
    """Make a key called NAME and print it, once: only its hash is kept."""
    prepare_home(settings)
    key = Door(settings.home).keys.add(name, role, sites, _seconds(expires))
    _record(settings, "key made", name)
    click.echo(key)


@key_group.command("list")
@with_settings
def key_list(settings: Settings) -> None:
    """List keys with their roles, sites and ends."""
    keys = Door(settings.home).keys.all()
    _show([f"{key.name:<24} {key.right.about}, {_until(key.ends_at)}" for key in keys], "no keys yet")


@key_group.command("revoke")
@click.argument("name")
@with_settings
def key_revoke(settings: Settings, name: str) -> None:
    """End the key NAME at once."""
    prepare_home(settings)
    Door(settings.home).keys.revoke(name)
    _record(settings, "key revoked", name)
    click.echo(f"revoked {name}")


@access_command.group("share")
def share_group() -> None:
    """Pages that anyone with their address can read."""


@share_group.command("add")
@with_settings
@click.option("--site", required=True, help="The site that it shows.")
@click.option("--page", type=click.Choice(PAGES), required=True, help="The page that it shows.")
@click.option(
    "--filter", "filters", multiple=True, metavar="FILTER", help="As of `tidemark report`; repeatable."
)
@_FROM_STDIN
@click.option("--expires", metavar="TIME", help="Ends after this time, such as 30d (default: never).")
@click.option("--embed", is_flag=True, help="It may stand in a frame of other pages.")
@click.option("--embed-in", multiple=True, metavar="ORIGIN", help="Only of this one, https://…; repeatable.")
def share_add(
    settings: Settings,
    site: str,
    page: str,
    filters: tuple[str, ...],
    password_stdin: bool,
    expires: str | None,
    embed: bool,
    embed_in: tuple[str, ...],
) -> None:
    """Share a page of a site, and print its address on the dashboard's server, once."""
    prepare_home(settings)
    door = Door(settings.home)
    password = door.people.hashed(_password(password_stdin)) if password_stdin else ""
    share = Share.of(site, page, filters, password, embed=embed, embed_in=embed_in)
    token = door.shares.add(share, _seconds(expires))
    _record(settings, "share made", f"{page} of {site}")
    click.echo(f"/share/{token}")
    if share.over_https_only:
        click.echo(share.over_https_only, err=True)


@share_group.command("list")
@with_settings
def share_list(settings: Settings) -> None:
    """List shares with their ids, by which `revoke` knows them."""
    shares = Door(settings.home).shares.all()
    _show([f"{share.id}  {share.about}, {_until(share.ends_at)}" for share in shares], "no shares yet")


@share_group.command("revoke")
@click.argument("share")
@with_settings
def share_revoke(settings: Settings, share: str) -> None:
    """End SHARE at once: an id as `share list` shows it, or an address."""
    prepare_home(settings)
    id = Door(settings.home).shares.revoke(share.rpartition("/")[2])
    _record(settings, "share revoked", id)
    click.echo(f"revoked {id}")


@access_command.command("log")
@with_settings
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def log_show(settings: Settings, as_json: bool) -> None:
    """Show what people, keys and shares have done: the newest 200 rows of quality.access, newest first."""
    rows = _log(settings)
    if as_json:
        click.echo(rows.to_json(orient="records", date_format="iso", date_unit="s", indent=2))
        return
    _show([_line(row) for row in rows.to_dict("records")], "nothing yet")


def _line(row: dict[Any, Any]) -> str:
    who = f"{row['who'] or '-':<20} {row['role'] or '-':<8} {row['address'] or '-':<15}"
    return f"{row['time']:%Y-%m-%d %H:%M:%S}  {who} {row['what']} {row['object']} ({row['outcome']})".replace(
        "  (", " ("
    )


def _log(settings: Settings) -> pd.DataFrame:
    from tidemark.access.audit import newest
    from tidemark.figures.rows import Rows
    from tidemark.home import Home

    return newest(Rows(Home.of(settings).store.reader))


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


def _seconds(text: str | None) -> float | None:
    from tidemark.figures.declared import duration

    return None if text is None else duration(text).total_seconds()


def _record(settings: Settings, what: Any, object: str) -> None:
    audit = audit_of(settings)
    audit.record(None, what, object)
    audit.write()


def _until(ends_at: datetime | None) -> str:
    return f"until {ends_at:%Y-%m-%d %H:%M} UTC" if ends_at else "no end"


def _show(lines: list[str], nothing: str) -> None:
    click.echo("\n".join(lines or [nothing]))

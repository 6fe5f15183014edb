"""Runs the Streamlit app of app/ on a home's tables."""

from __future__ import annotations

import os
import sys
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path

from tidemark.access.declared import LOGIN, Login, access
from tidemark.access.door import ADDRESS, HOSTS, require_login
from tidemark.errors import PlatformError
from tidemark.local.directories import prepare_home
from tidemark.local.ports import free_port, frees_up, refused
from tidemark.local.process import KEEPING_MEMORY
from tidemark.local.records import live_record, write_record
from tidemark.settings import Settings
from tidemark.settings.sections import DashboardSettings


def run_in_foreground(settings: Settings) -> None:
    """Replaces this process by the dashboard's server; <home>/run/dashboard.json has its url.

    Raises PlatformError if Streamlit is not installed, the port is taken, or the home cannot be written, SettingError
    for an address where everybody could see everything.
    """
    entry = entry_file()
    if find_spec("streamlit") is None:
        raise PlatformError("Streamlit is not installed", "Install it: pip install 'tidemark[dashboard]'.")
    prepare_home(settings)
    check_port(settings.dashboard)
    login = check_login(settings)
    may_edit = settings.dashboard.may_edit or (settings.dashboard.edits == "auto" and login != "none")
    address = settings.dashboard.address
    port = settings.dashboard.port or free_port(address)
    # exec keeps the pid and the start time, so the record stays valid.
    write_record(_record_file(settings), os.getpid(), url=_url(address, port))
    options = {
        "server.address": address,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    environment = {
        **KEEPING_MEMORY,
        **os.environ,
        **_given_login(settings),
        "TIDEMARK_HOME": str(settings.home),
        "TIDEMARK_TABLES_LOCATION": settings.lakehouse.tables_location,
        "TIDEMARK_CATALOG": settings.lakehouse.catalog,
        "TIDEMARK_SCHEMA": settings.lakehouse.schema,
        "TIDEMARK_DASHBOARD_EDITS": "yes" if may_edit else "no",
        ADDRESS: address,
        HOSTS: settings.dashboard.hosts,
        # The guard must see the address of the proxy, not the one in the proxy's header.
        "FORWARDED_ALLOW_IPS": "",
    }
    # Streamlit looks for .streamlit/config.toml in the working directory.
    os.chdir(entry.parent)
    command = [sys.executable, "-m", "streamlit", "run", str(entry.with_name("server.py")), *arguments]
    os.execve(sys.executable, command, environment)


def entry_file() -> Path:
    """The app's main file: in the project for an editable install, otherwise in the wheel.

    Raises PlatformError if neither exists.
    """
    package = Path(__file__).resolve().parents[1]
    project = package.parents[1]
    places = [package / "_app"]
    if (project / "pyproject.toml").is_file():
        places.insert(0, project / "app")
    for place in places:
        if (place / "main.py").is_file():
            return place / "main.py"
    looked = " or ".join(str(place / "main.py") for place in places)
    raise PlatformError(f"the dashboard's app is not at {looked}", "Reinstall tidemark.")


def url(settings: Settings) -> str:
    """Address of the home's running dashboard, or "" if none runs."""
    record = live_record(_record_file(settings))
    return str(record.get("url", "")) if record else ""


def is_healthy(settings: Settings) -> bool:
    """Whether the home's dashboard answers."""
    # The dashboard starts without them.
    import urllib.request
    from urllib.error import HTTPError

    address = url(settings)
    if not address:
        return False
    # The environment's proxy (http_proxy) does not reach this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}/_stcore/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except HTTPError as error:
        return error.code == HTTPStatus.UNAUTHORIZED
    except OSError:
        return False


def check_login(settings: Settings) -> Login:
    """How people log in. Raises SettingError for an address where everybody could see everything."""
    declared = access(settings.home, _given_login(settings))
    require_login(declared, settings.dashboard.address)
    return declared.login


def _given_login(settings: Settings) -> dict[str, str]:
    """The login of the settings as an environment variable, which would take precedence over the file; else nothing."""
    return {LOGIN: settings.dashboard.login} if settings.dashboard.login else {}


def check_port(settings: DashboardSettings) -> None:
    """Raises PlatformError if the dashboard's port is taken, or its address is none of this machine."""
    if not frees_up(settings.port, settings.address):
        raise refused(settings.address, settings.port, "the dashboard is to listen on", "dashboard")


def _url(address: str, port: int) -> str:
    # A wildcard is an address to listen on, not one to open.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _record_file(settings: Settings) -> Path:
    return settings.run_directory / "dashboard.json"

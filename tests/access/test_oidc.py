"""Login by OpenID Connect, with a provider that runs here."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from tests.access.conftest import browser, settings
from tidemark.access.door import Door
from tidemark.access.oidc import name_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oidc_provider_mock


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    people = [
        oidc_provider_mock.User(sub="1", claims={"email": "ana@example.org", "email_verified": True}),
        oidc_provider_mock.User(sub="2", claims={"email": "ana@example.org", "email_verified": False}),
    ]
    with oidc_provider_mock.run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def client(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("TIDEMARK_OIDC_CLIENT_ID", "tidemark")
    monkeypatch.setenv("TIDEMARK_OIDC_CLIENT_SECRET", "of a test")
    settings(
        tmp_path,
        f'login = "oidc"\n[access.oidc]\nserver_metadata_url = "{provider}/.well-known/openid-configuration"\n'
        '[access.people]\n"*@example.org" = { role = "viewer", sites = ["shop"] }',
    )
    return browser(Door(tmp_path))


def authorized(client: TestClient, sub: str) -> str:
    """The path to which the provider sends the browser back after somebody has logged in there."""
    begun = client.get("/login")
    assert begun.status_code == 302 and "code_challenge" in begun.headers["location"]
    answer = httpx.post(begun.headers["location"], data={"sub": sub})
    back = urlsplit(answer.headers["location"])
    assert back.path == "/oauth2callback"
    return f"{back.path}?{back.query}"


def test_a_person_logs_in_at_the_provider(client: TestClient) -> None:
    client.get("/pages")
    answer = client.get(authorized(client, "1"))
    assert answer.status_code == 303 and answer.headers["location"] == "/pages"
    assert client.get("/").json() == {
        "name": "ana@example.org",
        "role": "viewer",
        "sites": ["shop"],
        "path": "/",
    }


def test_an_address_that_is_not_verified_is_nobodys_name(client: TestClient) -> None:
    client.get(authorized(client, "2"))
    answer = client.get("/")
    assert answer.status_code == 403 and "known as 2," in answer.text
    assert name_of({"sub": "7", "email": "ops@example.org"}) == "7"


def test_an_answer_of_another_login_begins_no_session(client: TestClient, tmp_path: Path) -> None:
    other = browser(Door(tmp_path))
    path = authorized(other, "1")
    assert client.get(path).status_code == 401
    state = re.sub("state=[^&]*", "state=forged", path)
    assert other.get(state).status_code == 401
    assert other.get(path.replace("code=", "code=x")).status_code == 401
    assert client.get("/").status_code == other.get("/").status_code == 303

"""Keys and shares, against the application in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from tests.access.conftest import PASSWORD, browser, log_in
from tidemark.access.door import Door
from tidemark.cli import tidemark
from tidemark.figures.selection import SelectionError


def run(home: Path, *arguments: str, stdin: str = "") -> str:
    """The output of `tidemark access …`."""
    done = CliRunner().invoke(
        tidemark, ["--home", str(home), "access", *arguments], input=stdin, catch_exceptions=False
    )
    return done.stdout.strip()


def test_a_key_reads_with_its_own_right_until_it_is_revoked(door: Door, tmp_path: Path) -> None:
    key = run(tmp_path, "key", "add", "robot", "--site", "shop", "--role", "analyst", "--expires", "90d")
    assert key.startswith("tm_") and len(key) == 46
    assert "robot" in run(tmp_path, "key", "list") and key not in run(tmp_path, "key", "list")
    client = browser(door)
    client.headers["authorization"] = f"Bearer {key}"
    assert client.get("/api/v1/reports").json() == {
        "name": "robot", "role": "analyst", "sites": ["shop"], "path": "/api/v1/reports",
    }  # fmt: skip
    assert client.post("/api/v1/reports").status_code == 403
    assert client.post("/mcp").status_code == 200
    run(tmp_path, "key", "revoke", "robot")
    assert client.get("/api/v1/reports").status_code == 401


def test_a_wrong_key_is_nobodys_even_beside_a_session(door: Door, client: TestClient) -> None:
    log_in(client, "ops")
    assert client.get("/", headers={"authorization": "Bearer tm_wrong"}).status_code == 401


def test_keys_and_shares_expire(door: Door, client: TestClient) -> None:
    key = door.keys.add("robot", "viewer", (), 0.0)
    assert client.get("/", headers={"authorization": f"Bearer {key}"}).status_code == 401
    token = shared(door, seconds=0.0)
    assert client.get(f"/share/{token}").status_code == 404


def test_a_guessed_address_tells_nothing(door: Door, client: TestClient) -> None:
    token, ended = shared(door), shared(door, seconds=0.0)
    assert len(token) == 43, "256 random bits"
    id = door.shares.all()[0].id
    guesses = (
        ended,
        token[:-1],
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        token.upper(),
        id,
        "",
    )
    answers = {
        (each.status_code, each.content) for each in (client.get(f"/share/{guess}") for guess in guesses)
    }
    assert len(answers) == 1 and answers.pop()[0] == 404
    assert client.get(f"/share/{token}").status_code == 200


def test_a_share_is_a_viewer_of_its_site_and_reaches_nothing_else(door: Door, tmp_path: Path) -> None:
    client = browser(door)
    path = run(
        tmp_path,
        "share",
        "add",
        "--site",
        "shop",
        "--page",
        "pages",
        "--filter",
        "country=DE",
        "--expires",
        "30d",
    )
    answer = client.get(f"{path}?site=blog&filter=country=FR")
    seen = answer.json()
    assert (seen["role"], seen["sites"], seen["path"]) == ("viewer", ["shop"], "/")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert client.get(f"{path}/_stcore/health").json()["path"] == "/_stcore/health"
    for rest in ("api/v1/reports", "mcp", "login", "share/x"):
        assert client.get(f"{path}/{rest}").status_code == 404
    assert client.post(path).status_code == 405
    # Its address opens nothing else, and no other one.
    assert client.get("/").status_code == 303
    assert client.get(f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}").status_code == 404
    with client.websocket_connect(f"ws://localhost{path}/_stcore/stream") as socket:
        socket.send_text("run")
        assert socket.receive_json()["sites"] == ["shop"]
        id = run(tmp_path, "share", "list").split()[0]
        run(tmp_path, "share", "revoke", id)
        socket.send_text("run")
        with pytest.raises(Exception):  # noqa: B017
            socket.receive_json()
    assert client.get(path).status_code == 404


def test_a_share_with_a_password(door: Door, tmp_path: Path) -> None:
    path = run(
        tmp_path,
        "share",
        "add",
        "--site",
        "shop",
        "--page",
        "pages",
        "--password-stdin",
        stdin=f"{PASSWORD}\n",
    )
    client = browser(door)
    form = client.get(path)
    # With `no-referrer` a browser would send the origin `null` with the form.
    assert "password" in form.text and form.headers["referrer-policy"] == "same-origin"
    assert client.get(f"{path}/_stcore/stream").status_code == 401
    assert client.post(path, data={"password": "wrong"}).status_code == 401
    assert client.post(path, data={"password": PASSWORD}).headers["location"] == path
    assert client.get(path).json()["sites"] == ["shop"]
    assert browser(door).get(path).status_code == 200 and "password" in browser(door).get(path).text
    other = browser(door, "192.0.2.7")
    for _ in range(4):
        assert other.post(path, data={"password": "wrong"}).status_code == 401
    assert other.post(path, data={"password": PASSWORD}).status_code == 429


def test_only_an_embedded_share_stands_in_a_frame_and_where(door: Door, tmp_path: Path) -> None:
    client = browser(door)
    add = ("share", "add", "--site", "shop", "--page", "live")
    anywhere = client.get(run(tmp_path, *add, "--embed"))
    assert "frame-ancestors *" in anywhere.headers["content-security-policy"]
    assert "x-frame-options" not in anywhere.headers
    there = client.get(run(tmp_path, *add, "--embed-in", "https://blog.example"))
    assert "frame-ancestors https://blog.example" in there.headers["content-security-policy"]
    assert "no origin" in str(_failure(tmp_path, *add, "--embed-in", "https://blog.example; script-src *"))


def test_the_password_of_an_embedded_share_is_kept_over_https_or_the_frame_says_why_not(
    door: Door, tmp_path: Path
) -> None:
    add = ("share", "add", "--site", "shop", "--page", "live", "--embed", "--password-stdin")
    done = CliRunner().invoke(tidemark, ["--home", str(tmp_path), "access", *add], input=PASSWORD)
    path = done.stdout.strip()
    assert "reached by https" in done.stderr
    client = browser(door, scheme="https")
    unlocked = client.post(path, data={"password": PASSWORD})
    cookie = unlocked.headers["set-cookie"].lower()
    assert {"samesite=none", "secure", "partitioned", "httponly"} <= set(cookie.split("; "))
    kept = client.get(unlocked.headers["location"])
    assert kept.status_code == 303 and kept.headers["location"] == path
    assert client.get(path).json()["sites"] == ["shop"]
    # A browser that sends no cookie from the frame.
    unkept = browser(door).get(unlocked.headers["location"])
    assert unkept.status_code == 403 and f'target="_blank" rel="noopener" href="{path}"' in unkept.text
    assert "frame-ancestors *" in unkept.headers["content-security-policy"]


def test_two_filters_of_a_field_both_hold(door: Door) -> None:
    from tidemark.access.shares import Share

    share = Share.of("shop", "pages", ["country=DE", "country=FR"])
    assert [str(each) for each in share.filters] == ["country=DE", "country=FR"]
    with pytest.raises(SelectionError):
        Share.of("shop", "pages", ["client_ip=1"])


def test_people_are_added_listed_and_removed(tmp_path: Path) -> None:
    run(
        tmp_path,
        "user",
        "add",
        "bo",
        "--role",
        "editor",
        "--site",
        "shop",
        "--password-stdin",
        stdin=PASSWORD,
    )
    assert run(tmp_path, "user", "list").split() == ["bo", "editor", "of", "shop"]
    assert "already" in str(
        _failure(tmp_path, "user", "add", "bo", "--role", "admin", "--password-stdin", stdin=PASSWORD)
    )
    assert "8 to" in str(
        _failure(tmp_path, "user", "add", "x", "--role", "admin", "--password-stdin", stdin="short")
    )
    run(tmp_path, "user", "remove", "bo")
    assert run(tmp_path, "user", "list") == "nobody yet"
    assert "nobody called" in str(_failure(tmp_path, "user", "remove", "bo"))
    events = [line.split()[5:] for line in run(tmp_path, "log").splitlines()]
    assert events == [["person", "removed", "bo", "(done)"], ["person", "added", "bo", "(done)"]]


def test_the_login_is_set_and_the_rest_of_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "tidemark.toml"
    file.write_text("# mine\ntopic = 'log'\n")
    run(tmp_path, "login", "password")
    assert file.read_text() == "# mine\ntopic = 'log'\n\n[access]\nlogin = \"password\"\n"


def _failure(home: Path, *arguments: str, stdin: str = "") -> BaseException | None:
    return CliRunner().invoke(tidemark, ["--home", str(home), "access", *arguments], input=stdin).exception


def shared(door: Door, seconds: float | None = None) -> str:
    from tidemark.access.shares import Share

    return door.shares.add(Share.of("shop", "pages", []), seconds)

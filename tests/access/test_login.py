"""Login, sessions and the guard, against the application in this process."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from tests.access.conftest import PASSWORD, browser, log_in, settings
from tidemark.access.asking import HEADER, OWNER, Asking, signed, verified
from tidemark.access.audit import Audit
from tidemark.access.declared import access
from tidemark.access.door import NOTHING, Door, require_login
from tidemark.access.hosts import allowed_names
from tidemark.access.limits import Attempts
from tidemark.access.sessions import COOKIE
from tidemark.access.shares import Share
from tidemark.errors import SettingError
from tidemark.figures.right import Right

SHARE = Share.of("shop", "pages", [])


def test_a_page_leads_to_the_login_and_everything_else_says_401(client: TestClient) -> None:
    page = client.get("/overview?site=shop")
    assert page.status_code == 303 and page.headers["location"] == "/login"
    for path in (
        "/_stcore/health",
        "/_stcore/stream",
        "/media/1.csv",
        "/static/js/a.js",
        "/api/v1/reports",
        "/icon.png",
    ):
        answer = client.get(path)
        assert answer.status_code == 401 and answer.json().keys() == {"error", "remedy"}, path
    assert client.post("/overview").status_code == 401
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/_stcore/stream"):
        pass


def test_a_login_leads_to_the_page_that_was_wanted(client: TestClient) -> None:
    client.get("/overview?site=shop&filter=path%5E%2Fdocs")
    answer = log_in(client)
    assert (
        answer.status_code == 303
        and answer.headers["location"] == "/overview?site=shop&filter=path%5E%2Fdocs"
    )
    assert client.get("/").json() == {"name": "ana", "role": "viewer", "sites": ["shop"], "path": "/"}
    assert re.findall("HttpOnly|Max-Age=43200|SameSite=lax|Secure", cookie_of(answer)) == [
        "HttpOnly", "Max-Age=43200", "SameSite=lax",
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_a_login_leads_nowhere_else(client: TestClient, wanted: str) -> None:
    client.cookies.set("tidemark_wanted", wanted)
    assert log_in(client).headers["location"] == "/"


def test_a_cookie_is_secure_under_https(door: Door) -> None:
    assert "Secure" in cookie_of(log_in(browser(door, scheme="https")))
    assert "Secure" in cookie_of(log_in(browser(door), x_forwarded_proto="https"))


def test_a_session_that_the_browser_brings_along_is_not_the_one_that_begins(
    door: Door, client: TestClient
) -> None:
    client.cookies.set(COOKIE, "fixed")
    log_in(client)
    token = cookie_of(log_in(client)).partition(";")[0].partition("=")[2]
    assert token != "fixed" and door.sessions.of("fixed") is None and door.sessions.of(token) is not None


def test_a_logout_and_a_removal_end_sessions_at_once(door: Door, client: TestClient) -> None:
    log_in(client)
    cookie = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
    with client.websocket_connect("ws://localhost/_stcore/stream", headers=cookie) as socket:
        socket.send_text("run")
        assert socket.receive_json()["name"] == "ana"
        door.people.remove("ana")
        socket.send_text("run")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()
    assert client.get("/").status_code == 303

    log_in(client, "ops")
    kept = client.cookies[COOKIE]
    assert client.post("/logout").headers["location"] == "/login"
    client.cookies.set(COOKIE, kept)
    assert client.get("/").status_code == 303


def test_a_session_ends_after_twelve_hours(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    client = browser(door)
    log_in(client)
    with door.database.open() as db:
        (ends,) = db.execute("SELECT ends_at FROM sessions").fetchone()
    monkeypatch.setattr("tidemark.access.sessions.time.time", lambda: ends - 1)
    assert client.get("/").status_code == 200
    monkeypatch.setattr("tidemark.access.sessions.time.time", lambda: ends)
    assert client.get("/").status_code == 303


def test_a_wrong_name_and_a_wrong_password_cannot_be_told_apart(
    door: Door, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, made = [], []
    verify, hash = PasswordHasher.verify, PasswordHasher.hash
    monkeypatch.setattr(
        PasswordHasher, "verify", lambda self, hash, given: checked.append(hash) or verify(self, hash, given)
    )
    monkeypatch.setattr(PasswordHasher, "hash", lambda self, text: made.append(text) or hash(self, text))
    wrong = [log_in(client, "ana", "wrong")]
    assert len(made) == 1, "the first attempt takes the time for those that nobody knows"
    wrong.append(log_in(client, "nobody", "wrong"))
    assert len(made) == 1
    assert [answer.status_code for answer in wrong] == [401, 401]
    assert wrong[0].content == wrong[1].content
    # Both passwords were compared with a hash, of equal cost.
    assert [hash.rsplit("$", 2)[0] for hash in checked] == [checked[0].rsplit("$", 2)[0]] * 2


def test_after_five_failures_of_a_name_or_an_address_all_have_to_wait(door: Door) -> None:
    for number in range(5):
        assert log_in(browser(door, f"192.0.2.{number}"), "ana", "wrong").status_code == 401
    right = log_in(browser(door, "192.0.2.9"))
    assert right.status_code == 429 and 1 <= int(right.headers["retry-after"]) <= 60
    assert log_in(browser(door, "192.0.2.9"), "ops").status_code == 303

    for number in range(5):
        log_in(browser(door, "192.0.2.10"), f"somebody {number}", "wrong")
    assert log_in(browser(door, "192.0.2.10"), "ops").status_code == 429


def test_failures_count_for_a_minute_and_while_they_are_under_way() -> None:
    now = [0.0]
    failures = Attempts(lambda: now[0])
    assert [failures.begin("ana") for _ in range(6)] == [0, 0, 0, 0, 0, 60]
    failures.succeeded("ana")
    assert failures.begin("ana") == 0
    now[0] = 60.0
    assert failures.begin("ana") == 0


CHANGING = ("/", "/login", "/logout", "/_stcore/upload_file/1/2", "/media/1.csv", "/api/v1/reports", "/mcp")


def test_a_page_of_another_origin_changes_nothing(door: Door, client: TestClient) -> None:
    share = f"/share/{door.shares.add(SHARE, None)}"
    log_in(client, "ops")
    for path in (*CHANGING, share):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
                answer = client.request(
                    method, path, data={"name": "ana", "password": PASSWORD}, headers=headers
                )
                assert answer.status_code == 403, (method, path, headers)
    assert client.get("/").json()["name"] == "ops"


def test_no_client_says_who_it_is(client: TestClient) -> None:
    forged = {HEADER: signed(OWNER), "x-forwarded-email": "ops"}
    assert client.get("/", headers=forged).status_code == 303
    log_in(client)
    assert client.get("/", headers=forged).json()["role"] == "viewer"
    assert verified(signed(OWNER)[:-1] + "x") is None and verified("") is None


def test_every_answer_forbids_frames(client: TestClient) -> None:
    for path in ("/", "/login", "/_stcore/health"):
        assert "frame-ancestors 'none'" in client.get(path).headers["content-security-policy"]
    assert client.get("/", headers={"host": "evil.example"}).headers["x-frame-options"] == "DENY"


def test_a_key_in_an_address_is_refused(door: Door, client: TestClient) -> None:
    key = door.keys.add("robot", "viewer", (), None)
    assert client.get(f"/api/v1/reports?key={key}").status_code == 400


def test_no_secret_is_in_a_log_or_in_the_record(
    door: Door, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key, token = door.keys.add("robot", "viewer", ("shop",), None), door.shares.add(SHARE, None)
    log_in(client, "ana", "a wrong password")
    log_in(client)
    answers = [
        client.get(f"/api/v1/reports?key={key}"),
        client.post("/", headers={"authorization": f"Bearer {key}"}),
        client.post(f"/share/{token}"),
        client.get(f"/share/{token}/media/1.csv"),
        client.get(f"/share/{token}/api/v1/reports"),
    ]
    assert [answer.status_code for answer in answers] == [400, 403, 405, 200, 404]
    door.audit.write()
    # The client of this test logs what it asks for.
    logged = [each.getMessage() for each in caplog.records if not each.name.startswith("httpx")]
    text = f"{logged} {door.audit.rows()}"
    assert "robot" in text and "pages.csv" in text
    for secret in (PASSWORD, "a wrong password", key, token, client.cookies[COOKIE]):
        assert secret not in text


def test_the_word_of_a_proxy_counts_from_its_own_address(door: Door, tmp_path: Path) -> None:
    settings(
        tmp_path,
        'login = "header"\n[access.header]\nname = "X-Who"\nfrom = ["192.0.2.1/32"]\n[access.people]\n'
        '"ana@example.org" = { role = "admin" }\n"*@example.org" = { role = "analyst", sites = ["blog"] }',
    )
    proxy = browser(door, "192.0.2.1")
    assert proxy.get("/", headers={"x-who": "Ana@example.org"}).json()["role"] == "admin"
    assert proxy.get("/", headers={"x-who": "bo@example.org"}).json()["sites"] == ["blog"]
    assert proxy.get("/", headers={"x-who": "eve@example.org.evil.example"}).status_code == 403
    assert proxy.get("/_stcore/health", headers={"x-who": "eve"}).json().keys() == {"error", "remedy"}
    assert proxy.get("/").status_code == 303 and proxy.get("/login").status_code == 401
    assert proxy.get("/", headers=[("x-who", "ana@example.org"), ("x-who", "eve")]).status_code == 303
    assert browser(door, "192.0.2.2").get("/", headers={"x-who": "ana@example.org"}).status_code == 303
    # What is taken out of the file ends at once.
    settings(tmp_path, 'login = "header"\n[access.header]\nname = "X-Who"\nfrom = ["192.0.2.1/32"]')
    assert proxy.get("/", headers={"x-who": "ana@example.org"}).status_code == 403


def test_on_databricks_the_platform_says_who_asks(tmp_path: Path) -> None:
    door = Door(tmp_path, platform=True)
    client = browser(door, "10.0.0.1")
    assert (
        client.get("/", headers={"host": "app.example", "x-forwarded-email": "ana@example.org"}).json()[
            "role"
        ]
        == "analyst"
    )
    assert client.get("/", headers={"host": "app.example"}).status_code == 303
    program = {"x-forwarded-email": "robot@example.org", "authorization": "Bearer of-the-platform"}
    assert client.get("/api/v1/reports", headers=program).json()["name"] == "robot@example.org"
    refused = client.get("/api/v1/reports", headers=program | {"authorization": "Bearer tm_unknown"})
    assert refused.status_code == 401
    settings(tmp_path, '[access.people]\n"bo@example.org" = { role = "viewer", sites = ["shop"] }')
    assert client.get("/", headers={"x-forwarded-email": "ana@example.org"}).status_code == 403


def test_behind_a_proxy_the_origin_is_a_public_name(door: Door) -> None:
    door.hosts = allowed_names("stats.example.org", "")
    client = browser(door)
    log_in(client)
    socket = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}

    def opened(origin: str) -> Any:
        return client.websocket_connect("ws://localhost/_stcore/stream", headers={**socket, "origin": origin})

    with opened("https://stats.example.org") as connection:
        connection.send_text("run")
        assert connection.receive_json()["name"] == "ana"
    with pytest.raises(WebSocketDenialResponse) as refused, opened("https://evil.example"):
        pass
    assert refused.value.status_code == 403


def test_without_login_only_this_machine_is_served(tmp_path: Path) -> None:
    for address in ("127.0.0.1", "::1", "localhost"):
        require_login(access(tmp_path), address)
    with pytest.raises(SettingError, match=r"0\.0\.0\.0.*access login password.*access user add"):
        require_login(access(tmp_path), "0.0.0.0")
    assert browser(Door(tmp_path)).get("/").json()["role"] == "admin"


def test_a_stolen_database_has_no_secret(door: Door, client: TestClient) -> None:
    log_in(client)
    key = door.keys.add("robot", "viewer", (), None)
    stolen = door.database.path.read_bytes()
    assert door.database.path.stat().st_mode & 0o777 == 0o600
    for secret in (PASSWORD, client.cookies[COOKIE], key):
        assert secret.encode() not in stolen
    assert b"$argon2id$" in stolen


def test_what_happened_is_recorded_and_bounded(door: Door, client: TestClient) -> None:
    from deltalake import DeltaTable

    for _ in range(2):
        log_in(client, "nobody" * 1000, "wrong")
    log_in(client)
    for number in (1, 1, 2):  # a page asks for a file twice per click
        client.get(f"/media/{number}.csv")
    client.post("/logout")
    door.audit.write()
    rows = DeltaTable(door.audit.path).to_pyarrow_table().sort_by("time").to_pylist()
    assert [(row["what"], row["who"], row["outcome"], row["object"]) for row in rows[2:]] == [
        ("login", "ana", "done", ""), *[("download", "ana", "done", "pages.csv")] * 2, ("logout", "ana", "done", ""),
    ]  # fmt: skip
    for row in rows[:2]:
        assert (row["what"], row["outcome"], row["address"]) == (
            "failed login",
            "refused",
            rows[2]["address"],
        )
        assert len(row["who"]) == 300


def test_refusals_that_nothing_else_limits_are_recorded_once_a_minute(door: Door) -> None:
    for limited in (False, False, True, True):
        door.audit.record(None, "failed login", outcome="refused", address="192.0.2.1", limited=limited)
    door.audit.write()
    rows = door.audit.rows()
    assert rows is not None and rows.num_rows == 3


def test_refusals_of_many_objects_do_not_fill_the_disk(door: Door) -> None:
    nobody = Asking("eve", NOTHING, "header", "192.0.2.1")
    for number in range(500):
        door.audit.record(nobody, "refused", f"/{number}" + "x" * 5000, "refused")
    door.audit.record(Asking("bo", NOTHING, "header", "192.0.2.2"), "refused", "/", "refused")
    door.audit.write()
    rows = door.audit.rows()
    assert rows is not None and rows.num_rows == 101
    assert max(map(len, rows["object"].to_pylist())) == 300


def test_in_a_catalog_the_warehouse_adds_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(
        "tidemark.access.audit.Connection", lambda environment: lambda *asked: ran.append(asked)
    )
    audit = Audit.of_home(tmp_path, {"TIDEMARK_CATALOG": "main", "TIDEMARK_SCHEMA": "my`own"})
    audit.record(Asking("ana", Right("viewer"), "header", "192.0.2.1"), "download", "it's.csv")
    audit.write()
    [(statement, parameters)] = ran
    assert statement.startswith("INSERT INTO `main`.`my``own`.`quality_access` (time, who, role,")
    [row] = json.loads(parameters["rows"])
    assert datetime.fromisoformat(row.pop("time")).tzinfo is not None
    assert row == {
        "who": "ana", "role": "viewer", "address": "192.0.2.1", "what": "download", "object": "it's.csv",
        "outcome": "done",
    }  # fmt: skip


def test_the_end_of_the_server_records_what_has_just_happened(door: Door) -> None:
    with browser(door) as client:
        log_in(client)
    rows = door.audit.rows()
    assert rows is not None and rows["what"].to_pylist() == ["login"]


def test_the_end_of_the_server_waits_for_rows_that_are_being_written() -> None:
    begun, go, written = Event(), Event(), list[tuple[Any, ...]]()

    def insert(rows: Sequence[tuple[Any, ...]]) -> None:
        begun.set()
        go.wait(60)
        written.extend(rows)

    audit = Audit("", insert)
    audit.record(None, "logout")
    Thread(target=audit.write).start()
    assert begun.wait(60)
    end = Thread(target=audit.write)
    end.start()
    end.join(0.1)
    assert end.is_alive() and not written
    go.set()
    end.join()
    assert [row[4] for row in written] == ["logout"]


def test_a_table_of_an_older_state_gets_the_newer_rows_back(door: Door) -> None:
    door.audit.record(None, "key made", "old")
    door.audit.write()
    shutil.copytree(door.audit.path, door.home / "kept")
    door.audit.record(None, "key revoked", "old")
    door.audit.write()
    rows = door.audit.rows()
    assert rows is not None
    shutil.rmtree(door.audit.path)
    shutil.copytree(door.home / "kept", door.audit.path)
    door.audit.put_back(rows)
    assert sorted(door.audit.rows()["what"].to_pylist()) == ["key made", "key revoked"]  # type: ignore[index]


def cookie_of(answer: object) -> str:
    return next(text for text in answer.headers.get_list("set-cookie") if text.startswith(f"{COOKIE}="))  # type: ignore[attr-defined]


def test_settings_that_break_before_the_first_request_stay_in_force(tmp_path: Path) -> None:
    settings(tmp_path, 'login = "password"')
    door = Door.of({"TIDEMARK_HOME": str(tmp_path)})
    (tmp_path / "tidemark.toml").write_text("[access")
    assert door.access.login == "password"

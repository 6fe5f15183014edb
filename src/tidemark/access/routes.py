"""Login and logout, and the password of a share."""

from __future__ import annotations

import math
from collections.abc import Callable
from urllib.parse import parse_qs

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tidemark.access.door import Door, client_of, cookie, share_asking, share_cookie
from tidemark.access.entering import begin_session, is_https
from tidemark.access.html import login_page, logout_page, message_page, password_page, unkept_page
from tidemark.access.oidc import Provider
from tidemark.access.sessions import COOKIE, HOURS
from tidemark.access.shares import Share

LOGIN, LOGOUT, CALLBACK = "/login", "/logout", "/oauth2callback"
# The query of the request that shows whether a browser has kept the cookie of an unlocked share.
UNLOCKED = "unlocked"
_MOST_BYTES = 16_384
# A check of a password takes 64 MB for a moment.
_AT_ONCE = 2
_NOBODY = "Nobody has a password yet: tidemark access user add NAME --role admin"
_WRONG = "The name or the password is wrong."


def routes(door: Door) -> list[BaseRoute]:
    """The routes of login and logout, which need no login."""
    return _Routes(door).routes()


class _Routes:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._passwords = Passwords(door)
        self._provider = Provider(door)

    def routes(self) -> list[BaseRoute]:
        return [
            Route(LOGIN, self.form, methods=["GET"]),
            Route(LOGIN, self.login, methods=["POST"]),
            Route(LOGOUT, self.leave, methods=["GET"]),
            Route(LOGOUT, self.logout, methods=["POST"]),
            Route(CALLBACK, self._provider.callback, methods=["GET"], name="callback"),
        ]

    async def form(self, request: Request) -> Response:
        door = self._door
        asking = door.asking(request.scope)
        if asking is not None:
            return RedirectResponse("/", 303)
        match door.access.login:
            case "oidc":
                return await self._provider.begin(request)
            case "password":
                return login_page("" if door.people.all() else _NOBODY)
        return message_page("Not logged in", "This server believes its proxy, which names nobody here.", 401)

    async def login(self, request: Request) -> Response:
        door = self._door
        if door.platform or door.access.login != "password":
            return refused(405, "this server takes no passwords", f"GET {LOGIN} leads to the login.")
        given = await form_of(request)
        name, password = given.get("name", "")[:1000], given.get("password", "")
        wait, same = await self._passwords.check(name, lambda: door.people.verify(name, password), request)
        if wait:
            return self._failed(request, 429, f"Too many failures. Try again in {wait} seconds.", name, wait)
        if not same:
            address = client_of(request.scope)
            door.audit.record(
                None, "failed login", outcome="refused", who=name, address=address, limited=True
            )
            return self._failed(request, 401, _WRONG, name)
        return begin_session(door, request, name, "password")

    def _failed(self, request: Request, status: int, problem: str, name: str, wait: int = 0) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            response: Response = login_page(problem, name, status)
        else:
            response = refused(
                status, problem, "Use the name and the password of `tidemark access user add`."
            )
        if wait:
            response.headers["retry-after"] = str(wait)
        return response

    async def leave(self, request: Request) -> Response:
        asking = self._door.asking(request.scope)
        if asking is None or asking.how not in ("password", "oidc"):
            return RedirectResponse("/", 303)
        return logout_page(asking.name)

    async def logout(self, request: Request) -> Response:
        door = self._door
        asking = door.asking(request.scope)
        door.sessions.end(cookie(request.scope["headers"], COOKIE))
        if asking is not None:
            door.audit.record(asking, "logout")
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
        return response


class Passwords:
    """Checks of passwords, few at once, and few failures of a name and of an address."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._limiter: CapacityLimiter | None = None

    async def check(self, name: str, verify: Callable[[], bool], request: Request) -> tuple[int, bool]:
        """Seconds to wait before the next attempt, 0 if this one was made; and whether the password is right."""
        keys = ("name", name), ("address", client_of(request.scope))
        wait = self._door.failures.begin(*keys)
        if wait:
            return max(1, math.ceil(wait)), False
        self._limiter = self._limiter or CapacityLimiter(_AT_ONCE)
        same = bool(await to_thread.run_sync(verify, limiter=self._limiter))
        if same:
            self._door.failures.succeeded(*keys)
        return 0, same


async def unlock(door: Door, passwords: Passwords, share: Share, request: Request, address: str) -> Response:
    """The answer to a request for a locked share, which is at this address of the server: the form for its password, or
    a session that has it."""
    if request.method != "POST":
        return unkept_page(address) if request.url.query == UNLOCKED else password_page(address)
    given = (await form_of(request)).get("password", "")
    wait, same = await passwords.check(
        f"share {share.id}", lambda: door.people.same(share.password, given), request
    )
    asking = share_asking(share, client_of(request.scope))
    if wait:
        response: Response = password_page(address, f"Too many failures. Try again in {wait} seconds.", 429)
        response.headers["retry-after"] = str(wait)
        return response
    if not same:
        door.audit.record(asking, "failed login", share.page, "refused", limited=True)
        return password_page(address, "The password is wrong.", 401)
    response = RedirectResponse(f"{address}?{UNLOCKED}" if share.embed else address, 303)
    secure = is_https(request)
    response.set_cookie(
        share_cookie(share),
        door.sessions.begin(share.id, "share"),
        path=address,
        httponly=True,
        secure=secure,
        max_age=HOURS * 3600,
        samesite="none" if share.embed and secure else "lax",
    )
    if share.embed and secure:
        # Without it, browsers keep no cookie in a frame of another site. Python sets it from 3.14 on.
        response.headers["set-cookie"] += "; Partitioned"
    door.audit.record(asking, "login", share.page)
    return response


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a short form."""
    body = b""
    with anyio.move_on_after(10):
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BYTES:
                return {}
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}


def refused(status: int, error: str, remedy: str) -> JSONResponse:
    """The answer to a program, as the problem and what to do."""
    return JSONResponse({"error": error, "remedy": remedy}, status)

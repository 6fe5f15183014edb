"""The begin of a session."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidemark.access.door import Door, client_of, cookie
from tidemark.access.sessions import COOKIE, HOURS, How, Session

# The page that somebody wanted before logging in.
WANTED = "tidemark_wanted"


def begin_session(door: Door, request: Request, name: str, how: How) -> Response:
    """Begins a new session, whatever token the browser had, and leads to the page that was wanted."""
    door.sessions.end(cookie(request.scope["headers"], COOKIE))
    wanted = unquote(cookie(request.scope["headers"], WANTED))
    response = RedirectResponse(wanted if _is_own(wanted) else "/", 303)
    token = door.sessions.begin(name, how)
    response.set_cookie(
        COOKIE, token, max_age=HOURS * 3600, path="/", httponly=True, samesite="lax", secure=is_https(request)
    )
    response.delete_cookie(WANTED, path="/")
    door.audit.record(door.of_session(Session(name, how), client_of(request.scope)), "login")
    return response


def is_https(request: Request) -> bool:
    """Whether the browser uses https; a proxy says so in a header. A forged one only keeps the sender's own cookie from
    being sent without it."""
    forwarded = request.headers.get("x-forwarded-proto", "")
    return request.url.scheme == "https" or forwarded.split(",")[0].strip().lower() == "https"


def _is_own(path: str) -> bool:
    return path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()

"""Login by OpenID Connect."""

from __future__ import annotations

import logging
import os
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tidemark.access.declared import Oidc
from tidemark.access.door import Door, client_of
from tidemark.access.entering import begin_session, is_https
from tidemark.access.html import message_page
from tidemark.errors import SettingError, first_line

log = logging.getLogger("tidemark.access")

CLIENT_ID, CLIENT_SECRET = "TIDEMARK_OIDC_CLIENT_ID", "TIDEMARK_OIDC_CLIENT_SECRET"


class Provider:
    """The provider of the settings; its metadata are fetched once. State and nonce of a login are in the request's
    session, which the browser has in a signed cookie."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._cached: tuple[Oidc, Any] | None = None

    async def begin(self, request: Request) -> Response:
        """Sends the browser to the provider."""
        oidc = self._door.access.oidc
        callback = request.url_for("callback")
        address = oidc.redirect_uri or str(
            callback.replace(scheme="https") if is_https(request) else callback
        )
        try:
            response: Response = await self._client(oidc).authorize_redirect(request, address)
        except Exception as error:  # of the network, of the provider's metadata
            return _failed(error)
        return response

    async def callback(self, request: Request) -> Response:
        """Begins a session of whom the provider names."""
        door = self._door
        if door.access.login != "oidc":
            return RedirectResponse("/", 303)
        client = self._client(door.access.oidc)
        try:
            metadata = await client.load_server_metadata()
            wanted = {
                "iss": {"essential": True, "value": metadata["issuer"]},
                "aud": {"essential": True, "value": client.client_id},
            }
            token = await client.authorize_access_token(request, claims_options=wanted)
            name = name_of(token["userinfo"])
        except Exception as error:  # a forged or an old answer, too
            door.audit.record(None, "failed login", outcome="refused", address=client_of(request.scope))
            return _failed(error)
        return begin_session(door, request, name, "oidc")

    def _client(self, oidc: Oidc) -> Any:
        if self._cached is None or self._cached[0] != oidc:
            from authlib.integrations.starlette_client import OAuth

            id, secret = os.environ.get(CLIENT_ID), os.environ.get(CLIENT_SECRET)
            if not id:
                raise SettingError(
                    f"{CLIENT_ID} is missing", f"Set it and {CLIENT_SECRET} in the environment."
                )
            client = OAuth().register(
                "provider",
                client_id=id,
                client_secret=secret,
                server_metadata_url=oidc.server_metadata_url,
                client_kwargs={"scope": oidc.scope, "code_challenge_method": "S256", "timeout": 10},
            )
            self._cached = (oidc, client)
        return self._cached[1]


def name_of(claims: Any) -> str:
    """The person's e-mail address if the provider has verified it, else the provider's own id of the person. An address
    that anybody could claim is nobody's name."""
    email, verified = claims.get("email"), claims.get("email_verified")
    return str(email) if email and verified in (True, "true") else str(claims["sub"])


def _failed(error: Exception) -> Response:
    log.warning("login by OpenID Connect failed: %s", first_line(error))
    text = (
        "The provider's answer cannot be used, or the login took too long. The server's log has the reason."
    )
    return message_page("Not logged in", text, 401, ("Log in again", "/login"))

"""An embedded broker that also listens with TLS and SASL, and an identity provider for OAUTHBEARER."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.kafka.certificates import self_signed
from tidemark.local import broker
from tidemark.local.ports import free_port
from tidemark.settings import Settings

USER = "log reader"
PASSWORD = 'planted"secret\\word'

MODULES = "org.apache.kafka.common.security"
# {{port}} and {{controller_port}} are those of the node.
PROPERTIES = f"""
listeners=PLAINTEXT://127.0.0.1:{{{{port}}}},CONTROLLER://127.0.0.1:{{{{controller_port}}}},SECURE://127.0.0.1:{{secure}}
advertised.listeners=PLAINTEXT://127.0.0.1:{{{{port}}}},SECURE://127.0.0.1:{{secure}}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
ssl.keystore.type=PKCS12
ssl.keystore.location={{keystore}}
ssl.keystore.password={{password}}
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN{{more}}
listener.name.secure.plain.sasl.jaas.config={MODULES}.plain.PlainLoginModule required user_plain="plain-planted";
listener.name.secure.scram-sha-512.sasl.jaas.config={MODULES}.scram.ScramLoginModule required;
"""
OAUTH = f"""
listener.name.secure.oauthbearer.sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required;
listener.name.secure.oauthbearer.sasl.server.callback.handler.class={MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.secure.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={{keys}}
listener.name.secure.oauthbearer.sasl.oauthbearer.expected.audience=kafka
"""


@contextmanager
def secured_broker(directory: Path, provider: IdentityProvider | None = None) -> Iterator[Settings]:
    """Settings of a client of the secured listener, by SCRAM, with a home of its own. The broker takes
    tokens of `provider`."""
    certificate = self_signed(directory, "broker")
    port = free_port()
    extra = directory / "broker.properties"
    text = PROPERTIES.format(
        secure=port, keystore=certificate.keystore, password=certificate.password,
        more=",OAUTHBEARER" if provider else "",
    )  # fmt: skip
    extra.write_text(text + (OAUTH.format(keys=provider.keys) if provider else ""))
    settings = Settings.of(
        home=directory / "broker", broker_port=0, dashboard_port=0, broker_properties=str(extra)
    )
    if provider:  # the broker asks only where its JVM is told that it may
        os.environ["JAVA_TOOL_OPTIONS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys}"
    try:
        started = broker.start(settings)
    finally:
        os.environ.pop("JAVA_TOOL_OPTIONS", None)
    try:
        add_user(started.bootstrap_servers)
        yield settings.changed(
            home=directory / "home",
            broker_properties="",
            bootstrap_servers=f"127.0.0.1:{port}",
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="SCRAM-SHA-512",
            kafka_username=USER,
            kafka_password=PASSWORD,
            kafka_ca_file=str(certificate.authority),
        )
    finally:
        broker.stop(settings)


def add_user(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(20)


@dataclass(frozen=True)
class IdentityProvider:
    """Gives signed tokens at `tokens` to one client, and the key that they are signed with at `keys`."""

    tokens: str
    keys: str


@contextmanager
def identity_provider(client: str, secret: str) -> Iterator[IdentityProvider]:
    """Runs while the context is open."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token() -> str:
        now = int(time.time())
        claims = {"sub": client, "aud": "kafka", "iat": now, "exp": now + 3600, "scope": "kafka"}
        signed = f"{_part({'alg': 'RS256', 'typ': 'JWT', 'kid': 'test'})}.{_part(claims)}"
        return f"{signed}.{_text(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def public_key() -> dict[str, object]:
        numbers = key.public_key().public_numbers()
        return {
            "kty": "RSA", "kid": "test", "use": "sig", "alg": "RS256",
            "n": _text(numbers.n.to_bytes(256)), "e": _text(numbers.e.to_bytes(3)),
        }  # fmt: skip

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, {"keys": [public_key()]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            wanted = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
            if self.headers.get("Authorization") == wanted:
                self._answer(200, {"access_token": token(), "token_type": "Bearer", "expires_in": 3600})
            else:
                self._answer(401, {"error": "invalid_client"})

        def _answer(self, status: int, message: dict[str, object]) -> None:
            body = json.dumps(message).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield IdentityProvider(f"{address}/token", f"{address}/keys")
    finally:
        server.shutdown()
        server.server_close()


def _part(claims: dict[str, object]) -> str:
    return _text(json.dumps(claims).encode())


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")

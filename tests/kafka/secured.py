"""An embedded broker that also listens with TLS and SASL, and an identity provider for OAUTHBEARER."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kafka.certificates import self_signed
from tidemark.local import broker
from tidemark.local.process import free_port
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
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN,OAUTHBEARER
listener.name.secure.plain.sasl.jaas.config={MODULES}.plain.PlainLoginModule required user_plain="plain-planted";
listener.name.secure.scram-sha-512.sasl.jaas.config={MODULES}.scram.ScramLoginModule required;
listener.name.secure.oauthbearer.sasl.jaas.config={MODULES}.oauthbearer.OAuthBearerLoginModule required \\
    unsecuredLoginStringClaim_sub="broker";
""".replace("\\\n    ", "")


@contextmanager
def secured_broker(directory: Path) -> Iterator[Settings]:
    """Settings of a client of the secured listener, by SCRAM, with a home of its own."""
    certificate = self_signed(directory, "broker")
    port = free_port()
    extra = directory / "broker.properties"
    extra.write_text(
        PROPERTIES.format(secure=port, keystore=certificate.keystore, password=certificate.password)
    )
    settings = Settings(
        home=directory / "broker", broker_port=0, dashboard_port=0, broker_properties=str(extra)
    )
    started = broker.start(settings)
    try:
        add_user(started.bootstrap_servers)
        yield dataclasses.replace(
            settings,
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


@contextmanager
def identity_provider(client: str, secret: str) -> Iterator[str]:
    """An endpoint that gives unsigned tokens to one client; the broker is set to take them. Gives its address."""

    def part(claims: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            wanted = "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()
            known = self.headers.get("Authorization") == wanted
            now = int(time.time())
            claims = {"sub": client, "iat": now, "exp": now + 3600, "scope": "kafka"}
            token = f"{part({'alg': 'none'})}.{part(claims)}."
            said = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
            body = json.dumps(said if known else {"error": "invalid_client"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
    finally:
        server.shutdown()
        server.server_close()

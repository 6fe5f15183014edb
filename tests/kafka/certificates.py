"""A certificate authority of a test's own, and the certificate of a broker on 127.0.0.1, as PEM files."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidemark.local.java import require_java


@dataclass(frozen=True)
class Certificate:
    """`authority`: what clients trust. `keystore`: the broker's key, a PKCS12 file, with its password."""

    authority: Path
    keystore: Path
    password: str = "changeit"


def self_signed(directory: Path, name: str) -> Certificate:
    """A certificate for 127.0.0.1 that is its own authority."""
    certificate = Certificate(directory / f"{name}.pem", directory / f"{name}.p12")
    store = [
        "-keystore",
        str(certificate.keystore),
        "-storetype",
        "PKCS12",
        "-storepass",
        certificate.password,
    ]
    _keytool(
        "-genkeypair", "-alias", name, "-keyalg", "EC", "-dname", f"CN={name}", "-validity", "30",
        "-ext", "san=ip:127.0.0.1,dns:localhost", "-ext", "bc:c", *store,
    )  # fmt: skip
    _keytool("-exportcert", "-rfc", "-alias", name, "-file", str(certificate.authority), *store)
    return certificate


def _keytool(*arguments: str) -> None:
    keytool = require_java().resolve().with_name("keytool")
    subprocess.run([str(keytool), *arguments], check=True, capture_output=True, timeout=60)

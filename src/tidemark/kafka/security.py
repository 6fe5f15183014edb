"""Security settings for Kafka's two client libraries: librdkafka's names and Java's."""

from __future__ import annotations

from pathlib import Path

from tidemark.errors import SettingError
from tidemark.settings.sections import KafkaSettings

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PACKAGE = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


def client_security(settings: KafkaSettings) -> dict[str, str]:
    """librdkafka's settings, the user's own `kafka_client_options` last.

    The result holds secrets and must not be logged. Raises SettingError for invalid settings.
    """
    protocol, mechanism = _checked(settings)
    config = {"security.protocol": protocol}
    if mechanism == "OAUTHBEARER":
        config |= {
            "sasl.mechanism": mechanism,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": settings.username,
            "sasl.oauthbearer.client.secret": settings.password,
            "sasl.oauthbearer.token.endpoint.url": settings.oauth_token_url,
        }
        if settings.oauth_scope:
            config["sasl.oauthbearer.scope"] = settings.oauth_scope
    elif mechanism:
        config |= {
            "sasl.mechanism": mechanism,
            "sasl.username": settings.username,
            "sasl.password": settings.password,
        }
    if settings.ca_file and protocol.endswith("SSL"):
        config["ssl.ca.location"] = _ca_file(settings)
    return config | settings.own_client_options


def spark_security(settings: KafkaSettings) -> dict[str, str]:
    """The Java client's settings for Spark's `kafka` source, the user's own `kafka_spark_options` last.

    Names start with `kafka.`. The result holds secrets: the redaction in `tidemark.spark` keeps them out of Spark's
    plans and logs; do not log it otherwise. Raises SettingError like `client_security`.
    """
    protocol, mechanism = _checked(settings)
    options = {"security.protocol": protocol}
    if mechanism:
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = _login(settings, mechanism)
    if mechanism == "OAUTHBEARER":
        options["sasl.oauthbearer.token.endpoint.url"] = settings.oauth_token_url
        options["sasl.login.callback.handler.class"] = (
            f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
    if settings.ca_file and protocol.endswith("SSL"):
        options["ssl.truststore.type"] = "PEM"
        # The certificates, not the path, because executors on other machines do not have the file.
        options["ssl.truststore.certificates"] = Path(_ca_file(settings)).read_text("ascii")
    options |= settings.own_spark_options
    return {f"kafka.{name}": value for name, value in options.items()}


def _checked(settings: KafkaSettings) -> tuple[str, str]:
    """Protocol and SASL mechanism, the latter "" without SASL."""
    protocol = settings.security_protocol.strip().upper()
    mechanism = settings.sasl_mechanism.strip().upper()
    if protocol not in _PROTOCOLS:
        raise SettingError(
            f"kafka_security_protocol is {settings.security_protocol!r}",
            f"Use one of {', '.join(_PROTOCOLS)}.",
        )
    if not protocol.startswith("SASL"):
        return protocol, ""
    if mechanism not in _LOGIN_MODULES:
        raise SettingError(
            f"kafka_sasl_mechanism is {settings.sasl_mechanism!r} with {protocol}",
            f"Use one of {', '.join(_LOGIN_MODULES)}.",
        )
    if not settings.username or not settings.password:
        raise SettingError(f"{protocol} needs a user and password", "Set kafka_username and kafka_password.")
    if mechanism == "OAUTHBEARER" and not settings.oauth_token_url:
        raise SettingError(
            "OAUTHBEARER needs the address of the identity provider", "Set kafka_oauth_token_url."
        )
    return protocol, mechanism


def _login(settings: KafkaSettings, mechanism: str) -> str:
    """The login module and its options in JAAS syntax."""
    names = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
    options = dict(zip(names, (settings.username, settings.password), strict=True))
    if mechanism == "OAUTHBEARER" and settings.oauth_scope:
        options["scope"] = settings.oauth_scope
    return (
        f"{_LOGIN_MODULES[mechanism]} required {' '.join(f'{k}={_quoted(v)}' for k, v in options.items())};"
    )


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ca_file(settings: KafkaSettings) -> str:
    try:
        text = Path(settings.ca_file).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"kafka_ca_file cannot be read: {error}", "Name a PEM file.") from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise SettingError(f"kafka_ca_file {settings.ca_file} holds no certificate", "Name a PEM file.")
    return settings.ca_file

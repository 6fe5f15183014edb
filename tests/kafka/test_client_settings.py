"""Client settings for confluent-kafka and Spark, without a broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tidemark.errors import KafkaError, SettingError
from tidemark.kafka import client as kafka
from tidemark.settings import Settings

SECRET = 'planted"secret\\word'
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


@pytest.fixture
def secured(tmp_path: Path) -> Settings:
    authority = tmp_path / "ca.pem"
    authority.write_text(PEM)
    return Settings.of(
        bootstrap_servers="127.0.0.1:1",
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_username="log reader",
        kafka_password=SECRET,
        kafka_ca_file=str(authority),
    )


def test_plain_settings() -> None:
    settings = Settings.of(bootstrap_servers="kafka:9092")
    assert kafka.client_config(settings.kafka)["bootstrap.servers"] == "kafka:9092"
    options = kafka.spark_options(settings.kafka)
    assert options["kafka.bootstrap.servers"] == "kafka:9092"
    assert options["kafka.isolation.level"] == "read_committed"
    assert not [name for name in options if "sasl" in name or "ssl" in name]


def test_secured_settings(secured: Settings) -> None:
    config = kafka.client_config(secured.kafka)
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == "SCRAM-SHA-512"
    assert (config["sasl.username"], config["sasl.password"]) == ("log reader", SECRET)
    assert config["ssl.ca.location"] == secured.kafka.ca_file

    options = kafka.spark_options(secured.kafka)
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="log reader" password="planted\\"secret\\\\word";'
    )
    assert options["kafka.ssl.truststore.type"] == "PEM"
    assert options["kafka.ssl.truststore.certificates"] == PEM


def test_oauthbearer_passes_through_to_both_clients(secured: Settings) -> None:
    settings = secured.changed(
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_oauth_token_url="https://login.example.com/token",
        kafka_oauth_scope="kafka",
    )
    config = kafka.client_config(settings.kafka)
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.token.endpoint.url"] == "https://login.example.com/token"
    assert config["sasl.oauthbearer.client.id"] == "log reader"
    assert config["sasl.oauthbearer.client.secret"] == SECRET
    assert config["sasl.oauthbearer.scope"] == "kafka"
    assert "sasl.password" not in config

    options = kafka.spark_options(settings.kafka)
    assert options["kafka.sasl.mechanism"] == "OAUTHBEARER"
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://login.example.com/token"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="log reader" clientSecret="planted\\"secret\\\\word" scope="kafka";'
    )


def test_more_client_settings_come_last(secured: Settings) -> None:
    settings = secured.changed(
        kafka_client_options="fetch.min.bytes=1024 client.id='log reader 2'",
        kafka_spark_options="fetch.min.bytes=2048",
    )
    assert kafka.client_config(settings.kafka)["fetch.min.bytes"] == "1024"
    assert kafka.client_config(settings.kafka)["client.id"] == "log reader 2"
    assert kafka.spark_options(settings.kafka)["kafka.fetch.min.bytes"] == "2048"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"kafka_sasl_mechanism": "OAUTHBEARER"}, "kafka_oauth_token_url"),
        ({"kafka_client_options": f"x=1 {SECRET}"}, "kafka_client_options"),
        ({"kafka_client_options": "x='planted"}, "kafka_client_options"),
        ({"kafka_security_protocol": "TLS"}, "kafka_security_protocol"),
        ({"kafka_sasl_mechanism": "GSSAPI"}, "kafka_sasl_mechanism"),
        ({"kafka_password": ""}, "kafka_password"),
        ({"kafka_ca_file": "/nowhere/ca.pem"}, "kafka_ca_file"),
        ({"kafka_ca_file": "/dev/null"}, "kafka_ca_file"),
    ],
)
def test_settings_that_cannot_work(secured: Settings, change: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError, match=named) as raised:
        kafka.client_config(secured.changed(**change).kafka)
    assert "planted" not in str(raised.value)


def test_the_password_shows_in_no_error_and_no_log(
    secured: Settings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = secured.changed(kafka_security_protocol="SASL_PLAINTEXT")
    logging.getLogger("tidemark.kafka.client").setLevel(logging.DEBUG)
    logging.getLogger("tidemark.kafka.client").addHandler(caplog.handler)
    with pytest.raises(KafkaError) as raised:
        kafka.require_reachable(settings.kafka, timeout=1)
    logging.getLogger("tidemark.kafka.client").removeHandler(caplog.handler)
    everything = (
        repr(settings) + str(raised.value) + repr(raised.value) + caplog.text + "".join(capfd.readouterr())
    )
    assert "planted" not in everything
    assert "127.0.0.1:1" in everything

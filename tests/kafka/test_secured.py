"""TLS and SASL, spoken with a real broker by both clients: librdkafka and the Java client within Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.kafka.certificates import self_signed
from tests.kafka.secured import PASSWORD, IdentityProvider, identity_provider, secured_broker
from tidemark.errors import KafkaError
from tidemark.kafka import client as kafka
from tidemark.local.directories import prepare_home
from tidemark.settings import Settings
from tidemark.stream.failures import explain


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider("pipeline", "client-planted") as running:
        yield running


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider) -> Iterator[Settings]:
    with secured_broker(tmp_path_factory.mktemp("secured"), provider) as settings:
        yield settings


def there_and_back(settings: Settings, spark: SparkSession) -> list[bytes]:
    """Creates a topic, writes to it with one client and reads it with the other."""
    topic = f"secured-{uuid.uuid4().hex[:8]}"
    kafka.require_reachable(settings.kafka)
    kafka.ensure_topic(settings.kafka, topic, partitions=1)
    producer = Producer(kafka.client_config(settings.kafka))
    producer.produce(topic, b"a line")
    assert producer.flush(20) == 0
    assert kafka.end_offsets(settings.kafka, topic) == {0: 1}
    records = (
        spark.read.format("kafka").options(**kafka.spark_options(settings.kafka)).option("subscribe", topic)
    )
    return [bytes(row.value) for row in records.load().select("value").collect()]


def test_scram_over_tls(secured: Settings, spark: SparkSession) -> None:
    assert there_and_back(secured, spark) == [b"a line"]


def test_plain_over_tls(secured: Settings, spark: SparkSession) -> None:
    settings = secured.changed(
        kafka_sasl_mechanism="PLAIN", kafka_username="plain", kafka_password="plain-planted"
    )
    assert there_and_back(settings, spark) == [b"a line"]


def test_oauthbearer_over_tls(secured: Settings, provider: IdentityProvider, spark: SparkSession) -> None:
    settings = secured.changed(
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_username="pipeline",
        kafka_password="client-planted",
        kafka_oauth_token_url=provider.tokens,
        kafka_oauth_scope="kafka",
    )
    # What `session.spark_session` gives a JVM of its own.
    jvm = spark._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", provider.tokens)
    assert there_and_back(settings, spark) == [b"a line"]

    wrong = settings.changed(kafka_password="planted-wrong")
    with pytest.raises(KafkaError, match="refuses the credentials of user pipeline") as raised:
        kafka.require_reachable(wrong.kafka, timeout=8)
    assert "planted" not in str(raised.value)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kafka_password": "planted-wrong"}, "refuses the credentials of user log reader"),
        ({"kafka_username": "nobody"}, "refuses the credentials of user nobody"),
        ({"kafka_sasl_mechanism": "SCRAM-SHA-256"}, "refuses the credentials of user log reader"),
        ({"kafka_security_protocol": "SASL_PLAINTEXT"}, "kafka_security_protocol"),
        ({"kafka_security_protocol": "PLAINTEXT"}, "kafka_security_protocol"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(
    secured: Settings, change: dict[str, str], message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as raised:
        kafka.require_reachable(secured.changed(**change).kafka, timeout=8)
    assert "\n" not in str(raised.value) and "planted" not in str(raised.value)


def test_another_authority_is_not_trusted(
    secured: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = self_signed(tmp_path_factory.mktemp("other"), "other").authority
    with pytest.raises(KafkaError, match=r"verify failed.*kafka_ca_file") as raised:
        kafka.require_reachable(secured.changed(kafka_ca_file=str(other)).kafka, timeout=8)
    assert "\n" not in str(raised.value)


def test_a_password_that_stops_being_right_ends_the_flow_with_one_clear_error(
    secured: Settings, spark: SparkSession
) -> None:
    topic = f"secured-{uuid.uuid4().hex[:8]}"
    kafka.ensure_topic(secured.kafka, topic, partitions=1)
    wrong = secured.changed(kafka_password="planted-wrong")
    prepare_home(wrong)
    records = (
        spark.read.format("kafka").options(**kafka.spark_options(wrong.kafka)).option("subscribe", topic)
    )
    with pytest.raises(Exception, match=r"SaslAuthenticationException|Authentication failed") as raised:
        records.load().collect()
    error = explain("requests", raised.value, wrong)
    assert "refuse" in str(error) and "KAFKA_PASSWORD" in str(error).upper()
    written = "".join(path.read_text() for path in wrong.logs.glob("*-failure.log"))
    assert written and "planted" not in written + str(error)


def test_spark_shows_no_secret_in_its_plans(secured: Settings, spark: SparkSession) -> None:
    topic = f"secured-{uuid.uuid4().hex[:8]}"
    kafka.ensure_topic(secured.kafka, topic, partitions=1)
    batch = (
        spark.read.format("kafka").options(**kafka.spark_options(secured.kafka)).option("subscribe", topic)
    )
    stream = (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options(secured.kafka))
        .option("subscribe", topic)
    )
    for frame in (batch.load(), stream.load()):
        plans = frame._jdf.queryExecution()
        text = plans.toString() + plans.logical().toString() + plans.analyzed().treeString()
        assert "kafka" in text.lower()
        assert "planted" not in text and PASSWORD not in text

"""The sections of the settings. Each field is declared with its default, meaning and bounds."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemark.access.declared import LOGINS
from tidemark.errors import SettingError
from tidemark.figures.declared import Goal
from tidemark.settings.addresses import is_loopback

HIGHEST_PORT = 65_535


def options_of(setting: str, text: str) -> dict[str, str]:
    """The options in a setting of several `name=value`, separated by spaces and quoted as in a shell.

    Raises SettingError without the values, because there may be secrets among them.
    """
    try:
        pairs = [part.partition("=") for part in shlex.split(text)]
    except ValueError as error:
        raise SettingError(f"{setting} cannot be read: {error}", "Close the quotes.") from error
    for name, equals, _ in pairs:
        if not name or not equals:
            raise SettingError(
                f"{setting} has a part that is not name=value", "Quote values that have spaces."
            )
    return {name: value for name, _, value in pairs}


def setting(
    default: Any,
    help: str,
    *,
    name: str = "",
    secret: bool = False,
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field of a section. `name` is the name that users write, if it differs from the field's."""
    metadata = {
        "name": name,
        "help": help,
        "secret": secret,
        "least": least,
        "most": most,
        "choices": choices,
    }
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True)
class KafkaSettings:
    """The Kafka that has the log lines, and its clients."""

    bootstrap_servers: str = setting(
        "", "Kafka brokers, host:port[,host:port]. Empty: the embedded broker on `broker_port`."
    )
    topic: str = setting("access-log", "Topic of the raw log lines.")
    partitions: int = setting(
        2, "Partitions of the topic when Tidemark creates it.", name="topic_partitions", least=1
    )
    replication: int = setting(
        0,
        "Replication factor of the topic when Tidemark creates it; 0: the cluster's default.",
        name="topic_replication",
        least=0,
    )
    security_protocol: str = setting(
        "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", name="kafka_security_protocol"
    )
    sasl_mechanism: str = setting(
        "", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.", name="kafka_sasl_mechanism"
    )
    username: str = setting("", "SASL user name; with OAUTHBEARER the client's id.", name="kafka_username")
    password: str = setting(
        "", "SASL password; with OAUTHBEARER the client's secret.", name="kafka_password", secret=True
    )
    ca_file: str = setting(
        "", "PEM file of the authority that signed the broker's certificate.", name="kafka_ca_file"
    )
    oauth_token_url: str = setting(
        "", "OAUTHBEARER: token URL of the identity provider.", name="kafka_oauth_token_url"
    )
    oauth_scope: str = setting("", "OAUTHBEARER: scope of the token request.", name="kafka_oauth_scope")
    client_options: str = setting(
        "",
        "More settings of the Kafka client (librdkafka), name=value, separated by spaces.",
        name="kafka_client_options",
        secret=True,
    )
    spark_options: str = setting(
        "",
        "More settings of the Kafka client within Spark (Java), name=value, separated by spaces.",
        name="kafka_spark_options",
        secret=True,
    )
    allow_data_loss: bool = setting(False, "Continue if Kafka has already deleted unread lines.")
    # No setting: `tidemark.local.broker.located` has replaced an empty address by the embedded broker's.
    located: bool = False

    @property
    def own_client_options(self) -> dict[str, str]:
        """`client_options` by name. Raises SettingError if they cannot be read."""
        return options_of("kafka_client_options", self.client_options)

    @property
    def own_spark_options(self) -> dict[str, str]:
        """`spark_options` by name. Raises SettingError if they cannot be read."""
        return options_of("kafka_spark_options", self.spark_options)

    @property
    def uses_embedded_broker(self) -> bool:
        return self.located or not self.bootstrap_servers


@dataclass(frozen=True)
class BrokerSettings:
    """The embedded broker."""

    port: int = setting(
        19092,
        "Port of the embedded broker on 127.0.0.1; 0 picks a free one.",
        name="broker_port",
        least=0,
        most=HIGHEST_PORT,
    )
    nodes: int = setting(
        1, "Nodes of the embedded broker; three survive the loss of one.", name="broker_nodes", least=1
    )
    properties: str = setting(
        "",
        "File with further lines for the embedded broker's server.properties; they take precedence.",
        name="broker_properties",
    )
    java_options: str = setting(
        "", "More options for the embedded broker's JVMs, such as -Xmx2g.", name="broker_java_options"
    )


@dataclass(frozen=True)
class DashboardSettings:
    """The dashboard's server."""

    port: int = setting(
        8501, "Port of the dashboard; 0 picks a free one.", name="dashboard_port", least=0, most=HIGHEST_PORT
    )
    address: str = setting("127.0.0.1", "Address the dashboard listens on.", name="dashboard_address")
    hosts: str = setting(
        "",
        "Host names by which people open the dashboard, separated by spaces, such as that of a proxy in front of it.",
        name="dashboard_hosts",
    )
    url: str = setting(
        "",
        "Address by which people open the dashboard, such as https://stats.shop.example, for links in reports.",
        name="dashboard_url",
    )
    login: str = setting(
        "",
        "How people log in: none, password, oidc or header. Empty: as `login` of the table `[access]` says, else none.",
        name="access_login",
        choices=("", *LOGINS),
    )
    apdex_seconds: float = setting(
        0.5,
        "T of the Apdex: requests of at most this long satisfy, those of up to four times it are tolerated.",
        least=0.001,
    )
    edits: str = setting(
        "auto",
        "Whether the dashboard's form may change `tidemark.toml`. auto: if only this machine reaches the dashboard.",
        name="dashboard_edits",
        choices=("auto", "yes", "no"),
    )

    @property
    def may_edit(self) -> bool:
        """Whether the form may change the settings."""
        return self.edits == "yes" or (self.edits == "auto" and is_loopback(self.address))


@dataclass(frozen=True)
class JavaSettings:
    """The JVM libraries of Spark and of the embedded broker."""

    cache: str = setting(
        "", "Directory of the JVM libraries. Empty: the user's cache directory.", name="jvm_cache"
    )
    ivy_settings: str = setting("", "Ivy settings file, for a Maven mirror. Empty: Maven Central.")


@dataclass(frozen=True)
class SparkSettings:
    """The Spark driver and the cluster's executors."""

    master: str = setting("", "Spark master. Empty: local, one thread per core.")
    driver_memory: str = setting(
        "",
        "Heap of the Spark driver, such as 2g. Empty: a third of the machine's or container's memory, at most 2g.",
    )
    driver_java_options: str = setting("", "More options for the driver's JVM, such as -XX:MaxRAM=3g.")
    options: str = setting(
        "",
        "More settings of Spark, name=value, separated by spaces; they take precedence.",
        name="spark_options",
        secret=True,
    )
    executor_python: str = setting("", "Python of a cluster's executors. Empty: the driver's path.")
    shuffle_partitions: int = setting(
        0, "Shuffle partitions; 0: one per core, at most 4, and 8 on a cluster.", least=0
    )

    @property
    def own_options(self) -> dict[str, str]:
        """`options` by name. Raises SettingError if they cannot be read."""
        return options_of("spark_options", self.options)

    @property
    def is_local(self) -> bool:
        """Whether Spark runs locally, without a cluster."""
        return not self.master or self.master.startswith("local")


@dataclass(frozen=True)
class BatchesSettings:
    """Size and interval of the micro-batches."""

    lines: int = setting(
        0, "Maximum lines of a micro-batch; 0: by freshness_goal_seconds.", name="batch_lines", least=0
    )
    freshness_goal_seconds: float = setting(
        10.0, "While lines wait, batches are sized to take about this long.", least=0.1
    )
    local_rows: int = setting(
        50_000,
        "Batches of up to this many lines, or three times as many requests, run in the driver; larger in executors.",
        least=0,
    )
    derive_interval_seconds: float = setting(
        10.0,
        "Interval at which sessions, pages, all other tables made of requests, and dead letters follow the lines.",
        least=0,
    )


@dataclass(frozen=True)
class LakehouseSettings:
    """Where the tables are, and what writes them."""

    store: str = setting(
        "auto",
        "Writer of the tables: deltars, spark, or auto: Spark unless they are in directories or on S3.",
        choices=("auto", "deltars", "spark"),
    )
    catalog: str = setting("", "Unity Catalog of the tables. Empty: directories of the home.")
    schema: str = setting("tidemark", "Schema of the tables in the catalog.")
    tables_location: str = setting(
        "", "URL of the tables' directory, such as s3a://bucket/tidemark. Empty: in the home."
    )
    iceberg: bool = setting(
        False, "New gold tables of a catalog have Iceberg metadata, too (UniForm, which Databricks has)."
    )
    checkpoint_location: str = setting(
        "", "Directory of the checkpoints, such as one in a volume. Empty: in the home."
    )


@dataclass(frozen=True)
class MeaningSettings:
    """The definitions that decide what the rows contain."""

    session_gap_seconds: int = setting(1800, "A session ends after this long without a pageview.", least=1)
    late_seconds: int = setting(300, "A line this far behind its site's newest counts as late.", least=1)
    duplicate_days: int = setting(7, "How many days an `id` header is remembered.", least=1)
    geo_database: str = setting("", "MMDB file for countries. Empty: the home's, else the built-in data.")
    asn_database: str = setting(
        "", "MMDB file for the columns `asn` and `as_org`. Empty: the home's; without one they are NULL."
    )
    city_database: str = setting(
        "", "MMDB file for the columns `city` and `region`. Empty: the home's; without one they are NULL."
    )
    visitor_key: str = setting(
        "", "Key of the visitor hash. Empty: a random one is created in the home.", secret=True
    )
    formats_location: str = setting(
        "", "Directory of files with own log formats, such as one in a volume. Empty: `formats` in the home."
    )
    # The tables `[goals.NAME]`.
    goals: Mapping[str, Goal] = field(default_factory=dict)


@dataclass(frozen=True)
class UpkeepSettings:
    """Quality runs, compaction and retention."""

    quality_interval_seconds: float = setting(60.0, "Interval of the expectations; 0: never.", least=0)
    freshness_limit_seconds: float = setting(
        900.0, "A table without new rows for this long gets a quality warning; 0: never.", least=0
    )
    maintain_interval_seconds: float = setting(
        120.0,
        "Interval at which tables are compacted and expired rows deleted; 0: no upkeep beside the flows.",
        least=0,
    )
    vacuum_interval_seconds: float = setting(
        0.0, "Interval at which old versions of tables are deleted; 0: with the compaction.", least=0
    )
    version_retention_seconds: float = setting(
        600.0, "How long an old version of a table stays readable.", least=60
    )
    retention_days: str = setting(
        "quality.progress=7,quality.results=30",
        "Days that rows are kept, as table=days[,table=days]; quality.access keeps 400 days, other tables all rows.",
    )


@dataclass(frozen=True)
class IngestSettings:
    """`tidemark ingest`, the HTTP endpoint for lines."""

    port: int = setting(
        19080,
        "Port of `tidemark ingest`; 0 picks a free one.",
        name="ingest_port",
        least=0,
        most=HIGHEST_PORT,
    )
    address: str = setting(
        "127.0.0.1",
        "Address that `tidemark ingest` listens on; one that is not loopback needs a token.",
        name="ingest_address",
    )
    token: str = setting(
        "",
        "Token that requests to `tidemark ingest` must have. Empty: none is needed.",
        name="ingest_token",
        secret=True,
    )
    token_file: str = setting("", "File with that token.", name="ingest_token_file")
    body_bytes: int = setting(
        10 * 1024 * 1024,
        "Maximum size of a request to `tidemark ingest`, decompressed.",
        name="ingest_body_bytes",
        least=1,
    )
    buffer_bytes: int = setting(
        128 * 1024 * 1024,
        "Memory for lines that `tidemark ingest` has read and Kafka has not acknowledged; above it, requests get 429.",
        name="ingest_buffer_bytes",
        least=1,
    )
    timeout_seconds: float = setting(
        15.0,
        "Time that Kafka has for the lines of a request; then the request gets 503.",
        name="ingest_timeout_seconds",
        least=1,
    )


@dataclass(frozen=True)
class WatchingSettings:
    """Metrics, health and logs."""

    metrics_port: int = setting(
        -1,
        "Port of /metrics and /health; 0 picks a free one, -1: neither is served.",
        least=-1,
        most=HIGHEST_PORT,
    )
    metrics_address: str = setting("127.0.0.1", "Address that /metrics and /health listen on.")
    alert_to: str = setting(
        "",
        "Notification URLs of alerts that have no `to` of their own, separated by spaces.",
        secret=True,
    )
    stale_seconds: float = setting(
        120.0, "/health fails when a flow with rows waiting has committed nothing for this long.", least=1
    )
    log_format: str = setting("text", "text, or json: one object per line.", choices=("text", "json"))
    log_level: str = setting(
        "info",
        "Lowest level that is logged; debug logs every batch.",
        choices=("debug", "info", "warning", "error"),
    )

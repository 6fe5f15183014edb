"""All settings, their sources and their meaning.

The sources, in order of precedence: command line, environment (`TIDEMARK_<NAME>`),
`<home>/tidemark.toml`, default. `docs/settings.md` is generated from the `help` texts.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from tidemark.errors import SettingError

DEFAULT_HOME = Path(".tidemark")
ENVIRONMENT_PREFIX = "TIDEMARK_"


def _setting(
    default: Any,
    help: str,
    *,
    secret: bool = False,
    least: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    metadata = {"help": help, "secret": secret, "least": least, "choices": choices}
    return field(default=default, repr=not secret, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """Resolved settings of one home. Create them with `load`; only tests use the constructor."""

    home: Path = _setting(DEFAULT_HOME, "Directory of all state of this installation.")

    shared_home: bool = _setting(
        False, "Leave the home's permissions unchanged. Otherwise only its owner can enter it."
    )

    # Kafka
    bootstrap_servers: str = _setting(
        "", "Kafka brokers, host:port[,host:port]. Empty: the embedded broker on `broker_port`."
    )
    topic: str = _setting("access-log", "Topic of the raw log lines.")
    topic_partitions: int = _setting(2, "Partitions of the topic when Tidemark creates it.", least=1)
    topic_replication: int = _setting(
        0, "Replication factor of the topic when Tidemark creates it; 0: the cluster's default.", least=0
    )
    kafka_security_protocol: str = _setting("PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.")
    kafka_sasl_mechanism: str = _setting("", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.")
    kafka_username: str = _setting("", "SASL user name; with OAUTHBEARER the client's id.")
    kafka_password: str = _setting("", "SASL password; with OAUTHBEARER the client's secret.", secret=True)
    kafka_ca_file: str = _setting("", "PEM file of the authority that signed the broker's certificate.")
    kafka_oauth_token_url: str = _setting("", "OAUTHBEARER: token URL of the identity provider.")
    kafka_oauth_scope: str = _setting("", "OAUTHBEARER: scope of the token request.")
    kafka_client_options: str = _setting(
        "", "More settings of the Kafka client (librdkafka), name=value, separated by spaces.", secret=True
    )
    kafka_spark_options: str = _setting(
        "",
        "More settings of the Kafka client within Spark (Java), name=value, separated by spaces.",
        secret=True,
    )
    allow_data_loss: bool = _setting(False, "Continue if Kafka has already deleted unread lines.")

    # Local platform
    broker_port: int = _setting(
        19092, "Port of the embedded broker on 127.0.0.1; 0 picks a free one.", least=0
    )
    broker_nodes: int = _setting(1, "Nodes of the embedded broker; three survive the loss of one.", least=1)
    broker_properties: str = _setting(
        "", "File with further lines for the embedded broker's server.properties; they take precedence."
    )
    broker_java_options: str = _setting("", "More options for the embedded broker's JVMs, such as -Xmx2g.")
    dashboard_port: int = _setting(8501, "Port of the dashboard; 0 picks a free one.", least=0)
    dashboard_address: str = _setting("127.0.0.1", "Address the dashboard listens on.")
    jvm_cache: str = _setting("", "Directory of the JVM libraries. Empty: the user's cache directory.")
    ivy_settings: str = _setting("", "Ivy settings file, for a Maven mirror. Empty: Maven Central.")

    # Spark
    master: str = _setting("", "Spark master. Empty: local, one thread per core.")
    driver_memory: str = _setting(
        "",
        "Heap of the Spark driver, such as 2g. Empty: a third of the machine's or container's memory, at most 2g.",
    )
    driver_java_options: str = _setting("", "More options for the driver's JVM, such as -XX:MaxRAM=3g.")
    spark_options: str = _setting(
        "", "More settings of Spark, name=value, separated by spaces; they take precedence.", secret=True
    )
    executor_python: str = _setting("", "Python of a cluster's executors. Empty: the driver's path.")
    shuffle_partitions: int = _setting(
        0, "Shuffle partitions; 0: one per core, at most 4, and 8 on a cluster.", least=0
    )
    batch_lines: int = _setting(0, "Maximum lines of a micro-batch; 0: by freshness_goal_seconds.", least=0)
    freshness_goal_seconds: float = _setting(
        10.0, "While lines wait, batches are sized to take about this long.", least=0.1
    )
    derive_interval_seconds: float = _setting(
        2.0, "Interval at which sessions, traffic and pages follow silver.requests.", least=0
    )

    # Lakehouse
    store: str = _setting(
        "auto",
        "Writer of the tables: deltars, spark, or auto: Spark unless they are in directories or on S3.",
        choices=("auto", "deltars", "spark"),
    )
    catalog: str = _setting("", "Unity Catalog of the tables. Empty: directories of the home.")
    schema: str = _setting("tidemark", "Schema of the tables in the catalog.")
    tables_location: str = _setting(
        "", "URL of the tables' directory, such as s3a://bucket/tidemark. Empty: in the home."
    )
    checkpoint_location: str = _setting(
        "", "Directory of the checkpoints, such as one in a volume. Empty: in the home."
    )

    # Meaning
    session_gap_seconds: int = _setting(1800, "A session ends after this long without a pageview.", least=1)
    late_seconds: int = _setting(300, "A line this far behind its site's newest counts as late.", least=1)
    duplicate_days: int = _setting(7, "How many days an `id` header is remembered.", least=1)
    geo_database: str = _setting("", "MMDB file for countries. Empty: the built-in data.")
    visitor_key: str = _setting(
        "", "Key of the visitor hash. Empty: a random one is created in the home.", secret=True
    )

    # Quality and upkeep
    quality_interval_seconds: float = _setting(60.0, "Interval of the expectations; 0: never.", least=0)
    freshness_limit_seconds: float = _setting(
        900.0, "A table without new rows for this long gets a quality warning; 0: never.", least=0
    )
    maintain_interval_seconds: float = _setting(
        120.0,
        "Interval at which tables are compacted and expired rows deleted; 0: no upkeep beside the flows.",
        least=0,
    )
    vacuum_interval_seconds: float = _setting(
        0.0, "Interval at which old versions of tables are deleted; 0: with the compaction.", least=0
    )
    version_retention_seconds: float = _setting(
        600.0, "How long an old version of a table stays readable.", least=60
    )
    retention_days: str = _setting(
        "quality.progress=7",
        "Days that rows are kept, as table=days[,table=days]; other tables keep all rows.",
    )

    # Watching
    metrics_port: int = _setting(
        -1, "Port of /metrics and /health; 0 picks a free one, -1: neither is served.", least=-1
    )
    metrics_address: str = _setting("127.0.0.1", "Address that /metrics and /health listen on.")
    stale_seconds: float = _setting(
        120.0, "/health fails when a flow with rows waiting has committed nothing for this long.", least=1
    )
    log_format: str = _setting("text", "text, or json: one object per line.", choices=("text", "json"))
    log_level: str = _setting(
        "info",
        "Lowest level that is logged; debug logs every batch.",
        choices=("debug", "info", "warning", "error"),
    )

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def checkpoints(self) -> Path:
        return Path(self.checkpoint_location) if self.checkpoint_location else self.home / "checkpoints"

    @property
    def run_directory(self) -> Path:
        """Process ids, ports in use, live progress: meaningless when all processes have stopped."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def uses_embedded_broker(self) -> bool:
        return not self.bootstrap_servers

    @property
    def is_local(self) -> bool:
        """Whether Spark runs locally, without a cluster."""
        return not self.master or self.master.startswith("local")

    def environment(self) -> dict[str, str]:
        """Environment variables that give another process these settings; only those that differ from the defaults."""
        changed = {n: getattr(self, n) for n, field in _FIELDS.items() if getattr(self, n) != field.default}
        return {f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value) for name, value in changed.items()}

    def public(self) -> dict[str, Any]:
        """Every setting by name with secrets masked, for logs and the Pipeline page."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        secret = {f.name for f in dataclasses.fields(self) if f.metadata["secret"]}
        return {k: "***" if k in secret and v else v for k, v in values.items()}


def load(
    overrides: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Resolves the settings; `overrides` are command-line values, where `None` means not given.

    Raises SettingError for an unknown name or an unusable value, and names its source.
    """
    environment = os.environ if environment is None else environment
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    home = Path(given.get("home") or environment.get("TIDEMARK_HOME") or DEFAULT_HOME)
    home = home.expanduser().absolute()

    values: dict[str, Any] = {}
    for name, raw in _from_file(home / "tidemark.toml").items():
        values[name] = _parse(name, raw, f"{home / 'tidemark.toml'}")
    for name in _FIELDS:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environment.get(variable):
            values[name] = _parse(name, environment[variable], variable)
    for name, raw in given.items():
        values[name] = _parse(name, raw, f"--{name.replace('_', '-')}")
    values["home"] = home
    return Settings(**values)


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


_FIELDS = {f.name: f for f in dataclasses.fields(Settings)}
_TYPES = get_type_hints(Settings)
_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(f"cannot read {path}: {error}", "Correct or remove the file.") from error


def _parse(name: str, raw: Any, source: str) -> Any:
    if name not in _FIELDS:
        raise SettingError(f"unknown setting {name!r} in {source}", "docs/settings.md lists the settings.")
    wanted = _TYPES[name]
    shown = "***" if _FIELDS[name].metadata["secret"] else repr(raw)
    try:
        if wanted is bool:
            value: Any = raw if isinstance(raw, bool) else _BOOLEANS[str(raw).strip().lower()]
        elif isinstance(raw, (bool, list, dict)) or (wanted is int and isinstance(raw, float)):
            raise ValueError(raw)
        else:
            value = wanted(raw)
            if wanted is float and not math.isfinite(value):
                raise ValueError(raw)
    except (KeyError, TypeError, ValueError) as error:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(wanted, "text")
        raise SettingError(f"{source}: {name} must be {kind}, not {shown}", "Correct it.") from error
    choices = _FIELDS[name].metadata["choices"]
    if choices and value not in choices:
        raise SettingError(f"{source}: {name} must be {' or '.join(choices)}, not {raw!r}", "Correct it.")
    least = _FIELDS[name].metadata["least"]
    if least is not None and value < least:
        raise SettingError(f"{source}: {name} must be at least {least:g}, not {raw!r}", "Correct it.")
    return value

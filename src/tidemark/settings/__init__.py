"""All settings, their sources and their flat names.

The sources, in order of precedence: command line, environment (`TIDEMARK_<NAME>`), `<home>/tidemark.toml`,
default. Users write flat names (`kafka_username`); in the code a setting is in its section
(`settings.kafka.username`). `docs/settings.md` is generated from the declarations in `sections`.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from tidemark.access.declared import access_of
from tidemark.errors import SettingError
from tidemark.figures.alert_rules import Rule, rules_of
from tidemark.figures.declared import expanded, funnels_of, goals_of, require_usable, segments_of
from tidemark.figures.toml_tables import MOST_SECONDS, parsed, toml_of
from tidemark.settings.formats import FormatSettings, format_files, formats_of
from tidemark.settings.mails import Mailing, mailings_of
from tidemark.settings.privacy import Privacy, privacy_of, without_privacy
from tidemark.settings.retention import RetentionSettings, retention_of
from tidemark.settings.sections import (
    BatchesSettings,
    BrokerSettings,
    DashboardSettings,
    IngestSettings,
    JavaSettings,
    KafkaSettings,
    LakehouseSettings,
    MeaningSettings,
    SparkSettings,
    UpkeepSettings,
    WatchingSettings,
    setting,
)
from tidemark.settings.sites import SiteSettings, sites_of

DEFAULT_HOME = Path(".tidemark")
ENVIRONMENT_PREFIX = "TIDEMARK_"


@dataclass(frozen=True)
class Settings:
    """Resolved settings of one home. `load` reads them from their sources."""

    home: Path = setting(DEFAULT_HOME, "Directory of all state of this installation.")
    shared_home: bool = setting(
        False, "Leave the home's permissions unchanged. Otherwise only its owner can enter it."
    )
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    java: JavaSettings = field(default_factory=JavaSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    batches: BatchesSettings = field(default_factory=BatchesSettings)
    lakehouse: LakehouseSettings = field(default_factory=LakehouseSettings)
    meaning: MeaningSettings = field(default_factory=MeaningSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    upkeep: UpkeepSettings = field(default_factory=UpkeepSettings)
    watching: WatchingSettings = field(default_factory=WatchingSettings)
    # Only in files: by site, by the format's name, by the rule's, and by the report's.
    sites: Mapping[str, SiteSettings] = field(default_factory=dict)
    formats: Mapping[str, FormatSettings] = field(default_factory=dict)
    alerts: Mapping[str, Rule] = field(default_factory=dict)
    reports: Mapping[str, Mailing] = field(default_factory=dict)
    privacy: Privacy = field(default_factory=Privacy)
    retention: RetentionSettings = field(default_factory=RetentionSettings)

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """The defaults with these values, by flat name: `Settings.of(home=directory, broker_port=0)`."""
        return cls().changed(**values)

    def changed(self, **values: Any) -> Settings:
        """A copy with these values, by flat name. They are not validated; `load` validates."""
        sections: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in values.items():
            if name not in DECLARED:
                raise TypeError(f"unknown setting {name!r}")
            sections[DECLARED[name].section][DECLARED[name].attribute] = value
        own = sections.pop("", {})
        changed = {name: dataclasses.replace(getattr(self, name), **new) for name, new in sections.items()}
        return dataclasses.replace(self, **own, **changed)

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def checkpoints(self) -> Path:
        location = self.lakehouse.checkpoint_location
        return Path(location) if location else self.home / "checkpoints"

    @property
    def formats_directory(self) -> Path:
        """The directory of the files with own formats."""
        location = self.meaning.formats_location
        return Path(location) if location else self.home / "formats"

    @property
    def data(self) -> Path:
        """The directory of data about addresses that is newer than the installation's."""
        return self.home / "data"

    @property
    def run_directory(self) -> Path:
        """Process ids, ports in use, live progress: meaningless when all processes have stopped."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    def environment(self) -> dict[str, str]:
        """Environment variables that give another process these settings; only those that differ from the defaults."""
        values = {name: each.value(self) for name, each in DECLARED.items()}
        return {
            f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value)
            for name, value in values.items()
            if value != DECLARED[name].default
        }

    def public(self) -> dict[str, Any]:
        """Every setting by flat name with secrets masked, for logs and the Pipeline page."""
        values = {name: each.value(self) for name, each in DECLARED.items()}
        return {name: "***" if DECLARED[name].secret and value else value for name, value in values.items()}


@dataclass(frozen=True)
class Declared:
    """One setting. `section` is "" for a field of `Settings` itself."""

    section: str
    attribute: str
    type: type
    default: Any
    help: str
    secret: bool
    least: float | None
    most: float | None
    choices: tuple[str, ...]

    def value(self, settings: Settings) -> Any:
        return getattr(getattr(settings, self.section) if self.section else settings, self.attribute)


def _declared(of: type, section: str = "") -> Iterator[tuple[str, Declared]]:
    types = get_type_hints(of)
    for each in dataclasses.fields(of):
        if each.metadata:
            about = dict(each.metadata)
            name = about.pop("name") or each.name
            yield name, Declared(section, each.name, types[each.name], each.default, **about)
        elif dataclasses.is_dataclass(types[each.name]) and each.name not in ("privacy", "retention"):
            yield from _declared(types[each.name], each.name)


DECLARED: Mapping[str, Declared] = dict(_declared(Settings))  # by flat name


def load(
    overrides: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Resolves the settings; `overrides` are command-line values, where `None` means not given.

    Raises SettingError for an unknown name or an unusable value, and names its source.
    """
    environment = os.environ if environment is None else environment
    given = {k: v for k, v in (overrides or {}).items() if v is not None}
    home = expanded(given.get("home") or environment.get("TIDEMARK_HOME") or DEFAULT_HOME)

    values, tables = _read(toml_of(home / "tidemark.toml"), f"{home / 'tidemark.toml'}")
    for name in DECLARED:
        variable = ENVIRONMENT_PREFIX + name.upper()
        if environment.get(variable):
            values[name] = _parse(name, environment[variable], variable)
    for name, raw in given.items():
        values[name] = _parse(name, raw, f"--{name.replace('_', '-')}")
    values["home"] = home
    settings = Settings.of(**values)
    return _with_tables(settings, tables)


def with_tables_of_now(settings: Settings) -> Settings:
    """The settings with the tables that their file has now, and the formats of the directory. Raises SettingError."""
    path = settings.home / "tidemark.toml"
    return _with_tables(settings, _read(toml_of(path), str(path))[1])


def trouble(text: str, source: str) -> str:
    """Why a settings file of this text could not be loaded, and what to do; empty if it could."""
    try:
        file = parsed(text, source)
        _read(dict(file), source)
        require_usable(file, source)
    except SettingError as error:
        return str(error)
    return ""


def _with_tables(settings: Settings, tables: dict[str, Any]) -> Settings:
    formats, files = tables["formats"], format_files(settings.formats_directory)
    if twice := sorted(files.keys() & formats.keys()):
        raise SettingError(
            f"{files[twice[0]].source}: the format {twice[0]} is in the settings file, too", "Remove one."
        )
    meaning = dataclasses.replace(settings.meaning, goals=tables.pop("goals"))
    return dataclasses.replace(settings, meaning=meaning, **tables | {"formats": {**formats, **files}})


def _read(file: dict[str, Any], source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flat settings of a file, and its tables by the fields of `Settings`; goals, too. Raises SettingError."""
    if "home" in file:  # home says where the file is
        raise SettingError(f"home in {source} has no effect", "Remove it, and use --home or TIDEMARK_HOME.")
    sites, private = without_privacy(file.pop("sites", {}))
    goals = goals_of(file.pop("goals", {}), source)
    tables: dict[str, Any] = {
        "retention": retention_of(file.pop("retention", {}), source),
        "privacy": privacy_of(file.pop("privacy", {}), private, source),
        "sites": sites_of(sites, source),
        "formats": formats_of(file.pop("formats", {}), source),
        "goals": goals,
        "alerts": rules_of(file.pop("alerts", {}), source, goals),
        "reports": mailings_of(file.pop("reports", {}), source),
    }
    # Those who read the tables use these; here only their form is checked.
    access_of(file.pop("access", {}), source)
    funnels_of(file.pop("funnels", {}), source)
    segments_of(file.pop("segments", {}), source)
    return {name: _parse(name, raw, source) for name, raw in file.items()}, tables


_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _parse(name: str, raw: Any, source: str) -> Any:
    if name not in DECLARED:
        raise SettingError(f"unknown setting {name!r} in {source}", "docs/settings.md lists the settings.")
    declared = DECLARED[name]
    wanted: Any = declared.type
    shown = "***" if declared.secret else repr(raw)
    try:
        if wanted is bool:
            value: Any = raw if isinstance(raw, bool) else _BOOLEANS[str(raw).strip().lower()]
        elif isinstance(raw, (bool, list, dict)) or (wanted is int and isinstance(raw, float)):
            raise ValueError(raw)
        else:
            value = wanted(raw)
            if wanted is float and not math.isfinite(value):
                raise ValueError(raw)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        kind = {bool: "true or false", int: "a whole number", float: "a number"}.get(wanted, "text")
        raise SettingError(f"{source}: {name} must be {kind}, not {shown}", "Correct it.") from error
    if declared.choices and value not in declared.choices:
        choices = " or ".join(declared.choices)
        raise SettingError(f"{source}: {name} must be {choices}, not {raw!r}", "Correct it.")
    too_small = declared.least is not None and value < declared.least
    most = MOST_SECONDS if name.endswith("_seconds") else declared.most
    if too_small or (most is not None and value > most):
        bound = f"at least {declared.least:g}" if too_small else f"at most {most:.10g}"
        raise SettingError(f"{source}: {name} must be {bound}, not {raw!r}", "Correct it.")
    return value

"""compose.yaml and the Dockerfile: Kafka configured like the embedded broker, every path and argument there."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import yaml

from tidemark.cli import tidemark
from tidemark.local import broker_setup, jars
from tidemark.settings import load

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"

# What differs in a container: where data lies, and the addresses that listen inside it.
ELSEWHERE = {
    "log.dirs",
    "listeners",
    "advertised.listeners",
    "controller.quorum.voters",
    "listener.security.protocol.map",
}
# Tuning of the embedded broker to a small machine.
TUNING = {"log.cleaner.dedupe.buffer.size", "num.recovery.threads.per.data.dir"}


def test_the_container_is_configured_like_the_embedded_broker(tmp_path: Path) -> None:
    kafka = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["kafka"]
    container = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in kafka["environment"].items()
        if name != "KAFKA_HEAP_OPTS"
    }
    node = broker_setup.Node(1, 19092, 9093)
    values = broker_setup.properties(tmp_path, node, [node])
    embedded = {name: str(value) for name, value in values.items()}

    assert container.keys() == embedded.keys() - TUNING
    for name in embedded.keys() - ELSEWHERE - TUNING:
        assert container[name] == embedded[name], name


def test_the_image_has_the_version_of_the_embedded_broker() -> None:
    version = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["kafka"]["image"].split(":")[1]
    assert f'name="kafka_2.13" rev="{version}"' in jars.IVY_FILE.read_text(encoding="utf-8")


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions: (word, rest), continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n", " ", kept)
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def in_context(path: str) -> bool:
    """Whether .dockerignore lets a path of the repository into the build; the last rule that fits counts."""
    seen = True
    for rule in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
        pattern = rule.removeprefix("!").removeprefix("**/")
        if fnmatch.fnmatch(path.split("/")[0], pattern) or fnmatch.fnmatch(Path(path).name, pattern):
            seen = rule.startswith("!")
    return seen


def image_environment() -> dict[str, str]:
    rest = " ".join(rest for word, rest in instructions() if word == "ENV")
    return dict(part.split("=", 1) for part in shlex.split(rest))


def services() -> dict[str, dict[str, Any]]:
    result: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return result


def test_the_image_copies_what_is_there() -> None:
    stages = {
        rest.split(" AS ")[1].strip() for word, rest in instructions() if word == "FROM" and " AS " in rest
    }
    copied = []
    for word, rest in instructions():
        parts = rest.split()
        if word == "COPY" and parts[0].startswith("--from="):
            assert parts[0].removeprefix("--from=") in stages
        elif word == "COPY":
            copied += parts[:-1]
    for source in copied:
        assert (ROOT / source).exists() and in_context(source), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {*wheel["packages"], *wheel["force-include"], project["project"]["readme"], "pyproject.toml"}
    assert {path.split("/")[0] for path in needed} <= {path.strip("/") for path in copied}


def test_what_the_image_runs_at_build_time_is_there() -> None:
    commands = " ".join(rest for word, rest in instructions() if word == "RUN")
    for name in re.findall(r"requirements/[\w.]+", commands):
        assert (ROOT / name).is_file()
    (code,) = re.findall(r'python -c\s+"([^"]+)"', commands)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Attribute):
            assert hasattr(jars, node.attr)


def test_the_image_starts_the_command_with_settings_that_exist(tmp_path: Path) -> None:
    (entry,) = (json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert entry == ["tidemark"] and "tidemark" in scripts
    ours = {name for name in image_environment() if name.startswith("TIDEMARK_")}
    known = load({"home": tmp_path}, {}).public()
    assert {name.removeprefix("TIDEMARK_").lower() for name in ours} <= known.keys()


def test_every_container_of_ours_gets_arguments_and_settings_that_it_takes(tmp_path: Path) -> None:
    ours = {name: entry for name, entry in services().items() if entry["image"] == "tidemark"}
    assert ours.keys() == {"pipeline", "dashboard"}
    assert [name for name, entry in ours.items() if "build" in entry] == ["pipeline"]
    for entry in ours.values():
        name, *words = entry["command"]
        command = tidemark.get_command(click.Context(tidemark), name)
        assert command is not None
        command.make_context(name, words)
        settings = load({"home": tmp_path}, {key: str(value) for key, value in entry["environment"].items()})
        known = {f"TIDEMARK_{field.upper()}" for field in settings.public()}
        assert entry["environment"].keys() <= known
        (volume,) = entry["volumes"]
        assert volume.split(":")[1] == image_environment()["TIDEMARK_HOME"]


def test_containers_reach_kafka_and_the_outside_reaches_loopback_only() -> None:
    result = services()
    address = result["pipeline"]["environment"]["TIDEMARK_BOOTSTRAP_SERVERS"]
    assert f"CONTAINERS://{address}" in result["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert result["pipeline"]["depends_on"].keys() <= result.keys()
    declared = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"]
    for entry in result.values():
        assert all(port.startswith("127.0.0.1:") for port in entry.get("ports", []))
        assert {volume.split(":")[0] for volume in entry["volumes"]} <= declared.keys()
    port = result["dashboard"]["environment"]["TIDEMARK_DASHBOARD_PORT"]
    assert result["dashboard"]["ports"][0].endswith(f":{port}")

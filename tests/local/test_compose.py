"""compose.yaml against the embedded broker, whose configuration it is to mirror."""

from __future__ import annotations

from pathlib import Path

import yaml

from tidemark.local import broker_setup, jars

COMPOSE = Path(__file__).parents[2] / "compose.yaml"

# What differs in a container: where data lies, and the addresses that listen inside it.
ELSEWHERE = {"log.dirs", "listeners", "advertised.listeners", "controller.quorum.voters"}
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

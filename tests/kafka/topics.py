"""Topics as the broker describes them."""

from __future__ import annotations

from confluent_kafka.admin import ConfigResource, ResourceType

from tidemark.kafka.client import admin_client
from tidemark.settings.sections import KafkaSettings


def topic_config(settings: KafkaSettings, topic: str) -> dict[str, str]:
    """The topic's configuration in the broker."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = admin_client(settings)  # a client without a name is closed before its answer
    entries = admin.describe_configs([resource])[resource].result(timeout=30)
    return {name: entry.value for name, entry in entries.items() if entry.value is not None}

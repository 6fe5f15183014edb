"""Identity of the topic: offsets are not valid in another topic with the same name."""

from __future__ import annotations

import json
from pathlib import Path

from tidemark.errors import KafkaError, TableError
from tidemark.kafka import client as kafka
from tidemark.local.records import replace_text
from tidemark.settings.sections import KafkaSettings

_FILE = "topics.json"


def has_read(settings: KafkaSettings, checkpoint: Path) -> bool:
    """Whether lines of the topic were read already, so that it must not be created again."""
    return settings.topic in _known(checkpoint)


def require_same_topic(settings: KafkaSettings, checkpoint: Path) -> None:
    """Records the topic's id beside the offsets of the checkpoint.

    Raises KafkaError if the topic is missing, or is another one with the same name: the offsets would skip
    unread lines of the new topic.
    """
    known = _known(checkpoint)
    then, now = known.get(settings.topic), kafka.topic_id(settings, settings.topic)
    if then is not None and then != now:
        what = "does not exist any more" if now is None else "was deleted and created anew"
        raise KafkaError(
            f"topic {settings.topic!r} {what} since its lines were read",
            "Restore it; or go on with a topic of another name (TIDEMARK_TOPIC), leaving out what was not read"
            " yet of this one (TIDEMARK_ALLOW_DATA_LOSS=true).",
        )
    if then is None and now is not None:
        checkpoint.mkdir(parents=True, exist_ok=True)
        replace_text(checkpoint / _FILE, json.dumps({**known, settings.topic: now}) + "\n")


def _known(checkpoint: Path) -> dict[str, str]:
    """Ids of the topics whose offsets the checkpoint has; {} before the first batch."""
    if not any((checkpoint / "offsets").glob("[0-9]*")):
        return {}
    try:
        known: dict[str, str] = json.loads((checkpoint / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TableError(
            f"{checkpoint / _FILE}, which tells one topic from another of its name, cannot be read",
            "Restore a savepoint, see docs/operations.md, 'A damaged checkpoint'; or, if the topic is still the one"
            " that was read, delete the file.",
        ) from error
    return known

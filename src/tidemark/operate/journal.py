"""Progress of a rebuild, kept in the home so that a killed rebuild continues where it stopped.

The staged tables' own logs show which parts of the source they contain: each part is one numbered commit. The journal
has the snapshots of the source from which the parts are made, so that the numbers have the same meaning after a
restart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tidemark.contract.store import Commit, Store
from tidemark.contract.table import Table
from tidemark.home import Home
from tidemark.local.records import read_record, replace_text
from tidemark.operate.snapshot import Snapshot
from tidemark.stream import schema_check

log = logging.getLogger("tidemark.operate.rebuild")


@dataclass
class Journal:
    """The snapshots of a rebuild: the first has the history, each later one the rows since the previous one.

    `identity` says how all tables are made: a journal with another one is ignored. `kept`: the journal
    is in the home. `resumed`: this one was found there, so part of the work may be staged.
    """

    path: Path
    identity: Mapping[str, Any]
    kept: bool
    snapshots: list[Snapshot] = field(default_factory=list)
    resumed: bool = False

    @classmethod
    def of(cls, home: Home, names: Sequence[str], rows: int, rules: str, *, kept: bool) -> Journal:
        """The journal of a rebuild of the named tables in parts of `rows`: the home's if it matches, else a new one.
        `rules` is the `rules_version` of lines."""
        path = _path(home)
        identity = {
            "names": list(names),
            **_meaning(home, rules),
            "rows": rows,
            "format": 2,  # of this file
            # After a power cut the staged files may lack the last writes.
            "boot": _boot(),
        }
        record = read_record(path) if kept else {}
        if record.get("made") != identity:
            return cls(path, identity, kept)
        return cls(
            path, identity, kept, [Snapshot(**snapshot) for snapshot in record["snapshots"]], resumed=True
        )

    def add(self, snapshot: Snapshot) -> None:
        """Records a snapshot, before any part of it is staged."""
        self.snapshots.append(snapshot)
        if self.kept:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            record = {"made": self.identity, "snapshots": [asdict(each) for each in self.snapshots]}
            replace_text(self.path, json.dumps(record) + "\n")

    @property
    def outlives_failure(self) -> bool:
        """Whether the staged tables are kept when the rebuild fails. If a resumed one fails, the next starts again."""
        return self.kept and not self.resumed


def drop_other(home: Home, rules: str) -> None:
    """Removes the journal of a rebuild with other settings or rules than those of now, by which lines are read from now
    on: the rebuild would take over these lines as they are. For a start, before lines are read."""
    path = _path(home)
    made = read_record(path).get("made")
    if made and any(made.get(name) != value for name, value in _meaning(home, rules).items()):
        path.unlink(missing_ok=True)


def _path(home: Home) -> Path:
    return home.settings.home / "swap" / "rebuild.json"


def _meaning(home: Home, rules: str) -> dict[str, Any]:
    """How the tables are made, and lines are read."""
    states = schema_check.rebuilt(home.settings, home.tables)
    return {"tables": {name: state.entries for name, state in states.items()}, "rules": rules}


def staged_parts(store: Store, tables: Sequence[Table], before: Commit, parts: int) -> int:
    """Number of the `parts` commits after `before` that all staged tables have."""
    done = min(store.committed(table, before.writer) for table in tables) - before.number
    staged = min(max(done, 0), parts)
    if staged:
        names = ", ".join(table.name for table in tables)
        log.info("%d of %d parts of %s are staged already", staged, parts, names)
    return staged


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # a system without it
        return ""

"""How far a rebuild has come, kept in the home so that one that was killed goes on where it was.

The staged tables' own logs say which parts of the source are in them: each part is one numbered commit. The journal
holds what gives the numbers the same meaning after a restart: the snapshots of the source that the parts are cut from.
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
from tidemark.local.process import read_record, replace_text
from tidemark.operate.snapshot import Cut
from tidemark.settings import Settings
from tidemark.stream import schema_check

log = logging.getLogger("tidemark.operate.rebuild")


@dataclass
class Journal:
    """The snapshots of a rebuild: the first holds the history, each later one what arrived since the one before.

    `made` is what the rows are made with: a journal of another `made` counts as none. `kept` says whether the journal
    is in the home, `resumed` whether this one was found there, so that part of the work may be staged.
    """

    path: Path
    made: Mapping[str, Any]
    kept: bool
    cuts: list[Cut] = field(default_factory=list)
    resumed: bool = False

    @classmethod
    def of(
        cls, settings: Settings, tables: Sequence[Table], names: Sequence[str], rows: int, *, kept: bool
    ) -> Journal:
        """The journal of a rebuild of the named tables in parts of `rows`: the one in the home, where it fits."""
        path = settings.home / "swap" / "rebuild.json"
        # After a power cut the staged files may lack what was written last.
        states = schema_check.states(settings, tables)
        made = {"tables": {name: dict(states.get(name, {})) for name in names}, "rows": rows, "boot": _boot()}
        record = read_record(path) if kept else {}
        if record.get("made") != made:
            return cls(path, made, kept)
        return cls(path, made, kept, [Cut(**cut) for cut in record["cuts"]], resumed=True)

    def add(self, cut: Cut) -> None:
        """Records a snapshot, before anything of it is staged."""
        self.cuts.append(cut)
        if self.kept:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            record = {"made": self.made, "cuts": [asdict(each) for each in self.cuts]}
            replace_text(self.path, json.dumps(record) + "\n")

    @property
    def outlives_failure(self) -> bool:
        """Whether what is staged is kept when the rebuild fails. Where a resumed one fails, the next begins anew."""
        return self.kept and not self.resumed


def staged_parts(store: Store, tables: Sequence[Table], before: Commit, parts: int) -> int:
    """How many of the `parts` commits that follow `before` are in all of the staged tables."""
    done = min(store.committed(table, before.writer) for table in tables) - before.number
    found = min(max(done, 0), parts)
    if found:
        names = ", ".join(table.name for table in tables)
        log.info("%d of %d parts of %s are staged already", found, parts, names)
    return found


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # a system without it
        return ""

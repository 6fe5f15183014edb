"""A Databricks workspace on this machine, and deployments into it by the real CLI.

The workspace is the test server of databricks/cli. It keeps jobs, schemas, apps, alerts, grants and files in memory
and runs nothing. It serves one workspace to these two identities.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bundle.bundle import GIVEN, ROOT

# The tokens that the test server takes for a user and for a service principal.
TOKENS = {"tester@databricks.com": "dbapi0tidemark", "aaaaaaaa-bbbb-4ccc-dddd-eeeeeeeeeeee": "dbapi1tidemark"}
DEVELOPER, PRINCIPAL = TOKENS


@dataclass(frozen=True)
class Workspace:
    """`get` reads by the REST API, as `identity`."""

    url: str
    identity: str = PRINCIPAL

    def get(self, endpoint: str, **query: str) -> Any:
        """The answer to a GET, or None where there is nothing of that name."""
        content = self.download(endpoint, **query)
        return None if content is None else json.loads(content)

    def download(self, endpoint: str, **query: str) -> bytes | None:
        url = f"{self.url}{endpoint}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKENS[self.identity]}"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                content: bytes = answer.read()
                return content
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def jobs(self) -> list[dict[str, Any]]:
        return self.get("/api/2.2/jobs/list").get("jobs") or []

    def files(self, directory: str) -> Iterator[str]:
        """The paths of all files below a directory."""
        for entry in (self.get("/api/2.0/workspace/list", path=directory) or {}).get("objects") or []:
            if entry["object_type"] == "DIRECTORY":
                yield from self.files(entry["path"])
            else:
                yield entry["path"]

    def file(self, path: str) -> bytes:
        content = self.download("/api/2.0/workspace/export", path=path, direct_download="true")
        assert content is not None, path
        return content


@contextmanager
def serve(program: str) -> Iterator[str]:
    """The address of a workspace that ends with the block."""
    with subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def checkout(directory: Path) -> Path:
    """A copy of what git knows of this repository, as a fresh clone would be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
    return directory


@dataclass(frozen=True)
class Deployer:
    """The Databricks CLI in a checkout, signed in as an identity."""

    program: str
    url: str
    directory: Path
    identity: str

    def run(
        self, target: str, *words: str, given: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`databricks bundle <words>` for a target, with the target's required variables and `given`."""
        principal = {"service_principal": PRINCIPAL} if target == "prod" else {}
        variables = GIVEN[target] | principal | (given or {})
        options = [f"--var={name}={value}" for name, value in variables.items()]
        return subprocess.run(
            [self.program, "bundle", *words, "--target", target, *options],
            cwd=self.directory,
            env={
                "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
                **{name: os.environ[name] for name in os.environ if name.startswith(("UV_", "PIP_", "SSL_"))},
                "HOME": str(self.directory),
                "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
                "DATABRICKS_HOST": self.url,
                "DATABRICKS_TOKEN": TOKENS[self.identity],
            },
            capture_output=True,
            text=True,
            timeout=300,
        )

    def __call__(self, target: str, *words: str, given: dict[str, str] | None = None) -> str:
        """What a command that succeeds prints."""
        done = self.run(target, *words, given=given)
        assert done.returncode == 0, f"{' '.join(words)} -t {target}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

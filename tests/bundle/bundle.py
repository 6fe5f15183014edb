"""Reads the asset bundle as the Databricks CLI does, as far as that goes without a workspace.

Includes are resolved, a target's settings laid over the rest, and references replaced: `${var.…}`,
`${bundle.…}`, `${workspace.…}` and `${resources.<type>.<key>.<field>}`. What only a workspace knows gets a
value that is made up here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

# Variables that have no default. Production has more of them.
GIVEN = {
    "dev": {"bootstrap_servers": "kafka:9093", "warehouse_id": "abcdef0123456789"},
    "prod": {
        "bootstrap_servers": "kafka:9093",
        "warehouse_id": "abcdef0123456789",
        "notify": "ops@example.com",
        "readers": "analysts",
        "operators": "data engineers",
        "service_principal": "99999999-0000-0000-0000-000000000000",
    },
}
# Fields that a resource has once it is deployed.
DEPLOYED = {"resources.apps.dashboard.service_principal_client_id": "11111111-2222-3333-4444-555555555555"}
_REFERENCE = re.compile(r"\$\{([a-zA-Z0-9_.-]+)\}")


class UnresolvedError(Exception):
    """A reference to something that is not there."""


@dataclass(frozen=True)
class Bundle:
    """A target's configuration with all references resolved. `files` says where each resource is declared."""

    target: str
    config: dict[str, Any]
    files: dict[str, Path]
    prefix: str

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        result: dict[str, dict[str, Any]] = self.config["resources"].get(kind, {})
        return result

    def schema(self) -> str:
        """The schema's name as deployed: development mode prefixes it."""
        return self.prefix + str(self.resources("schemas")["tables"]["name"])


def source_files() -> list[Path]:
    """databricks.yml and every file that it includes."""
    main = ROOT / "databricks.yml"
    result = [main]
    for pattern in yaml.safe_load(main.read_text(encoding="utf-8"))["include"]:
        matched = sorted(ROOT.glob(pattern))
        assert matched, f"include {pattern} matches nothing"
        result += matched
    return result


def load(target: str, given: dict[str, Any] | None = None, user: str = "jane.doe@example.com") -> Bundle:
    """The bundle as `user` deploys it to a target; `given` are variables as `--var` gives them."""
    config: dict[str, Any] = {"resources": {}}
    files: dict[str, Path] = {}
    for path in source_files():
        part = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind, entries in part.pop("resources", {}).items():
            for key, entry in entries.items():
                assert f"{kind}.{key}" not in files, f"{kind}.{key} is defined twice"
                files[f"{kind}.{key}"] = path
                config["resources"].setdefault(kind, {})[key] = entry
        config = _merged(config, part)
    chosen = config.pop("targets")[target]
    values = {name: entry["default"] for name, entry in config["variables"].items() if "default" in entry}
    values |= chosen.pop("variables", {}) | GIVEN[target] | (given or {})
    missing = config["variables"].keys() - values.keys()
    if missing:
        raise UnresolvedError(f"no value for {sorted(missing)}")
    config = _merged(config, chosen)
    short_name = re.sub(r"\W", "_", user.split("@")[0])
    names = {
        "userName": user, "short_name": short_name, "domain_friendly_name": short_name.replace("_", "-").lower(),
    }  # fmt: skip
    home = {"root_path": f"/Workspace/Users/{user}/.bundle/${{bundle.name}}/{target}"}
    config["workspace"] = home | config.get("workspace", {}) | {"current_user": names}
    config["bundle"]["target"] = target
    config["var"] = values
    prefix = f"dev_{short_name}_" if config.get("mode") == "development" else ""
    return Bundle(target, _resolve(config, config, ()), files, prefix)


def references() -> set[str]:
    """Every reference in the bundle's files."""
    return {
        result for path in source_files() for result in _REFERENCE.findall(path.read_text(encoding="utf-8"))
    }


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {key: _merged(below.get(key), above.get(key)) for key in {**below, **above}}
    if isinstance(below, list) and isinstance(above, list):
        return below + above
    return below if above is None else above


def _resolve(value: Any, config: dict[str, Any], under: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve(entry, config, under) for key, entry in value.items()}
    if isinstance(value, list):
        return [_resolve(entry, config, under) for entry in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _look_up(whole[1], config, under)
    return _REFERENCE.sub(lambda match: str(_look_up(match[1], config, under)), value)


def _look_up(name: str, config: dict[str, Any], under: tuple[str, ...]) -> Any:
    if name in under:
        raise UnresolvedError(f"{name} refers to itself")
    if name in DEPLOYED:
        return DEPLOYED[name]
    result: Any = config
    for part in name.split("."):
        if not isinstance(result, dict) or part not in result:
            raise UnresolvedError(f"${{{name}}} refers to nothing")
        result = result[part]
    return _resolve(result, config, (*under, name))

"""The asset bundle, checked without a workspace: every reference, path, parameter and secret resolves."""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from pyspark.sql import SparkSession

from tests.bundle.bundle import GIVEN, ROOT, Bundle, UnresolvedError, load, references, source_files
from tidemark.cli import tidemark
from tidemark.pipeline import TABLES
from tidemark.settings import load as load_settings
from tidemark.store.spark_change import spark_schema

TARGETS = ("dev", "prod")
# What validates a kind of resource: a class of databricks-bundles that refuses unknown and missing fields.
KINDS = {
    "alerts": "Alert",
    "apps": "App",
    "jobs": "Job",
    "schemas": "Schema",
    "secret_scopes": "SecretScope",
    "volumes": "Volume",
}
DEPLOY_PAGE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
SECRET = re.compile(r"\{\{secrets/([^/}]+)/([^}]+)\}\}")


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return load(request.param)


def tasks(bundle: Bundle) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every (job, task) of the bundle."""
    for job in bundle.resources("jobs").values():
        for task in job["tasks"]:
            yield job, task


def cluster(job: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    clusters = {entry["job_cluster_key"]: entry["new_cluster"] for entry in job["job_clusters"]}
    result: dict[str, Any] = clusters[task["job_cluster_key"]]
    return result


def parameters(job: dict[str, Any], task: dict[str, Any]) -> list[str]:
    """The task's parameters, with the job's own by their defaults."""
    defaults = {f"{{{{job.parameters.{p['name']}}}}}": p["default"] for p in job.get("parameters", [])}
    return [defaults.get(value, value) for value in task["python_wheel_task"]["parameters"]]


def test_every_resource_is_valid(bundle: Bundle) -> None:
    for kind, entries in bundle.config["resources"].items():
        model = getattr(importlib.import_module(f"databricks.bundles.{kind}"), KINDS[kind])
        for entry in entries.values():
            model.from_dict(entry)
    assert bundle.config["resources"].keys() == KINDS.keys()


def test_a_field_that_does_not_exist_would_be_found() -> None:
    from databricks.bundles.jobs import Job

    job = load("dev").resources("jobs")["live"]
    with pytest.raises(ValueError):
        Job.from_dict({**job, "no_such_field": 1})


def test_one_resource_a_file_named_after_it() -> None:
    files = load("dev").files
    assert len(set(files.values())) == len(files) == len(list((ROOT / "resources").iterdir()))
    for name, path in files.items():
        kind, key = name.split(".")
        assert path.name == f"{key}.{kind.removesuffix('s')}.yml"


def test_a_key_is_of_one_resource_whatever_its_type() -> None:
    keys = [name.split(".")[1] for name in load("dev").files]
    assert sorted(keys) == sorted(set(keys))


def names(bundle: Bundle) -> set[tuple[str, str]]:
    """What a workspace has only once: names of apps, secret scopes, schemas and volumes, and where files are."""
    tables, volume = bundle.resources("schemas")["tables"], bundle.resources("volumes")["state"]
    schema = f"{tables['catalog_name']}.{bundle.schema()}"
    assert volume["schema_name"] == tables["name"]
    return {
        ("app", bundle.resources("apps")["dashboard"]["name"]),
        ("secret scope", bundle.resources("secret_scopes")["secrets"]["name"]),
        ("schema", schema),
        ("volume", f"{schema}.{volume['name']}"),
        ("files", bundle.config["workspace"]["root_path"]),
    }


def test_targets_and_developers_share_a_workspace() -> None:
    deployed = [load("prod"), load("dev", user="jane.doe@example.com"), load("dev", user="li@example.com")]
    result = [names(bundle) for bundle in deployed]
    assert len(set.union(*result)) == sum(map(len, result)) == 15
    for name in (dict(entry)["app"] for entry in result):
        assert re.fullmatch(r"[a-z0-9-]{2,30}", name), "Databricks Apps takes no other names"


def test_two_deployments_of_one_name_would_be_found() -> None:
    jane = load("dev", {"secret_scope": "tidemark", "app_name": "tidemark"})
    assert names(load("prod")) & names(jane) == {("app", "tidemark"), ("secret scope", "tidemark")}


def test_nothing_is_open_to_everybody_in_a_workspace() -> None:
    """`users` and `admins` are the workspace's own groups: Unity Catalog takes neither in a grant."""
    dev, prod = load("dev"), load("prod")
    assert not prod.config["workspace"]["root_path"].startswith("/Workspace/Shared")
    for bundle in (dev, prod):
        entries = [entry for kind in bundle.config["resources"].values() for entry in kind.values()]
        given = [
            *bundle.config.get("permissions", []),
            *(p for e in entries for p in e.get("permissions", [])),
        ]
        groups = {entry.get("group_name") for entry in given}
        granted = {grant["principal"] for entry in entries for grant in entry.get("grants", [])}
        assert not (groups | granted) & {"users", "admins", "account users"}
        readers = {"analysts"} if bundle is prod else set()
        assert granted - {"11111111-2222-3333-4444-555555555555"} == readers
        assert groups - {None, "data engineers"} == readers


def test_only_the_dashboard_is_uploaded_beside_the_wheel() -> None:
    sync = load("prod").config["sync"]
    assert sync["paths"] == [
        "app",
        "requirements.txt",
        "src/tidemark/__init__.py",
        "src/tidemark/access",
        "src/tidemark/api",
        "src/tidemark/errors.py",
        "src/tidemark/figures",
        "src/tidemark/priority.py",
        "src/tidemark/settings",
    ]
    assert "include" not in sync


def test_settings_that_a_deployment_needs_are_required_and_described() -> None:
    config = yaml.safe_load((ROOT / "databricks.yml").read_text(encoding="utf-8"))
    assert all(entry["description"].strip() for entry in config["variables"].values())
    required = {name for name, entry in config["variables"].items() if "default" not in entry}
    for target, given in GIVEN.items():
        assert required - config["targets"][target].get("variables", {}).keys() == given.keys()
    used = {name.split(".")[1] for name in references() if name.startswith("var.")}
    assert used == config["variables"].keys()
    for name in config["variables"]:
        assert f"`{name}`" in DEPLOY_PAGE, f"docs/deploy.md does not mention the variable {name}"


def test_a_reference_to_nothing_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnresolvedError, match="refers to nothing"):
        load("dev", {"catalog": "${resources.jobs.nothing.name}"})


def test_paths_lead_to_what_is_there(bundle: Bundle) -> None:
    wheel = bundle.config["artifacts"]["wheel"]
    words = shlex.split(wheel["build"])
    assert words[:3] == ["uv", "build", "--wheel"] and (ROOT / wheel["path"] / "pyproject.toml").exists()
    for name, path in bundle.files.items():
        kind, key = name.split(".")
        entry = bundle.resources(kind)[key]
        if kind == "apps":
            assert (path.parent / entry["source_code_path"]).resolve() == ROOT
        for task in entry.get("tasks", []):
            wheels = [lib["whl"] for lib in task["libraries"] if "whl" in lib]
            assert [(path.parent / each).parent.resolve() for each in wheels] == [ROOT / "dist"]


def test_the_import_has_the_library_of_its_extra(bundle: Bundle) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (task,) = bundle.resources("jobs")["import"]["tasks"]
    packages = [lib["pypi"]["package"] for lib in task["libraries"] if "pypi" in lib]
    assert packages == project["optional-dependencies"]["objects"]
    for path in (*bundle.config["sync"]["paths"], *bundle.config["sync"]["exclude"]):
        assert (ROOT / path).exists()


def test_tasks_call_the_wheels_entry_point_with_parameters_that_it_takes(bundle: Bundle) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    called = []
    for job, task in tasks(bundle):
        wheel = task["python_wheel_task"]
        assert wheel["package_name"] == project["name"]
        assert wheel["entry_point"] in project["scripts"]
        words = parameters(job, task)
        assert not any("{{" in word for word in words)
        command = tidemark.get_command(click.Context(tidemark), words[0])
        assert command is not None
        command.make_context(words[0], words[1:])  # raises on an option or argument that it does not take
        called.append(words[0])
    assert sorted(called) == ["import", "maintain", "quality", "rebuild", "run", "run"]


def test_the_wheel_leaves_spark_to_the_runtime() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[\[<>=~! ]", entry)[0] for entry in project["dependencies"]}
    assert not names & {"pyspark", "delta-spark", "databricks-connect"}


def test_the_environment_of_every_cluster_is_settings_that_exist(bundle: Bundle, tmp_path: Path) -> None:
    clusters = [cluster(job, task) for job, task in tasks(bundle)]
    for result in clusters:
        assert {**result, "num_workers": 0} == {**clusters[0], "num_workers": 0}, "the clusters differ"
    environment = clusters[0]["spark_env_vars"]
    settings = load_settings({"home": tmp_path}, environment)
    named = {name.removeprefix("TIDEMARK_").lower() for name in environment}
    assert named <= {*settings.public()}
    schema = bundle.resources("schemas")["tables"]
    assert (settings.lakehouse.catalog, settings.lakehouse.schema) == (schema["catalog_name"], schema["name"])
    volume = bundle.resources("volumes")["state"]
    root = f"/Volumes/{volume['catalog_name']}/{volume['schema_name']}/{volume['name']}/"
    assert settings.lakehouse.checkpoint_location.startswith(root)
    assert str(settings.formats_directory).startswith(root)
    assert not settings.kafka.uses_embedded_broker and settings.watching.log_format == "json"


def test_secrets_come_from_the_scope_by_keys_that_the_page_names(bundle: Bundle) -> None:
    scope = bundle.resources("secret_scopes")["secrets"]["name"]
    for job, task in tasks(bundle):
        environment = cluster(job, task)["spark_env_vars"]
        for setting in ("KAFKA_USERNAME", "KAFKA_PASSWORD", "VISITOR_KEY"):
            match = SECRET.fullmatch(environment[f"TIDEMARK_{setting}"])
            assert match is not None and match[1] == scope
            assert f"put-secret $scope {match[2]}" in DEPLOY_PAGE


def test_no_secret_is_in_a_file() -> None:
    word = re.compile(r"password|secret|visitor_key|username|client_options|spark_options", re.IGNORECASE)

    def values(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        children = (
            node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        )
        for key, child in children:
            yield from values(child, (*path, str(key)))
        if isinstance(node, str):
            yield path, node

    seen = 0
    for file in [*source_files(), ROOT / "app.yaml"]:
        for path, value in values(yaml.safe_load(file.read_text(encoding="utf-8")), ()):
            if path[-1].startswith("TIDEMARK_") and word.search(path[-1]):
                seen += 1
                assert re.fullmatch(r"\{\{secrets/\$\{[\w.]+\}/[\w-]+\}\}", value), (file.name, path)
    assert seen == 18  # three secrets in each of six jobs


def test_development_starts_nothing_and_production_has_its_own_identity() -> None:
    dev, prod = load("dev"), load("prod", {"service_principal": "sp"}, user="sp")
    assert dev.config["mode"] == "development" and dev.config["default"]
    assert set(dev.config["var"]["pause"].values()) == {"PAUSED"}
    for job in dev.resources("jobs").values():
        for trigger in ("continuous", "trigger", "schedule"):
            assert job.get(trigger, {"pause_status": "PAUSED"})["pause_status"] == "PAUSED"
    assert prod.config["mode"] == "production"
    # The one identity that the CLI lets deploy an app with run_as: the same.
    assert prod.config["run_as"] == {"service_principal_name": "sp"}
    assert prod.config["workspace"]["root_path"] == "/Workspace/Users/sp/.bundle/tidemark/prod"
    assert {"service_principal_name": "sp", "level": "CAN_MANAGE"} in prod.config["permissions"]
    live, hourly = (prod.resources("jobs")[name] for name in ("live", "hourly"))
    assert live["continuous"]["pause_status"] == "UNPAUSED" != hourly["trigger"]["pause_status"]


def test_the_choice_between_live_and_hourly_is_one_variable() -> None:
    chosen = {"live": "PAUSED", "hourly": "UNPAUSED", "upkeep": "UNPAUSED", "alerts": "UNPAUSED"}
    prod = load("prod", {"pause": chosen})
    live, hourly = (prod.resources("jobs")[name] for name in ("live", "hourly"))
    assert (live["continuous"]["pause_status"], hourly["trigger"]["pause_status"]) == ("PAUSED", "UNPAUSED")


def test_the_app_reads_what_it_is_granted_through_its_warehouse(bundle: Bundle) -> None:
    app, schema = bundle.resources("apps")["dashboard"], bundle.resources("schemas")["tables"]
    by_hand = yaml.safe_load((ROOT / "app.yaml").read_text(encoding="utf-8"))
    assert by_hand["command"] == app["config"]["command"]
    assert (ROOT / by_hand["command"][-1]).exists()
    assert [e["name"] for e in by_hand["env"]] == [e["name"] for e in app["config"]["env"]]
    environment = {entry["name"]: entry.get("value") for entry in app["config"]["env"]}
    warehouse = next(e["value_from"] for e in app["config"]["env"] if e["name"] == "DATABRICKS_WAREHOUSE_ID")
    assert {r["name"]: r["sql_warehouse"]["permission"] for r in app["resources"]} == {warehouse: "CAN_USE"}
    assert environment["TIDEMARK_CATALOG"] == schema["catalog_name"]
    assert environment["TIDEMARK_SCHEMA"] == bundle.schema()
    granted = {grant["principal"]: set(grant["privileges"]) for grant in schema["grants"]}
    assert granted["11111111-2222-3333-4444-555555555555"] == {"USE_SCHEMA", "SELECT"}


def test_alerts_ask_what_the_tables_can_answer(bundle: Bundle, spark: SparkSession) -> None:
    """Each query is analysed by Spark over empty tables of the real columns."""
    schema = bundle.resources("schemas")["tables"]
    for alert in bundle.resources("alerts").values():
        query = alert["query_text"]
        for table in TABLES:
            name = table.name.replace(".", "_")
            spark.createDataFrame([], spark_schema(table)).createOrReplaceTempView(name)
            query = query.replace(f"`{schema['catalog_name']}`.`{schema['name']}`.{name}", name)
        assert "`" not in query
        rows = spark.sql(query).toArrow()
        for table in TABLES:
            spark.catalog.dropTempView(table.name.replace(".", "_"))
        assert rows.column_names == [alert["evaluation"]["source"]["name"]]
        fires = rows[0][0].as_py() > alert["evaluation"]["threshold"]["value"]["double_value"]
        # Without a single line nothing is fresh, and nothing is wrong.
        assert fires == ("age" in rows.column_names[0])

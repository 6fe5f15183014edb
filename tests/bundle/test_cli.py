"""The bundle, deployed by the real Databricks CLI into a workspace on this machine, and read back from there.

Both programs come from a checkout of github.com/databricks/cli: the CLI itself (`go build .`), and a program that
starts its package libs/testserver with the default handlers and prints the address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.bundle import GIVEN
from tests.bundle.test_app import UPLOADED, beside_a_warehouse
from tests.bundle.test_entry_points import installed, run_every_task, variables
from tests.bundle.workspace import DEVELOPER, PRINCIPAL, Deployer, Workspace, checkout, serve
from tests.pipeline.harness import fresh
from tidemark.settings import Settings

PROGRAMS = tuple(os.environ.get(name, "") for name in ("DATABRICKS_CLI", "DATABRICKS_TEST_WORKSPACE"))

pytestmark = [
    pytest.mark.bundle_cli,
    pytest.mark.skipif(
        not all(PROGRAMS),
        reason="needs DATABRICKS_CLI and DATABRICKS_TEST_WORKSPACE: paths of the Databricks CLI and of its test "
        "server, both built from github.com/databricks/cli; see CONTRIBUTING.md",
    ),
]

HOME = {who: f"/Workspace/Users/{who}/.bundle/tidemark" for who in (DEVELOPER, PRINCIPAL)}
# What a deployment is called: app, secret scope, schema.
NAMES = {
    "prod": ("tidemark", "tidemark", "main.tidemark"),
    DEVELOPER: ("tidemark-dev-tester", "dev_tester_tidemark", "main.dev_tester_tidemark"),
    PRINCIPAL: (
        f"tidemark-dev-{PRINCIPAL}",
        f"dev_{PRINCIPAL.replace('-', '_')}_tidemark",
        f"main.dev_{PRINCIPAL.replace('-', '_')}_tidemark",
    ),
}


@pytest.fixture(scope="module")
def workspace() -> Iterator[Workspace]:
    with serve(PROGRAMS[1]) as url:
        yield Workspace(url)


def deployers_of(url: str, directory: Path) -> dict[str, Deployer]:
    """By identity; each has a checkout of its own."""
    return {
        who: Deployer(PROGRAMS[0], url, checkout(directory / name), who)
        for who, name in ((DEVELOPER, "developer"), (PRINCIPAL, "principal"))
    }


@pytest.fixture(scope="module")
def deployers(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Deployer]:
    return deployers_of(workspace.url, tmp_path_factory.mktemp("checkouts"))


@pytest.fixture(scope="module")
def deployed(deployers: dict[str, Deployer]) -> Iterator[dict[str, str]]:
    """Three deployments in one workspace, by name, with what the CLI printed; destroyed afterwards."""
    printed = {
        DEVELOPER: deployers[DEVELOPER]("dev", "deploy"),
        PRINCIPAL: deployers[PRINCIPAL]("dev", "deploy"),
        "prod": deployers[PRINCIPAL]("prod", "deploy"),
    }
    yield printed
    for who, target in ((DEVELOPER, "dev"), (PRINCIPAL, "dev"), (PRINCIPAL, "prod")):
        deployers[who].run(target, "destroy", "--auto-approve")


@pytest.mark.parametrize("who, target", [(DEVELOPER, "dev"), (PRINCIPAL, "dev"), (PRINCIPAL, "prod")])
def test_validates_without_a_warning(deployers: dict[str, Deployer], who: str, target: str) -> None:
    assert "Validation OK!" in deployers[who](target, "validate", "--strict")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("/Users/${var.service_principal}/", "/Shared/", "is writable by all workspace users"),
        ("tables:\n", "secrets:\n", "have been defined with the same key: secrets"),
    ],
    ids=["a root path for everybody", "one key for two resources"],
)
def test_a_fault_is_reported(
    deployers: dict[str, Deployer], tmp_path: Path, old: str, new: str, message: str
) -> None:
    copy = checkout(tmp_path)
    for path in (copy / "databricks.yml", *(copy / "resources").iterdir()):
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    done = Deployer(PROGRAMS[0], deployers[PRINCIPAL].url, copy, PRINCIPAL).run(
        "prod", "validate", "--strict"
    )
    assert done.returncode != 0 and message in done.stdout + done.stderr


def test_production_is_deployed_by_the_identity_that_it_runs_as(deployers: dict[str, Deployer]) -> None:
    done = deployers[DEVELOPER].run("prod", "validate", "--strict")
    assert done.returncode != 0
    assert f"Current identity: {DEVELOPER}. Run as identity: {PRINCIPAL}." in done.stdout + done.stderr


def test_developers_and_production_share_a_workspace(deployed: dict[str, str], workspace: Workspace) -> None:
    for name, printed in deployed.items():
        assert re.search(r"Resources: \d+ created, 0 changed, 0 deleted, 0 unchanged", printed), printed
        app, scope, schema = NAMES[name]
        assert workspace.get(f"/api/2.0/apps/{app}") is not None
        assert workspace.get(f"/api/2.1/unity-catalog/schemas/{schema}") is not None
        assert workspace.get(f"/api/2.1/unity-catalog/volumes/{schema}.state") is not None
        scopes = {entry["name"] for entry in workspace.get("/api/2.0/secrets/scopes/list")["scopes"]}
        assert scope in scopes
    names = [job["settings"]["name"] for job in workspace.jobs()]
    assert len(names) == len(set(names)) == 15
    alerts = [alert["display_name"] for alert in workspace.get("/api/2.0/alerts")["alerts"]]
    assert len(alerts) == len(set(alerts)) == 6


def test_only_the_dashboard_and_the_wheel_are_uploaded(
    deployed: dict[str, str], workspace: Workspace, deployers: dict[str, Deployer]
) -> None:
    root = f"{HOME[PRINCIPAL]}/prod"
    files = deployers[PRINCIPAL].directory
    expected = {
        f"{root}/files/{path.relative_to(files)}"
        for name in UPLOADED
        for path in (files / name, *(files / name).rglob("*"))
        if path.is_file() and path.name != "requirements.in"
    }
    # Of the CLI, and the alerts, which are files of the workspace.
    own = (f"{root}/state/", f"{root}/resources/")
    actual = {path for path in workspace.files(root) if not path.startswith(own)}
    wheels = actual - expected
    assert expected <= actual and len(wheels) == 1
    assert re.fullmatch(rf"{root}/artifacts/\.internal/tidemark-[\d.]+-py3-none-any\.whl", wheels.pop())
    assert f"Files: {len(expected)} uploaded, 0 deleted" in deployed["prod"]


def test_a_deployment_without_a_change_changes_nothing(
    deployed: dict[str, str], workspace: Workspace, deployers: dict[str, Deployer]
) -> None:
    def wheel(root: str) -> bytes:
        (path,) = workspace.files(f"{root}/artifacts")
        return workspace.file(path)

    for who, target in ((DEVELOPER, "dev"), (PRINCIPAL, "prod")):
        deployer, root = deployers[who], f"{HOME[who]}/{target}"
        before = wheel(root)
        assert "Plan: 0 to add, 0 to change, 0 to delete" in deployer(target, "plan")
        printed = deployer(target, "deploy")
        assert "Files: 0 uploaded, 0 deleted" in printed
        assert "Resources: 0 created, 0 changed, 0 deleted" in printed
        assert wheel(root) == before, "the build is not reproducible"


def test_a_variable_changes_what_uses_it(
    deployed: dict[str, str], workspace: Workspace, deployers: dict[str, Deployer]
) -> None:
    def workers() -> dict[str, int]:
        return {
            job["settings"]["tasks"][0]["task_key"]: job["settings"]["job_clusters"][0]["new_cluster"][
                "num_workers"
            ]
            for job in workspace.jobs()
            if job["settings"]["name"].startswith("tidemark ")
        }

    given = {"workers": "3"}
    assert "Plan: 0 to add, 3 to change, 0 to delete" in deployers[PRINCIPAL]("prod", "plan", given=given)
    assert "0 created, 3 changed, 0 deleted" in deployers[PRINCIPAL]("prod", "deploy", given=given)
    assert workers() == {"live": 3, "hourly": 3, "rebuild": 3, "maintain": 1, "quality": 1, "import": 1}
    assert "0 created, 3 changed, 0 deleted" in deployers[PRINCIPAL]("prod", "deploy")
    assert set(workers().values()) == {1}


def test_rights_are_those_of_the_page(deployed: dict[str, str], workspace: Workspace) -> None:
    def granted(schema: str) -> dict[str, set[str]]:
        result = workspace.get(f"/api/2.1/unity-catalog/permissions/schema/{schema}")
        return {e["principal"]: set(e["privileges"]) for e in result["privilege_assignments"]}

    def rights(kind: str, name: str) -> dict[str, str]:
        entries = workspace.get(f"/api/2.0/permissions/{kind}/{name}").get("access_control_list", [])
        return {
            e.get("group_name") or e.get("user_name") or e["service_principal_name"]:
            e["all_permissions"][0]["permission_level"] for e in entries
        }  # fmt: skip

    for name in deployed:
        app_name, scope, schema = NAMES[name]
        app = workspace.get(f"/api/2.0/apps/{app_name}")
        assert [(r["name"], r["sql_warehouse"]) for r in app["resources"]] == [
            ("sql-warehouse", {"id": GIVEN["prod"]["warehouse_id"], "permission": "CAN_USE"})
        ]
        readers = {"analysts": {"USE_SCHEMA", "SELECT"}} if name == "prod" else {}
        assert granted(schema) == {app["service_principal_client_id"]: {"USE_SCHEMA", "SELECT"}, **readers}
        managers = {PRINCIPAL: "CAN_MANAGE", "data engineers": "CAN_MANAGE"} if name == "prod" else {}
        readers_of_app = {"analysts": "CAN_USE"} if name == "prod" else {}
        assert rights("apps", app_name) == managers | readers_of_app
        acls = workspace.get("/api/2.0/secrets/acls/list", scope=scope).get("items", [])
        deployer = PRINCIPAL if name == "prod" else name
        expected = {deployer, "data engineers"} if name == "prod" else {deployer}
        assert {(e["principal"], e["permission"]) for e in acls} == {(who, "MANAGE") for who in expected}
    for job in workspace.jobs():
        if job["settings"]["name"].startswith("tidemark "):
            result = rights("jobs", str(job["job_id"]))
            # Administrators manage every job of a workspace.
            assert result == {PRINCIPAL: "IS_OWNER", "data engineers": "CAN_MANAGE", "admins": "CAN_MANAGE"}
            assert job["settings"]["run_as"] == {"service_principal_name": PRINCIPAL}


def test_the_uploaded_app_serves_a_page(
    deployed: dict[str, str], workspace: Workspace, deployers: dict[str, Deployer], tmp_path: Path
) -> None:
    """From the workspace's files, with the command and environment of the app's deployment."""
    deployers[PRINCIPAL]("prod", "run", "dashboard")
    app = workspace.get("/api/2.0/apps/tidemark")
    deployment = app["active_deployment"]
    source = deployment["source_code_path"]
    assert source == f"{HOME[PRINCIPAL]}/prod/files"
    for path in workspace.files(source):
        file = tmp_path / "files" / path.removeprefix(f"{source}/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(workspace.file(path))
    resources = {resource["name"]: resource["sql_warehouse"]["id"] for resource in app["resources"]}
    environment = {e["name"]: e.get("value") or resources[e["value_from"]] for e in deployment["env_vars"]}

    result = beside_a_warehouse(tmp_path / "files", *deployment["command"], environment=environment)

    assert "<title>Streamlit</title>" in result["page"]
    assert result["titles"] == ["Overview"] and result["exceptions"] == []
    assert result["paths"] == [f"/sql/1.0/warehouses/{GIVEN['prod']['warehouse_id']}"]
    assert result["statements"] and all("`main`.`tidemark`." in sql for sql in result["statements"])


@pytest.mark.timeout(1200)
def test_the_uploaded_wheel_runs_every_deployed_task(
    deployers: dict[str, Deployer], broker: Settings, tmp_path: Path
) -> None:
    settings = fresh(broker, tmp_path)
    with serve(PROGRAMS[1]) as url:
        workspace = Workspace(url)
        deployer = Deployer(PROGRAMS[0], url, checkout(tmp_path / "checkout"), PRINCIPAL)
        deployer("prod", "deploy", given=variables(settings))
        jobs = [job["settings"] for job in workspace.jobs()]
        alerts = workspace.get("/api/2.0/alerts")["alerts"]
        (path,) = {library["whl"] for job in jobs for task in job["tasks"] for library in task["libraries"]}
        wheel = tmp_path / Path(path).name
        wheel.write_bytes(workspace.file(path))
    run_every_task(installed(tmp_path, wheel), settings, jobs, alerts)


def test_nothing_is_left_after_destroy(tmp_path: Path) -> None:
    with serve(PROGRAMS[1]) as url:
        workspace, mine = Workspace(url), deployers_of(url, tmp_path)
        deployments = [(mine[DEVELOPER], "dev"), (mine[PRINCIPAL], "prod")]
        for deployer, target in deployments:
            deployer(target, "deploy")
        assert len(workspace.jobs()) == 10
        for deployer, target in deployments:
            assert "Destroy: 11 deleted" in deployer(target, "destroy", "--auto-approve")
        assert workspace.jobs() == []
        assert not workspace.get("/api/2.0/alerts")["alerts"]
        assert not workspace.get("/api/2.0/secrets/scopes/list").get("scopes")
        for name in (DEVELOPER, "prod"):
            app, _, schema = NAMES[name]
            assert workspace.get(f"/api/2.1/unity-catalog/schemas/{schema}") is None
            assert workspace.get(f"/api/2.1/unity-catalog/volumes/{schema}.state") is None
            # An app goes when its compute has gone, which is a while after the command.
            result = workspace.get(f"/api/2.0/apps/{app}")
            assert result is None or result["compute_status"]["state"] == "DELETING"
        assert [*workspace.files(HOME[DEVELOPER]), *workspace.files(HOME[PRINCIPAL])] == []

"""What the service is made of and how it is deployed: licences, known faults, and what a container may do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.settings import Settings
from tests.serving import serve

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "deploy/requirements.lock"
LICENCES = (ROOT / "deploy/licences.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\S+) \| (\S+) \| ([^|]+) \| (\S+) \|$", LICENCES, re.MULTILINE)

ALLOWED = {"Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0"}
"""Permissive, or binding only the file that it covers."""


# Licences


def test_every_package_of_the_lock_is_listed_with_its_version() -> None:
    locked = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", LOCK.read_text(), re.MULTILINE)
    assert [row[:2] for row in ROWS] == locked, "write it anew: ./deploy/licences"


def test_the_list_says_what_the_packages_say() -> None:
    command = [sys.executable, ROOT / "deploy/licences.py", LOCK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == LICENCES, f"write it anew: ./deploy/licences {done.stderr}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_licence_is_one_that_may_be_used(row: tuple[str, ...]) -> None:
    assert set(re.findall(r"[A-Za-z0-9.-]+", row[2])) - {"AND", "OR"} <= ALLOWED


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("no-such-package==1.0\n", "no-such-package is not installed"),
        ("pip==0.0.1\n", "locked as 0.0.1 and installed as"),
    ],
)
def test_what_is_not_installed_as_locked_is_not_listed(lock: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(lock)
    command = [sys.executable, ROOT / "deploy/licences.py", tmp_path / "lock"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


# Known faults: pip-audit itself, before a source of advisories that says what a test wants

Advisories = Callable[[str, str], Response]


def fault_of(name: str) -> dict[str, Any]:
    fixed = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9.9"}]}]
    affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": fixed}]
    return {"vulns": [{"id": "PYSEC-1", "summary": "A fault.", "affected": affected}]}


def knows_everything(name: str, version: str) -> Response:
    return JSONResponse(fault_of(name) if (name, version) == ("pyyaml", "5.3") else {})


def knows_a_fault_of_idna(name: str, version: str) -> Response:
    return JSONResponse(fault_of(name)) if name == "idna" else knows_everything(name, version)


def knows_nothing(name: str, version: str) -> Response:
    return JSONResponse({})


def is_broken(name: str, version: str) -> Response:
    return Response(status_code=500)


def says_something_else(name: str, version: str) -> Response:
    return Response("<html>Log in to the network</html>", media_type="text/html")


def breaks_in_between(name: str, version: str) -> Response:
    return is_broken(name, version) if name == "idna" else knows_everything(name, version)


@pytest.fixture
def audit(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    (tmp_path / "lock").write_text(
        f"idna==3.20 \\\n    --hash=sha256:{'0' * 64}\nh11==0.16.0 --hash=sha256:{'1' * 64}\n"
    )

    def audited(says: Advisories, lock: str = "lock") -> tuple[int, str]:
        async def answer(request: Request) -> Response:
            asked = await request.json()
            return says(asked["package"]["name"], asked["version"])

        with serve(Starlette(routes=[Route("/v1/query", answer, methods=["POST"])])) as address:
            return ended(tmp_path / lock, f"{address}/v1/query")

    return audited


def ended(lock: Path, source: str) -> tuple[int, str]:
    options = ["--vulnerability-service", "osv", "--osv-url", source, "--timeout", "5"]
    command = [sys.executable, ROOT / "tests/audit.py", lock, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_a_lock_without_a_known_fault_passes(audit: Callable[..., tuple[int, str]]) -> None:
    assert audit(knows_everything) == (0, "2 packages without a known fault\n")


def test_a_known_fault_fails_and_says_where_it_is_mended(audit: Callable[..., tuple[int, str]]) -> None:
    assert audit(knows_a_fault_of_idna) == (1, "idna 3.20: PYSEC-1, mended in 9.9\n")


@pytest.mark.parametrize("says", [knows_nothing, is_broken, says_something_else, breaks_in_between])
def test_where_nobody_can_be_asked_it_neither_passes_nor_fails(
    says: Advisories, audit: Callable[..., tuple[int, str]]
) -> None:
    code, said = audit(says)
    assert code == 3
    assert said.strip()


def test_a_lock_that_cannot_be_read_fails(audit: Callable[..., tuple[int, str]]) -> None:
    assert audit(knows_everything, lock="gone")[0] == 1


def test_a_source_that_is_not_there_is_no_success(tmp_path: Path) -> None:
    code, said = ended(tmp_path / "lock", "http://127.0.0.1:1/v1/query")
    assert code == 3
    assert said.startswith("no source of advisories can be asked from here: ")


# Deployment

MANIFESTS = {
    f"{path.name}: {one['kind']}": one
    for path in sorted((ROOT / "deploy/k8s").glob("*.yaml"))
    for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))
}
COMPOSED = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text(encoding="utf-8"))["services"]
PODS = {name: one["spec"]["template"] for name, one in MANIFESTS.items() if "template" in one.get("spec", {})}
CONTAINERS = {
    f"{name} {container['name']}": (pod["spec"], container)
    for name, pod in PODS.items()
    for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
}
IMAGE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def strata() -> dict[str, Any]:
    return CONTAINERS["deployment.yaml: Deployment strata"][1]


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_is_nobody_in_its_cluster(pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()
    assert [volume for volume in spec.get("volumes", ()) if "hostPath" in volume] == []


@pytest.mark.parametrize(("pod", "container"), CONTAINERS.values(), ids=CONTAINERS)
def test_a_container_may_do_no_more_than_it_needs(pod: dict[str, Any], container: dict[str, Any]) -> None:
    around, own = pod["securityContext"], container["securityContext"]
    assert around["runAsNonRoot"] is True
    assert around["runAsUser"] > 0
    assert around["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["privileged"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("container", [one for _, one in CONTAINERS.values()], ids=CONTAINERS)
def test_a_container_has_bounds_and_probes_and_starts_no_shell(container: dict[str, Any]) -> None:
    assert {"cpu", "memory"} <= container["resources"]["limits"].keys()
    assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
    assert {"livenessProbe", "readinessProbe"} <= container.keys()
    assert not any("exec" in probe for name, probe in container.items() if name.endswith("Probe"))
    assert container.get("command", ["strata"])[0] not in {"sh", "/bin/sh", "bash"}


@pytest.mark.parametrize(("pod", "container"), CONTAINERS.values(), ids=CONTAINERS)
def test_what_is_mounted_is_there_and_ports_are_named(pod: dict[str, Any], container: dict[str, Any]) -> None:
    templates = [one.get("spec", {}).get("volumeClaimTemplates", ()) for one in MANIFESTS.values()]
    claimed = {claim["metadata"]["name"] for claims in templates for claim in claims}
    known = {volume["name"] for volume in pod.get("volumes", ())} | claimed
    assert {mount["name"] for mount in container["volumeMounts"]} <= known
    ports = {port["name"] for port in container["ports"]}
    probes = [probe for name, probe in container.items() if name.endswith("Probe")]
    assert {(probe.get("httpGet") or probe["tcpSocket"])["port"] for probe in probes} <= ports


def test_the_pod_runs_as_the_image_does() -> None:
    pod, container = CONTAINERS["deployment.yaml: Deployment strata"]
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}\n" in IMAGE
    assert f"EXPOSE {container['ports'][0]['containerPort']}\n" in IMAGE
    roots = re.search(r"STRATA_ROOTS=(\S+)", IMAGE)
    assert roots is not None
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in container["volumeMounts"]}
    assert mounts == {roots[1]: True, "/tmp": None}  # noqa: S108 - the container's


def test_traffic_waits_for_readiness_and_only_a_dead_process_is_ended() -> None:
    paths = {name: strata()[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}


def test_no_manifest_holds_a_secret() -> None:
    assert not [name for name, one in MANIFESTS.items() if one["kind"] == "Secret"]
    secret = re.compile(r"KEY|PASSWORD|REDIS_URL")
    given = [entry for _, container in CONTAINERS.values() for entry in container.get("env", ())]
    assert [entry["name"] for entry in given if secret.search(entry["name"]) and "value" in entry] == []


def test_every_setting_that_is_given_is_one() -> None:
    given = {entry["name"] for _, container in CONTAINERS.values() for entry in container.get("env", ())}
    given |= {name for service in COMPOSED.values() for name in service.get("environment", ())}
    named = {name.removeprefix("STRATA_").lower() for name in given if name.startswith("STRATA_")}
    assert named <= set(Settings.model_fields)


def test_services_and_policies_find_their_pods() -> None:
    labels = [pod["metadata"]["labels"] for pod in PODS.values()]
    for one in MANIFESTS.values():
        spec = one.get("spec", {})
        wanted = spec.get("podSelector", spec.get("selector", {}))
        wanted = wanted.get("matchLabels", wanted)
        assert not wanted or wanted in labels


def test_the_kustomization_names_files_that_are_there() -> None:
    listed = MANIFESTS["kustomization.yaml: Kustomization"]["resources"]
    assert {"deployment.yaml", "service.yaml"} <= set(listed)
    assert [name for name in listed if not (ROOT / "deploy/k8s" / name).exists()] == []


@pytest.mark.parametrize("service", COMPOSED.values(), ids=COMPOSED)
def test_a_composed_service_may_do_no_more_than_it_needs(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert {"mem_limit", "pids_limit"} <= service.keys()
    assert not {"privileged", "cap_add", "network_mode", "pid"} & service.keys()


def test_compose_listens_on_this_machine_only_and_lends_workspaces_for_reading() -> None:
    assert all(port.startswith("127.0.0.1:") for port in COMPOSED["strata"]["ports"])
    assert "ports" not in COMPOSED["redis"]
    assert [volume["read_only"] for volume in COMPOSED["strata"]["volumes"]] == [True]


def test_every_image_has_a_tag_or_is_the_one_built_here() -> None:
    images = {container["image"] for _, container in CONTAINERS.values()}
    images |= {service["image"] for service in COMPOSED.values()}
    assert [image for image in images if image != "strata" and not re.search(r":\d[\w.-]*$", image)] == []


# The run of all checks


def test_the_run_says_so_where_there_was_no_data(tmp_path: Path) -> None:
    script = (ROOT / "tests/run").read_text()
    told = script[script.index("summary=()") : script.index('check "ruff check"')]
    checks = 'check a true; check b false; check c bash -c "exit 3"; check_with_data d bash -c "exit 3"; '
    checks += "check_with_data e true; check_with_data f false"
    command = f'set -euo pipefail\n{told}\n{checks}\nprintf \'%s\\n\' "${{summary[@]}}" "$failed"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split("\n")[-8:-1] == [
        "ok       a", "FAILED   b", "FAILED   c", "no data  d", "ok       e", "FAILED   f", "1",
    ]  # fmt: skip


def test_no_data_alone_does_not_fail_the_run(tmp_path: Path) -> None:
    script = (ROOT / "tests/run").read_text()
    told = script[script.index("summary=()") : script.index('check "ruff check"')]
    command = f'set -euo pipefail\n{told}\ncheck_with_data d bash -c "exit 3"\nexit "$failed"'
    subprocess.run(["bash", "-c", command], capture_output=True, check=True, cwd=tmp_path)
    assert "pip-audit" in script

"""The Kubernetes manifests, rendered by kubectl and held against Kubernetes' own schemas and what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from support.deployment import AGENT, DEPLOY, SERVER, containers, manifests
from support.programs import run_program

pytestmark = pytest.mark.programs

OVERLAYS = sorted(path.name for path in (DEPLOY / "kustomize" / "overlays").iterdir())
REGISTRY = "registry.example.org"

# Schemas of the Prometheus operator come with no package; these are the fields that its documentation gives.
SERVICE_MONITOR = {"jobLabel", "selector", "endpoints"}
ENDPOINT = {"port", "path", "interval", "honorLabels", "authorization"}


def rendered(overlay: str) -> str:
    return run_program("kubectl", "kustomize", DEPLOY / "kustomize" / "overlays" / overlay).stdout


def objects(overlay: str) -> list[Any]:
    return list(yaml.safe_load_all(rendered(overlay)))


def pods(overlay: str) -> list[Any]:
    """Specifications of the pods of an overlay."""
    found = [each["spec"]["template"]["spec"] for each in objects(overlay) if "template" in each.get("spec", {})]
    assert found
    return found


def of_kind(overlay: str, kind: str) -> Any:
    [found] = [each for each in objects(overlay) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_one_that_kubernetes_takes(overlay: str, tmp_path: Path) -> None:
    """No misspelt field, in the newest version that the checker knows."""
    core = [each for each in objects(overlay) if each["kind"] != "ServiceMonitor"]
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(core), encoding="utf-8")
    done = run_program("kubernetes-validate", "--strict", path)
    assert (done.stdout + done.stderr).count(" passed ") == len(core), done.stdout + done.stderr


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_has_the_namespace_the_labels_and_the_image_of_the_overlay(overlay: str) -> None:
    for each in objects(overlay):
        assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "fleetridge"
        assert each["kind"] == "PriorityClass" or each["metadata"]["namespace"] == "fleetridge"
        assert all(container["image"].startswith(REGISTRY) for container in containers(each))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_security_goes_as_far_down_as_it_can(overlay: str) -> None:
    for pod in pods(overlay):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(pod)
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert {"requests", "limits"} <= set(container["resources"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_giving_the_state_folder_away_is_done_by_root(overlay: str) -> None:
    for pod in pods(overlay):
        for container in pod.get("initContainers", ()):
            user, group = pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]
            assert container["command"] == ["chown", f"{user}:{group}", "/var/lib/fleetridge"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}


def test_every_folder_of_the_host_has_its_reason() -> None:
    found = 0
    for path in (DEPLOY / "kustomize").rglob("*.yaml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if "hostPath:" in line:
                found += 1
                # "- name:" stands between the reason and the path.
                assert lines[number - 2].lstrip().startswith("#"), f"{path}:{number + 1}"
    assert found


@pytest.mark.parametrize("overlay", [name for name in OVERLAYS if not name.startswith("server")])
def test_the_agent_s_token_can_be_read_by_the_agent_and_by_no_other_user(overlay: str) -> None:
    """A secret's file belongs to root; without the group of the pod the agent could not open it."""
    [pod] = pods(overlay)
    [volume] = [volume for volume in pod["volumes"] if "secret" in volume]
    mode = volume["secret"]["defaultMode"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    assert mode & 0o040
    assert not mode & 0o007
    [place] = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == volume["name"]]
    assert of_kind(overlay, "ConfigMap")["data"]["FLEETRIDGE_TOKEN_FILE"] == f"{place}/token"


@pytest.mark.parametrize("overlay", ["sweep", "sweep-runtime-class", "sweep-mig"])
def test_a_sweep_owns_its_gpus_and_makes_room_for_everybody(overlay: str) -> None:
    [pod] = pods(overlay)
    resources = pod["containers"][0]["resources"]
    gpus = {name: count for name, count in resources["limits"].items() if name.startswith("nvidia.com/")}
    assert len(gpus) == 1
    assert gpus.items() <= resources["requests"].items()
    priority = of_kind(overlay, "PriorityClass")
    assert pod["priorityClassName"] == priority["metadata"]["name"]
    assert priority["value"] < 0
    assert priority["preemptionPolicy"] == "Never"
    job = of_kind(overlay, "Job")["spec"]
    # The API server refuses these in combinations that no schema knows.
    assert job["completionMode"] == "Indexed"
    assert pod["restartPolicy"] == "Never"
    assert job.get("maxFailedIndexes", 0) <= job["completions"]


@pytest.mark.parametrize("overlay", ["daemonset", "daemonset-runtime-class"])
def test_the_daemon_asks_for_no_gpu_and_sees_all(overlay: str) -> None:
    [pod] = pods(overlay)
    [container] = pod["containers"]
    assert not any("nvidia.com" in name for kind in container["resources"].values() for name in kind)
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    [node] = [each for each in container["env"] if each["name"] == "NODE_NAME"]
    assert node["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}


@pytest.mark.parametrize("overlay", ["daemonset-runtime-class", "sweep-runtime-class"])
def test_the_runtime_class_is_asked_for_only_where_it_is_wanted(overlay: str) -> None:
    assert pods(overlay)[0]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in pods(overlay.removesuffix("-runtime-class"))[0]


@pytest.mark.parametrize("overlay", ["server", "server-monitored"])
def test_the_server_is_two_replicas_of_which_one_stays(overlay: str) -> None:
    deployment = of_kind(overlay, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    assert of_kind(overlay, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    [container] = deployment["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        of_kind(overlay, "Service")["spec"]["selector"],
        of_kind(overlay, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()


def test_the_service_monitor_finds_the_service_and_names_the_job_as_the_rules_expect() -> None:
    monitor = of_kind("server-monitored", "ServiceMonitor")["spec"]
    service = of_kind("server-monitored", "Service")
    assert set(monitor) == SERVICE_MONITOR
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["endpoints"]
    assert set(endpoint) == ENDPOINT
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "fleetridge"


def test_every_object_that_is_written_down_is_in_an_overlay() -> None:
    used = {(each["kind"], each["metadata"]["name"]) for overlay in OVERLAYS for each in objects(overlay)}
    written = {(manifest["kind"], manifest["metadata"]["name"]) for _, manifest in manifests()}
    assert written <= used
    assert {AGENT, SERVER} <= {name for _, name in used}

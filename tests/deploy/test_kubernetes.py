"""The Kubernetes manifests, rendered by kubectl and held against Kubernetes' own schemas and what they promise."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from fleetridge_agent.config import options
from fleetridge_agent.config.setting_types import Source
from support.deployment import AGENT, DEPLOY, SERVER, containers, manifests, pod_of
from support.distributions import CHECKOUT
from support.programs import run_program

pytestmark = pytest.mark.programs

OVERLAYS = sorted(path.name for path in (DEPLOY / "kustomize" / "overlays").iterdir())
OF_AGENTS = [name for name in OVERLAYS if not name.startswith("server")]
OF_SERVERS = [name for name in OVERLAYS if name.startswith("server")]
REGISTRY = "registry.example.org"

# The first in which a container may sleep before it ends without anybody switching that on.
OLDEST_KUBERNETES = "1.30.0"

# Schemas of the Prometheus operator come with no package; these are the fields that its documentation gives.
SERVICE_MONITOR = {"jobLabel", "selector", "endpoints"}
ENDPOINT = {"port", "path", "interval", "honorLabels", "authorization"}


def rendered(overlay: str) -> str:
    return run_program("kubectl", "kustomize", DEPLOY / "kustomize" / "overlays" / overlay).stdout


def objects(overlay: str) -> list[Any]:
    return list(yaml.safe_load_all(rendered(overlay)))


def pods(overlay: str) -> list[Any]:
    """Specifications of the pods of an overlay."""
    found = [pod_of(each)["spec"] for each in objects(overlay) if pod_of(each)]
    assert found
    return found


def of_kind(overlay: str, kind: str) -> Any:
    [found] = [each for each in objects(overlay) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, "1.37.0"])
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_one_that_kubernetes_takes(overlay: str, version: str, tmp_path: Path) -> None:
    """No misspelt field, in the oldest version that the page names and in the newest that the checker knows."""
    core = [each for each in objects(overlay) if each["kind"] != "ServiceMonitor"]
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(core), encoding="utf-8")
    done = run_program("kubernetes-validate", "--strict", "--kubernetes-version", version, path)
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
            # Else the image asks for every GPU, which some clusters refuse to whoever has not requested one.
            assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


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


@pytest.mark.parametrize("overlay", OF_AGENTS)
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


@pytest.mark.parametrize("overlay", [name for name in OF_AGENTS if name.startswith("sweep")])
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


@pytest.mark.parametrize("overlay", [name for name in OF_AGENTS if name.startswith("daemonset")])
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


def test_only_the_overlay_that_says_so_goes_onto_every_node() -> None:
    everywhere = {overlay for overlay in OF_AGENTS if {"operator": "Exists"} in pods(overlay)[0]["tolerations"]}
    assert everywhere == {"daemonset-tolerate-everything"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_has_a_network_policy_of_its_own_that_lets_it_ask_for_names(overlay: str) -> None:
    policies = [each["spec"] for each in objects(overlay) if each["kind"] == "NetworkPolicy"]
    for pod in filter(None, map(pod_of, objects(overlay))):
        labels = pod["metadata"]["labels"].items()
        [policy] = [each for each in policies if each["podSelector"]["matchLabels"].items() <= labels]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert {("UDP", 53), ("TCP", 53)} <= ports_out(policy)


def ports_out(policy: Any) -> set[tuple[str, int]]:
    """Ports that a network policy lets a pod call, wherever they are."""
    return {(port["protocol"], port["port"]) for rule in policy["egress"] for port in rule["ports"]}


@pytest.mark.parametrize("overlay", OF_SERVERS)
def test_whatever_has_the_database_s_address_may_reach_it(overlay: str) -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in objects(overlay) if each["kind"] == "NetworkPolicy"}
    for each in objects(overlay):
        for container in containers(each):
            assert "DATABASE_URL" in {variable["name"] for variable in container["env"]}
            assert ("TCP", 5432) in ports_out(policies[each["metadata"]["name"]])


@pytest.mark.parametrize("overlay", OF_SERVERS)
def test_agents_and_those_who_were_let_in_reach_the_server_where_it_listens(overlay: str) -> None:
    [policy] = [
        each["spec"]
        for each in objects(overlay)
        if (each["kind"], each["metadata"]["name"]) == ("NetworkPolicy", SERVER)
    ]
    [rule] = policy["ingress"]
    [container] = pod_of(of_kind(overlay, "Deployment"))["spec"]["containers"]
    assert [port["port"] for port in rule["ports"]] == [port["containerPort"] for port in container["ports"]]
    pods_in, namespaces_in = rule["from"]
    agent = pod_of(of_kind("daemonset", "DaemonSet"))["metadata"]["labels"]
    assert pods_in["podSelector"]["matchLabels"].items() <= agent.items()
    assert namespaces_in == {"namespaceSelector": {"matchLabels": {"fleetridge-access": "true"}}}


@pytest.mark.parametrize("overlay", OF_AGENTS)
def test_the_agent_may_call_the_server_that_it_is_told_of_and_send_its_token_there(overlay: str) -> None:
    given = of_kind(overlay, "ConfigMap")["data"]
    source = Source(argparse.Namespace(), given)
    address = urlsplit(options.SERVER.required(source))
    service = of_kind("server", "Service")
    inside = {f"{service['metadata']['name']}:{port['port']}" for port in service["spec"]["ports"]}
    policy = of_kind(overlay, "NetworkPolicy")["spec"]
    if address.scheme == "http":
        assert address.netloc in inside
        assert options.ALLOW_PLAIN_HTTP.value(source)
    else:
        assert not options.ALLOW_PLAIN_HTTP.value(source)
    assert ("TCP", address.port or 443) in ports_out(policy)


def test_the_migration_can_be_applied_alone_as_the_page_about_operations_does() -> None:
    page = (CHECKOUT / "docs" / "operations.md").read_text(encoding="utf-8")
    [name, value] = re.findall(r"--selector (\S+)=(\S+)$", page, flags=re.MULTILINE)[0]
    for overlay in OF_SERVERS:
        chosen = [each["kind"] for each in objects(overlay) if each["metadata"]["labels"].get(name) == value]
        assert chosen == ["Job"]


def test_documents_are_dropped_where_that_is_asked_for_alone_and_by_one_at_a_time() -> None:
    assert [overlay for overlay in OF_SERVERS if "CronJob" in rendered(overlay)] == ["server-retention"]
    job = of_kind("server-retention", "CronJob")["spec"]
    assert job["concurrencyPolicy"] == "Forbid"
    [container] = pod_of(of_kind("server-retention", "CronJob"))["spec"]["containers"]
    assert "--once" in container["args"]


@pytest.mark.parametrize("overlay", OF_SERVERS)
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

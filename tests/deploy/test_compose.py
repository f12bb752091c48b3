"""What docker compose is told, as far as its file alone can say it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.deployment import AGENT, SERVER, compose
from support.distributions import CHECKOUT
from support.dockerfile import read_stages

SERVICES: dict[str, Any] = compose()["services"]
OURS = [name for name, service in SERVICES.items() if service["image"].startswith((AGENT, SERVER))]
OF_THE_SERVER = [name for name in OURS if SERVICES[name]["image"].startswith(SERVER)]


def test_what_starts_by_itself_is_the_server_and_what_it_needs() -> None:
    profiles = {name: service.get("profiles", []) for name, service in SERVICES.items()}
    assert {name for name, named in profiles.items() if not named} == {"database", "migrate", "server"}
    assert profiles["agent"] == ["gpu"]
    assert profiles["demo"] == ["demo"]
    assert profiles["prometheus"] == profiles["grafana"] == ["monitoring"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_port_is_open_on_this_machine_alone(name: str) -> None:
    assert [port for port in SERVICES[name].get("ports", ()) if not port.startswith("127.0.0.1:")] == []


def test_the_database_s_folder_is_where_its_image_keeps_it() -> None:
    """From 18 on the image ends at once where a volume lies at …/data, as earlier ones had it."""
    image = SERVICES["database"]["image"]
    assert int(re.sub(r"\D.*", "", image.partition(":")[2])) >= 18
    assert [volume.partition(":")[2] for volume in SERVICES["database"]["volumes"]] == ["/var/lib/postgresql"]


def test_no_secret_has_a_default() -> None:
    text = (CHECKOUT / "docker-compose.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{\w*PASSWORD([^}]{2})", text)) == {":?"}


def test_each_step_waits_until_the_one_before_it_is_done() -> None:
    waits = {
        name: {other: how["condition"] for other, how in service["depends_on"].items()}
        for name, service in SERVICES.items()
        if "depends_on" in service
    }
    assert waits == {
        "migrate": {"database": "service_healthy"},
        "server": {"migrate": "service_completed_successfully"},
        "demo": {"server": "service_healthy"},
        "agent": {"server": "service_healthy"},
    }
    assert "healthcheck" in SERVICES["database"]
    assert "/readyz" in read_stages(CHECKOUT / "Dockerfile")[-1].last("HEALTHCHECK").text


@pytest.mark.parametrize("name", OURS)
def test_our_containers_write_nothing_but_their_folders_and_may_do_nothing_else(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]  # noqa: S108 # a folder of the container
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_agent_s_reports_outlive_its_container_in_a_folder_of_its_user() -> None:
    image = read_stages(CHECKOUT / "Dockerfile.gpu")[-1].variables()
    [volume] = SERVICES["agent"]["volumes"]
    assert volume.partition(":")[2] == image["FLEETRIDGE_STATE_DIR"]
    [gpus] = SERVICES["agent"]["deploy"]["resources"]["reservations"]["devices"]
    assert gpus["capabilities"] == ["gpu"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_has_a_version(name: str) -> None:
    tag = SERVICES[name]["image"].partition(":")[2]
    if name in OURS:
        assert tag == "${FLEETRIDGE_VERSION:-local}"
    else:
        assert re.match(r"v?\d+\.\d+", tag)


def test_the_index_of_torch_is_pip_s_own_unless_somebody_names_another() -> None:
    assert SERVICES["agent"]["build"]["args"]["TORCH_INDEX_URL"] == "${TORCH_INDEX_URL:-}"
    stage = read_stages(CHECKOUT / "Dockerfile.gpu")[-1]
    assert "TORCH_INDEX_URL=" in [each.text for each in stage.instructions if each.name == "ARG"]

"""Variables that look like ours and are none."""

from __future__ import annotations

import pytest

from fleetridge_agent.config.variables import known_variables, unknown_variables


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("FLEETRIDGE_CLUSTR", "FLEETRIDGE_CLUSTER"),
        ("FLEETRIDGE_SERVERS", "FLEETRIDGE_SERVER"),
        ("FLEETRIDGE_TOKENFILE", "FLEETRIDGE_TOKEN_FILE"),
        ("FLEETRIDGE_LABELS", "FLEETRIDGE_LABEL"),
        ("FLEETRIDGE_STATEDIR", "FLEETRIDGE_STATE_DIR"),
        ("FLEETRIDGE_QQQQQQ", None),
    ],
)
def test_a_misspelt_variable_is_found_with_the_nearest(name: str, nearest: str | None) -> None:
    (found,) = unknown_variables({name: "x"})

    assert (found.name, found.nearest) == (name, nearest)
    assert str(found).startswith(f"{name} is no setting of this agent")


def test_every_known_variable_is_known() -> None:
    assert {"FLEETRIDGE_SERVER", "FLEETRIDGE_CONTAINER_IMAGE", "NODE_NAME"} <= known_variables()
    assert unknown_variables(dict.fromkeys(known_variables(), "x")) == ()


def test_variables_of_others_are_their_own_business() -> None:
    assert unknown_variables({"PATH": "x", "NVIDIA_VISIBLE_DEVICES": "all", "fleetridge_x": "y"}) == ()
    assert unknown_variables({"FLEETRIDGE_SERVER_PORT": "8000", "FLEETRIDGE_SLURM_DRAIN": "1"}) == ()


def service_variables(service: str) -> dict[str, str]:
    """What Kubernetes puts into every pod of a namespace for a Service in it, where nobody turns that off."""
    name = service.upper().replace("-", "_")
    return {
        f"{name}_SERVICE_HOST": "10.0.0.1",
        f"{name}_SERVICE_PORT": "8000",
        f"{name}_SERVICE_PORT_HTTP": "8000",
        f"{name}_PORT": "tcp://10.0.0.1:8000",
        f"{name}_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        f"{name}_PORT_8000_TCP_PROTO": "tcp",
        f"{name}_PORT_8000_TCP_PORT": "8000",
        f"{name}_PORT_8000_TCP_ADDR": "10.0.0.1",
    }


@pytest.mark.parametrize("service", ["fleetridge", "fleetridge-server", "fleetridge-agent", "fleetridge-api-2"])
def test_what_kubernetes_sets_for_a_service_is_no_misspelling(service: str) -> None:
    assert unknown_variables(service_variables(service)) == ()


@pytest.mark.parametrize("setting", sorted(known_variables()))
def test_no_service_can_set_a_setting(setting: str) -> None:
    """A Service called fleetridge-x sets FLEETRIDGE_X_PORT, so no setting may end like that."""
    assert not setting.endswith(tuple(service_variables("")))

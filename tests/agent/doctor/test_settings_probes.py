"""Whether the settings say what was meant."""

from __future__ import annotations

import pytest

from fleetridge_agent.doctor import state_probes
from support.nodes import SickNode, severities


def test_settings_that_can_be_read_are_well(node: SickNode) -> None:
    node.environ["FLEETRIDGE_CLUSTER"] = "east"

    assert severities(node.findings(state_probes.settings)) == [("settings", "ok")]


def test_a_value_that_cannot_be_read_is_a_problem(node: SickNode) -> None:
    node.environ["FLEETRIDGE_REPS"] = "many"
    (found,) = node.findings(state_probes.settings)

    assert (found.severity, found.seen) == ("problem", "FLEETRIDGE_REPS: 'many' is not a whole number")


def test_a_misspelt_variable_is_a_warning_that_names_the_nearest(node: SickNode) -> None:
    node.environ["FLEETRIDGE_CLUSTR"] = "east"
    (found,) = node.findings(state_probes.settings)

    assert (found.severity, found.remedy) == ("warning", "did you mean FLEETRIDGE_CLUSTER?")


@pytest.mark.parametrize(
    ("mode", "severity"), [(0o600, "ok"), (0o400, "ok"), (0o440, "ok"), (0o644, "warning"), (0o660, "warning")]
)
def test_a_token_that_others_may_read_is_a_warning(node: SickNode, mode: int, severity: str) -> None:
    node.with_file("token", "made-up")
    (node.root / "token").chmod(mode)
    (found,) = node.findings(state_probes.token_file, "--token-file", str(node.root / "token"))

    assert found.severity == severity
    assert f"{mode:04o}" in found.seen
    assert "made-up" not in str(found)


def test_no_token_file_is_nobodys_trouble(node: SickNode) -> None:
    assert node.findings(state_probes.token_file) == []
    assert node.findings(state_probes.token_file, "--token-file", "/nowhere/token") == []

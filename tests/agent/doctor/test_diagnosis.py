"""All probes together."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fleetridge.terminal_text import display_width
from fleetridge_agent.doctor.diagnosis import PROBES, diagnose, diagnosis_json, diagnosis_text
from fleetridge_agent.doctor.facts import NvmlFacts, TorchFacts
from fleetridge_agent.doctor.probe import Finding, NodeState, SettingInForce, ok
from support.nodes import CARDS, SickNode, severities

WELL = ("--server", "https://f.example")


@pytest.fixture
def well(node: SickNode) -> SickNode:
    """A node with nothing in its way."""
    return node.with_device_nodes("nvidiactl", "nvidia-uvm", "nvidia0", "nvidia1")


def test_a_well_node_is_well(well: SickNode) -> None:
    diagnosis = diagnose(well.state(*WELL))

    assert diagnosis.is_well
    assert {finding.severity for finding in diagnosis.findings} == {"ok", "not checked"}
    assert diagnosis_text(diagnosis).endswith("Nothing stands in the way of measuring and delivering.")


def test_warnings_stand_in_nobodys_way(well: SickNode) -> None:
    well.environ["FLEETRIDGE_CLUSTR"] = "east"

    assert diagnose(well.state(*WELL)).is_well


def test_a_problem_does_and_is_named_in_the_last_line(well: SickNode) -> None:
    well.cuda = "it does not answer within 60 s"
    diagnosis = diagnose(well.state(*WELL))

    assert not diagnosis.is_well
    assert diagnosis_text(diagnosis).endswith("What stands in the way: CUDA.")


def test_a_probe_that_breaks_costs_no_other(well: SickNode) -> None:
    def broken(_: NodeState) -> Iterator[Finding]:
        yield ok("first half", "well")
        raise RuntimeError("nobody expected this")

    diagnosis = diagnose(well.state(*WELL), {"broken": broken, "after": lambda _: [ok("after", "well")]})

    assert severities(list(diagnosis.findings)) == [("first half", "ok"), ("broken", "not checked"), ("after", "ok")]


def test_what_was_never_tried_on_silicon_is_always_said(well: SickNode) -> None:
    untried = [finding for finding in diagnose(well.state(*WELL)).findings if finding.what == "untried"]

    assert [(finding.severity, finding.seen.partition(":")[0]) for finding in untried] == [
        ("not checked", "ROCm"),
        ("not checked", "MIG slices"),
    ]


def test_a_node_that_has_what_was_never_tried_is_warned(well: SickNode) -> None:
    well.nvml = NvmlFacts(cards=(CARDS[0].model_copy(update={"split": True, "slices": 2}),))
    well.torch = TorchFacts(version="2.11.0+rocm6.4", hip="6.4", rocm_gpus=8)
    untried = [finding for finding in diagnose(well.state(*WELL)).findings if finding.what == "untried"]

    assert [finding.severity for finding in untried] == ["warning", "warning"]


def test_every_probe_is_asked_in_an_order_in_which_one_trouble_explains_the_next() -> None:
    assert list(PROBES)[:5] == ["device nodes", "NVML", "cards", "CUDA", "torch"]


def test_the_text_fits_80_columns_whatever_the_names(well: SickNode) -> None:
    hostile = "\x1b[2J\u202e" + "显卡" * 80
    well.nvml = NvmlFacts(driver=hostile, cards=(CARDS[0].model_copy(update={"device": hostile, "use": hostile}),))
    well.environ.update({"FLEETRIDGE_CLUSTER": "x" * 300, "HTTPS_PROXY": f"http://{'y' * 200}.example"})
    text = diagnosis_text(diagnose(well.state(*WELL)))

    assert max(display_width(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_settings_are_shown_with_where_they_come_from(well: SickNode) -> None:
    well.environ.update({"NODE_NAME": "n7", "FLEETRIDGE_CLUSTER": "east", "NO_PROXY": "f.example"})
    shown = {entry.name: (entry.value, entry.origin) for entry in _settings(well)}

    assert shown["server"] == ("https://f.example", "--server")
    assert shown["cluster"] == ("east", "FLEETRIDGE_CLUSTER")
    assert shown["node"] == ("n7", "NODE_NAME")
    assert shown["jitter"] == ("2h", "default")
    assert shown["state-dir"] == (str(well.root / "state"), "default")
    assert shown["ca-file"] == (None, "not set")
    assert shown["NO_PROXY"] == ("f.example", "NO_PROXY")


def _settings(node: SickNode) -> list[SettingInForce]:
    diagnosis = diagnose(node.state(*WELL))
    return [*diagnosis.settings, *diagnosis.foreign]


def test_no_secret_is_in_any_form(well: SickNode) -> None:
    well.with_file("token", "frt_hunter2")
    well.environ.update({"HTTPS_PROXY": "http://me:hunter2@proxy.example", "ALL_PROXY": "me:hunter2@proxy.example"})
    address = "https://me:hunter2@f.example"
    diagnosis = diagnose(well.state("--server", address, "--token-file", str(well.root / "token")))

    for form in (diagnosis_text(diagnosis), diagnosis_json(diagnosis)):
        assert "hunter2" not in form
        assert "https://***@f.example" in form
    assert str(well.root / "token") in diagnosis_json(diagnosis)


def test_programs_get_the_same(well: SickNode) -> None:
    well.torch = TorchFacts(version="2.11.0+cpu")
    content = json.loads(diagnosis_json(diagnose(well.state(*WELL))))

    assert content["well"] is False
    assert {"what": "torch", "severity": "problem"}.items() <= next(
        finding for finding in content["findings"] if finding["what"] == "torch"
    ).items()
    assert {"name", "value", "origin"} == set(content["settings"][0])

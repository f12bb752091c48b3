"""Alerts in Alertmanager's shape."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from fleetridge_server.notify.payload import AlertView, message

OPENED = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
RESOLVED = datetime(2026, 11, 21, 3, tzinfo=timezone.utc)

ALERT = AlertView(
    id=7,
    kind="gpu",
    subject="GPU-1",
    device="H200",
    slug="h200",
    cluster="east",
    node="n 1",
    rack=None,
    gpu="GPU-1",
    state="outlier",
    summary="GPU-1 on n 1 is 8.1 % slower than its peers: too hot",
    details={"reason": "thermal", "loss": 0.081, "gpu_ids": ["GPU-1"], "roofs": []},
    opened_at=OPENED,
    resolved_at=None,
)


def told(*alerts: AlertView) -> Any:
    return json.loads(message(alerts, public_url="https://fleet.example"))


def test_a_message_has_every_field_that_alertmanager_sends() -> None:
    content = told(ALERT)
    assert set(content) == {
        "version", "groupKey", "truncatedAlerts", "status", "receiver", "groupLabels", "commonLabels",
        "commonAnnotations", "externalURL", "alerts",
    }  # fmt: skip
    assert (content["version"], content["status"], content["externalURL"]) == ("4", "firing", "https://fleet.example")
    [alert] = content["alerts"]
    assert set(alert) == {
        "status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint",
    }  # fmt: skip


def test_an_alert_says_what_it_is_about_and_what_is_known() -> None:
    [alert] = told(ALERT)["alerts"]
    assert alert["labels"] == {
        "alertname": "GpuDegraded",
        "kind": "gpu",
        "device": "H200",
        "cluster": "east",
        "node": "n 1",
        "gpu": "GPU-1",
    }
    assert alert["annotations"]["summary"] == ALERT.summary
    assert (alert["annotations"]["state"], alert["annotations"]["loss"]) == ("outlier", "8.1 %")
    assert alert["generatorURL"] == "https://fleet.example/gpus/GPU-1"
    assert (alert["startsAt"], alert["endsAt"]) == ("2026-11-20T03:00:00Z", "0001-01-01T00:00:00Z")


def test_all_labels_and_annotations_are_text() -> None:
    [alert] = told(ALERT)["alerts"]
    assert all(isinstance(value, str) for value in [*alert["labels"].values(), *alert["annotations"].values()])


def test_the_end_of_an_alert_is_told_under_its_fingerprint() -> None:
    [firing] = told(ALERT)["alerts"]
    content = told(replace(ALERT, resolved_at=RESOLVED, state="ok", summary="well again", node="n 2"))
    [over] = content["alerts"]
    assert (content["status"], over["status"], over["endsAt"]) == ("resolved", "resolved", "2026-11-21T03:00:00Z")
    assert over["fingerprint"] == firing["fingerprint"]


def test_another_subject_has_another_fingerprint() -> None:
    assert replace(ALERT, subject="GPU-2").fingerprint != ALERT.fingerprint
    assert replace(ALERT, kind="missing").fingerprint != ALERT.fingerprint


def test_a_message_is_firing_as_long_as_one_of_its_alerts_is() -> None:
    content = told(replace(ALERT, resolved_at=RESOLVED), replace(ALERT, gpu="GPU-2", subject="GPU-2"))
    assert content["status"] == "firing"
    assert content["commonLabels"] == {
        "alertname": "GpuDegraded", "kind": "gpu", "device": "H200", "cluster": "east", "node": "n 1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"gpu": None}, "/nodes/n%201?cluster=east"),
        ({"gpu": None, "node": None}, "/devices/h200/ridge"),
        ({"gpu": "a/b"}, "/gpus/a%2Fb"),
    ],
)
def test_the_link_leads_to_what_the_alert_is_about(changes: dict[str, Any], path: str) -> None:
    [alert] = told(replace(ALERT, **changes))["alerts"]
    assert alert["generatorURL"] == f"https://fleet.example{path}"


def test_a_kind_that_is_new_has_a_name_too() -> None:
    [alert] = told(replace(ALERT, kind="fabric"))["alerts"]
    assert alert["labels"]["alertname"] == "FleetridgeFabric"

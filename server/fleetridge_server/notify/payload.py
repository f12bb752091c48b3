"""
Alerts in the shape of Alertmanager's webhook, version 4.

Pure: alerts in, JSON text out. Whatever takes Alertmanager's webhook takes this one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from fleetridge.quantities import percent

Status = Literal["firing", "resolved"]

_VERSION = "4"
_RECEIVER = "fleetridge"

# Alertmanager's way to say that something is not over.
_NOT_ENDED = "0001-01-01T00:00:00Z"

# As many digits as Alertmanager's own fingerprints have.
_FINGERPRINT_DIGITS = 16

# Of a rack some gpus are named; the page that `generatorURL` names has all.
_GPUS_NAMED = 32

_NAMES: Mapping[str, str] = {
    "gpu": "GpuDegraded",
    "node": "NodeSlow",
    "rack": "RackSlow",
    "setting": "SettingSlow",
    "version": "VersionSlower",
    "cohort": "CohortSlower",
    "missing": "GpuMissing",
    "health": "GpuNeedsRepair",
}


@dataclass(frozen=True, slots=True)
class AlertView:
    """
    An alert, as far as a message has it (fields as in `db.verdict_tables.Alert`).

    Attributes:
        device, slug: canonical name of the device, and its form for addresses.
    """

    id: int
    kind: str
    subject: str
    device: str
    slug: str
    cluster: str | None
    node: str | None
    rack: str | None
    gpu: str | None
    state: str
    summary: str
    details: Mapping[str, Any]
    opened_at: datetime
    resolved_at: datetime | None

    @property
    def status(self) -> Status:
        """Whether it goes on."""
        return "firing" if self.resolved_at is None else "resolved"

    @property
    def labels(self) -> dict[str, str]:
        """What it is about."""
        named = {
            "alertname": _NAMES.get(self.kind, f"Fleetridge{self.kind.title()}"),
            "kind": self.kind,
            "device": self.device,
            "cluster": self.cluster,
            "rack": self.rack,
            "node": self.node,
            "gpu": self.gpu,
        }
        return {name: value for name, value in named.items() if value}

    @property
    def annotations(self) -> dict[str, str]:
        """What is known of it now."""
        loss, gpus = self.details.get("loss"), self.details.get("gpu_ids") or ()
        said = {
            "summary": self.summary,
            "state": self.state,
            "reason": self.details.get("reason"),
            "loss": percent(loss) if isinstance(loss, float | int) else None,
            "gpus": ", ".join(map(str, gpus[:_GPUS_NAMED])),
            "alert_id": str(self.id),
        }
        return {name: str(value) for name, value in said.items() if value}

    @property
    def fingerprint(self) -> str:
        """Hash of what it is about; a gpu that moves to another node meanwhile is still the same alert."""
        about = json.dumps([self.kind, self.device, self.subject])
        return hashlib.sha256(about.encode()).hexdigest()[:_FINGERPRINT_DIGITS]


def message(alerts: Sequence[AlertView], *, public_url: str) -> str:
    """
    JSON text of a message about some alerts.

    Args:
        alerts: at least one.
        public_url: at which people reach this server, without a slash at the end.
    """
    content = {
        "version": _VERSION,
        "groupKey": f"{_RECEIVER}/{{}}:{{}}",
        "truncatedAlerts": 0,
        "status": "firing" if any(alert.status == "firing" for alert in alerts) else "resolved",
        "receiver": _RECEIVER,
        "groupLabels": {},
        "commonLabels": _common(alert.labels for alert in alerts),
        "commonAnnotations": _common(alert.annotations for alert in alerts),
        "externalURL": public_url,
        "alerts": [_entry(alert, public_url) for alert in alerts],
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _entry(alert: AlertView, public_url: str) -> dict[str, Any]:
    return {
        "status": alert.status,
        "labels": alert.labels,
        "annotations": alert.annotations,
        "startsAt": _rfc3339(alert.opened_at),
        "endsAt": _NOT_ENDED if alert.resolved_at is None else _rfc3339(alert.resolved_at),
        "generatorURL": f"{public_url}{_path(alert)}",
        "fingerprint": alert.fingerprint,
    }


def _path(alert: AlertView) -> str:
    if alert.gpu:
        return f"/gpus/{quote(alert.gpu, safe='')}"
    if alert.node:
        return f"/nodes/{quote(alert.node, safe='')}?cluster={quote(alert.cluster or '', safe='')}"
    return f"/devices/{quote(alert.slug, safe='')}/ridge"


def _common(sets: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all have alike."""
    first, *others = (dict(each) for each in sets)
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")

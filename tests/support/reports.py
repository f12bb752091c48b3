"""Reports to post, store and compare in tests: complete by default, changed where a test needs it."""

from __future__ import annotations

import copy
from typing import Any

from fleetridge.uuid7 import uuid7

_MEASURED: dict[str, Any] = {
    "schema_version": "1.0",
    "measured_from": "2026-11-20T02:00:00Z",
    "measured_to": "2026-11-20T02:00:20Z",
    "run": {
        "run_id": "0198c0de-0000-7000-8000-000000000001",
        "kind": "cron",
        "roster": [{"uuid": "GPU-00000001", "pci_bus_id": "0000:1A:00.0", "index": 0, "device": "NVIDIA H200"}],
        "roster_complete": True,
    },
    "outcome": "measured",
    "agent": {"version": "0.1.0", "protocol_version": 1, "method": "standard", "arguments": ["run"]},
    "node": {"cluster": "east", "name": "node-01", "labels": {"rack": "r1"}},
    "gpu": {
        "uuid": "GPU-00000001",
        "pci_bus_id": "0000:1A:00.0",
        "index": 0,
        "device": "NVIDIA H200",
        "architecture": "sm_90",
        "memory_bytes": 150754820096,
        "sm_count": 132,
    },
    "environment": {
        "torch": "2.11.0",
        "runtime": "cuda 13.0",
        "driver": "580.159.04",
        "power_limit_w": 700.0,
        "allow_tf32": False,
    },
    "evidence": {"phases": [], "other_processes": 0, "contended": False},
    "sweep": {"profile": "standard", "dtypes": ["bfloat16"], "fill": "normal", "seed": 1},
    "points": [
        {
            "kind": "gemm",
            "dtype": "bfloat16",
            "out_dtype": "bfloat16",
            "label": "reference",
            "M": 1536,
            "K": 13568,
            "N": 11264,
            "ms": 0.555,
            "spread": 0.004,
            "reps": 64,
            "regime": "burst",
            "l2": "cold",
        },
        {
            "kind": "stream",
            "dtype": "float32",
            "kernel": "read",
            "bytes": 4294967296,
            "ms": 0.969,
            "spread": 0.001,
            "reps": 40,
            "regime": "burst",
            "l2": "cold",
        },
    ],
}


def make_report(**changes: Any) -> dict[str, Any]:
    """
    A measured report as JSON values, with an id of its own.

    A change names a field, with `__` between levels (`gpu__uuid="GPU-2"`); a top-level dict or list replaces the whole.
    `pi_tflops` and `beta_gbps` are short for one judged compute and one judged memory roof (None leaves it out).
    """
    pi_tflops = changes.pop("pi_tflops", 845.0)
    beta_gbps = changes.pop("beta_gbps", 4430.0)
    report = copy.deepcopy(_MEASURED)
    report["report_id"] = str(uuid7())
    report["roofs"] = [
        *([] if pi_tflops is None else [compute_roof(pi_tflops)]),
        *([] if beta_gbps is None else [memory_roof(beta_gbps)]),
    ]
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = report
        for parent in parents:
            place = place[parent]
        place[last] = value
    return report


def make_skipped_report(reason: str, *, outcome: str = "skipped", **changes: Any) -> dict[str, Any]:
    """A report without rates, which says why in `reason`."""
    return make_report(outcome=outcome, reason=reason, points=[], roofs=[], **changes)


def compute_roof(pi_tflops: float, **changes: Any) -> dict[str, Any]:
    """A judged compute roof: bfloat16, burst."""
    return {
        "kind": "compute",
        "dtype": "bfloat16",
        "out_dtype": "bfloat16",
        "regime": "burst",
        "level": "device",
        "kernel": "gemm_reference",
        "value": pi_tflops,
        "unit": "TFLOP/s",
        **changes,
    }


def memory_roof(beta_gbps: float, **changes: Any) -> dict[str, Any]:
    """A judged memory roof: device-level read."""
    return {
        "kind": "memory",
        "dtype": "float32",
        "regime": "burst",
        "level": "device",
        "kernel": "read",
        "value": beta_gbps,
        "unit": "GB/s",
        **changes,
    }

"""Reports of sweeps over scripted devices, made by the agent itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetridge.report import Node, Report, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import build_report
from support.scripted_device import ScriptedDevice

if TYPE_CHECKING:
    from fleetridge_agent.device.interface import Device

# Two squares and one model's shapes at two batches: enough for every table, quick to measure.
SMALL = SweepOptions(square=(512, 8192), m_sweep=(1, 4096))


def swept(device: Device | None = None, options: SweepOptions = SMALL) -> Report:
    """Report of one sweep; of an H200 that runs at 800 TFLOP/s and 4400 GB/s unless another device is given."""
    device = ScriptedDevice() if device is None else device
    return build_report(
        run_sweep(device, options),
        device,
        run=Run(run_id=uuid7(), kind="manual"),
        node=Node(name="n1"),
        arguments=("sweep",),
    )

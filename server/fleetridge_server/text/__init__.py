"""The answers as text: tables for terminals, at most 80 columns wide, and CSV for spreadsheets."""

from fleetridge_server.text.device import device_list, device_ridge, ridge_csv
from fleetridge_server.text.fleet import alert_list, fleet, mark_list
from fleetridge_server.text.gpu import gpu, gpu_history
from fleetridge_server.text.node import node, node_list
from fleetridge_server.text.workloads import comparison, workloads

__all__ = [
    "alert_list",
    "comparison",
    "device_list",
    "device_ridge",
    "fleet",
    "gpu",
    "gpu_history",
    "mark_list",
    "node",
    "node_list",
    "ridge_csv",
    "workloads",
]

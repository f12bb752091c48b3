"""The answers as text: tables for terminals, at most 80 columns wide, and CSV for spreadsheets."""

from fleetridge_server.text.alerts import alert_list, mark_list
from fleetridge_server.text.comparisons import comparison
from fleetridge_server.text.devices import device_list, device_ridge
from fleetridge_server.text.fleet import fleet
from fleetridge_server.text.gpus import gpu
from fleetridge_server.text.histories import gpu_history
from fleetridge_server.text.node_lists import node_list
from fleetridge_server.text.nodes import node
from fleetridge_server.text.ridge_csv import ridge_csv
from fleetridge_server.text.workloads import workloads

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

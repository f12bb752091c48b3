"""The answers as text tables for terminals, at most 80 columns wide."""

from fleetridge_server.text.devices import device_list, device_ridge
from fleetridge_server.text.gpus import gpu
from fleetridge_server.text.nodes import node

__all__ = ["device_list", "device_ridge", "gpu", "node"]

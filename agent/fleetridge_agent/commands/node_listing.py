"""The gpus of the node that a command measures, as its driver lists them."""

from __future__ import annotations

from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import resolved
from fleetridge_agent.gpus.listing import Listing, node_listing


def listing_of(context: Context) -> Listing:
    """Gpus of the node; none are listed where only the CPU is measured."""
    if resolved.device_kind(context.source) == "cpu":
        return Listing()
    return node_listing(context.state_dir, resolved.node_name_of(context.source), context.source.environ)

"""What the maker publishes for a whole device, beside what a cohort of its gpus reaches."""

from __future__ import annotations

from fleetridge.peaks import published_beta, published_pi
from fleetridge.roofline import ridge_flop_per_byte
from fleetridge_server.answer.schemas import Published
from fleetridge_server.compare.cohort import Conditions

# The one partition of AMD's that is the whole card; a slice of it is no card that a datasheet describes.
_WHOLE_CARD = "SPX"


def published_roofs(device_name: str, dtype: str, conditions: Conditions) -> Published:
    """Published roofs of a device for a dtype, null where nothing is known, and for a part of a card."""
    pi = published_pi(device_name, dtype) if _is_whole(conditions) else None
    beta_gbps = published_beta_gbps(device_name, conditions)
    return Published(
        pi_tflops=None if pi is None else pi.value,
        beta_gbps=beta_gbps,
        ridge_flop_per_byte=None if pi is None or beta_gbps is None else ridge_flop_per_byte(pi.value, beta_gbps),
    )


def published_beta_gbps(device_name: str, conditions: Conditions) -> float | None:
    """Published memory bandwidth of a device, null where it is not known, and for a part of a card."""
    beta = published_beta(device_name) if _is_whole(conditions) else None
    return None if beta is None else beta.value


def _is_whole(conditions: Conditions) -> bool:
    partition = conditions.partition
    return conditions.mig_profile is None and (partition is None or partition.startswith(_WHOLE_CARD))

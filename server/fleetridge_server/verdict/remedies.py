"""What a reason is called, how strongly it explains, and what an operator does next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# What a roof is a rate of: products, the device's own memory, or a link.
Subject = Literal["compute", "memory", "link"]

ReasonCode = Literal[
    "power_limit_lower",
    "power_brake",
    "thermal",
    "remapped_rows_pending",
    "memory_clock_lower",
    "ecc_differs",
    "clock_lower",
    "power_draw_lower",
    "falling_within_run",
    "software_differs",
    "pcie_slower",
    "whole_rack",
    "whole_node",
    "drifted",
    "intermittent",
    "only_one_dtype",
    "not_explained",
    "clocks_explain",
    "clocks_do_not_explain",
    "alone",
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """
    Attributes of a kind of reason.

    Attributes:
        is_cause: whether it explains a loss by itself; the others say where or when.
        next_step: for an operator.
    """

    is_cause: bool
    next_step: str


# In the order in which reasons are told: settings that somebody made before wear, causes before circumstances, and
# that nothing explains a loss before what is then left to say of it.
REMEDIES: Mapping[ReasonCode, Remedy] = {
    "power_limit_lower": Remedy(
        True,
        "compare `nvidia-smi -q -d POWER` with a neighbour; restore the default limit, or mark the cap as accepted",
    ),
    "power_brake": Remedy(
        True, "check power supplies, cables and the node's power budget; return the card if it keeps braking elsewhere"
    ),
    "thermal": Remedy(
        True, "check fans, filters, heat sink and air flow; return the card if it stays hot in a cool slot"
    ),
    "remapped_rows_pending": Remedy(
        True, "drain the node and reset the gpu; return the card if repairs keep coming or fail"
    ),
    "memory_clock_lower": Remedy(
        True, "compare `nvidia-smi -q -d CLOCK` with a neighbour; reset memory clocks; return the card if they stay low"
    ),
    "ecc_differs": Remedy(True, "set ECC as on the other gpus (`nvidia-smi -e`) and reboot, or judge them apart"),
    "clock_lower": Remedy(
        True, "look for locked or application clocks (`nvidia-smi -rgc`, `-rac`); then reseat; then return the card"
    ),
    "power_draw_lower": Remedy(
        True, "look for a cap outside the driver (BMC, rack) and check power cables; then return the card"
    ),
    "falling_within_run": Remedy(
        True, "watch clocks, power and temperature over a longer run: something limits it once it is warm"
    ),
    "software_differs": Remedy(True, "bring it to the version that most peers run and measure again"),
    "pcie_slower": Remedy(
        True, "reseat card and riser, check the slot's settings; a narrow link does not slow pi or beta"
    ),
    "whole_rack": Remedy(False, "look at the rack's cooling and power before any single gpu"),
    "whole_node": Remedy(False, "look at the node (power, cooling, firmware settings, driver) before any single gpu"),
    "drifted": Remedy(False, "look for what changed on the node at the onset"),
    "intermittent": Remedy(False, "measure it more often, with its clocks and throttle counters, until it shows again"),
    "only_one_dtype": Remedy(False, "compare libraries and kernels for this dtype with a neighbour before the card"),
    "not_explained": Remedy(
        False, "measure again at another hour, then run the vendor's diagnostics; return the card if the loss stays"
    ),
    "clocks_explain": Remedy(False, "find what holds the clock down; the units themselves work as they should"),
    "clocks_do_not_explain": Remedy(
        False, "clocks are not the cause: run the vendor's diagnostics, return the card if it fails"
    ),
    "alone": Remedy(False, "swap it with a neighbour: if the loss moves with the card, return the card"),
}

# What to do for a cause that the gpus of a node or a rack share; {place} is one of the two words.
SHARED_STEPS: Mapping[ReasonCode, str] = {
    "power_limit_lower": (
        "compare the {place}'s power limits (`nvidia-smi -q -d POWER`) with another's; restore the default, or mark "
        "the cap of the whole {place} as accepted"
    ),
    "power_brake": "check the {place}'s power supplies, cables and power budget before any single gpu",
    "thermal": "check the {place}'s fans, filters, inlet temperature and air flow before any single gpu",
    "remapped_rows_pending": "drain the {place} and reset its gpus",
    "memory_clock_lower": "compare the {place}'s memory clocks (`nvidia-smi -q -d CLOCK`) with another's, reset them",
    "ecc_differs": "set ECC on the {place} as everywhere else (`nvidia-smi -e`) and reboot, or judge it apart",
    "clock_lower": "look for locked or application clocks on the whole {place}, then at its power and cooling",
    "power_draw_lower": "look for a cap on the whole {place} outside the driver (BMC, power budget) and at its cables",
    "falling_within_run": "watch the {place}'s temperature and power over a longer run: something limits it once warm",
    "software_differs": "bring the {place} to the version that most peers run and measure again",
}

RANK: Mapping[ReasonCode, int] = {code: rank for rank, code in enumerate(REMEDIES)}

# They say that a gpu shares its loss with its place, so that the place is looked at first.
OF_PLACE: frozenset[ReasonCode] = frozenset({"whole_rack", "whole_node"})

_OWN_RATES: frozenset[Subject] = frozenset({"compute", "memory"})
_OWN_MEMORY: frozenset[Subject] = frozenset({"memory"})
_LINKS: frozenset[Subject] = frozenset({"link"})

# Which rates a cause can slow; in any other roof it is only worth knowing. A cause that is not here can slow all.
SLOWS: Mapping[ReasonCode, frozenset[Subject]] = {
    "power_limit_lower": _OWN_RATES,
    "power_brake": _OWN_RATES,
    "thermal": _OWN_RATES,
    "remapped_rows_pending": _OWN_MEMORY,
    "memory_clock_lower": _OWN_MEMORY,
    "ecc_differs": _OWN_MEMORY,
    "clock_lower": _OWN_RATES,
    "power_draw_lower": _OWN_RATES,
    "pcie_slower": _LINKS,
}

"""What waiting for the slowest gpu costs, in a sentence."""

from __future__ import annotations

from fleetridge.quantities import percent, significant
from fleetridge_server.answer.straggler_schemas import StragglerShown
from fleetridge_server.compare.roof_words import roof_words

# Healthy gpus differ by a per cent or two, and somebody is always the slowest.
LEAST_COST = 0.02


def straggler_words(cost: StragglerShown) -> str:
    """A job over a group: what it loses, to which gpu, and what leaving out the worst would win."""
    who = "all gpus" if cost.name is None else f"{cost.scope} {cost.name}"
    said = (
        f"a job over {who} loses {percent(cost.loss)} to its slowest gpu {cost.slowest_gpu_id} "
        f"({significant(cost.slowest)} {cost.unit} in {roof_words(cost.roof)})"
    )
    if cost.best is None:
        return said
    fewer = "it" if cost.best.left_out == 1 else f"the worst {cost.best.left_out}"
    return f"{said}; leaving {fewer} out wins {percent(cost.best.gain)}"

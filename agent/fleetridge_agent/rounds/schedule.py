"""
When rounds are due. Pure: moments and a cadence in, moments out.

A fleet that is installed in one go, or comes back from one power cut, must not measure all at once: each node waits for
a share of the jitter that is always the same for that node. From then on its rounds keep their distance.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from fleetridge_agent.rounds.moment import Moment, seconds_until

# Bytes of the hash that make a share: more than a node's share needs, and exact in a float.
_SHARE_BYTES = 6

# A round that came late moves none of those after it, unless the next one would follow this closely.
_NEAREST_SHARE = 0.5

# Busy gpus are looked at again so many times in all, some hours apart on a daily cadence, in the first third of it.
MAX_TRIES = 8
_TRY_SHARE = 1 / 24
_SHORTEST_TRY_S, _LONGEST_TRY_S = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Cadence:
    """
    How often a node measures.

    Attributes:
        every_s: from one round to the next.
        offset_s: that this node waits when there is nothing to go by, so that others do not do it at the same time.
    """

    every_s: float
    offset_s: float

    @property
    def retry_s(self) -> float:
        """Pause before gpus that were busy are tried again within a round."""
        return min(max(self.every_s * _TRY_SHARE, _SHORTEST_TRY_S), _LONGEST_TRY_S, self.every_s * _NEAREST_SHARE)


def cadence_of(node: str, *, every_s: float, jitter_s: float) -> Cadence:
    """Cadence of a node, whose name decides where within the jitter it lies: every time the same, and spread evenly."""
    digest = hashlib.sha256(node.encode(errors="surrogateescape")).digest()[:_SHARE_BYTES]
    share = int.from_bytes(digest, "big") / 256**_SHARE_BYTES
    return Cadence(every_s, share * jitter_s)


def first_due(kept: Moment | None, now: Moment, cadence: Cadence) -> Moment:
    """
    When a daemon that starts now measures first: when it was due anyway, so that a restart alone causes nothing.

    What fell due while no daemon was there, and a moment further off than any round can be (a clock was wrong, or the
    cadence has been shortened), count for nothing; then it is the node's offset from now.
    """
    farthest_s = max((1 + _NEAREST_SHARE) * cadence.every_s, cadence.offset_s)
    if kept is not None and 0 < seconds_until(kept, now) <= farthest_s:
        return now.after(seconds_until(kept, now))
    return now.after(cadence.offset_s)


def next_due(due: Moment, now: Moment, cadence: Cadence) -> Moment:
    """When the round after the one that was due then and begins now is due: in step with it, and never on its heels."""
    late_s = max(0.0, -seconds_until(due, now))
    behind = math.ceil(late_s / cadence.every_s - _NEAREST_SHARE)
    return now.after((1 + max(0, behind)) * cadence.every_s - late_s)

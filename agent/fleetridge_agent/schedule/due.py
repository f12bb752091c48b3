"""
When rounds are due. Timestamps and a cadence in, timestamps out; the next one is kept in the state directory.

A fleet that is installed in one go, or comes back from one power cut, must not measure all at once: each node waits for
a share of the jitter that is always the same for that node. From then on its rounds keep their distance.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from fleetridge_agent.durable_file import write_durably
from fleetridge_agent.lock import file_name_of

log = logging.getLogger(__name__)

# proc(5) random(4): drawn anew by each boot of the kernel.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

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


def first_due(kept: Timestamp | None, now: Timestamp, cadence: Cadence) -> Timestamp:
    """
    When a daemon that starts now measures first: when it was due anyway, so that a restart alone causes nothing.

    What fell due while no daemon was there, and a moment further off than any round can be (a clock was wrong, or the
    cadence has been shortened), count for nothing; then it is the node's offset from now.
    """
    farthest_s = max((1 + _NEAREST_SHARE) * cadence.every_s, cadence.offset_s)
    if kept is not None and 0 < seconds_until(kept, now) <= farthest_s:
        return now.after(seconds_until(kept, now))
    return now.after(cadence.offset_s)


def next_due(due: Timestamp, now: Timestamp, cadence: Cadence) -> Timestamp:
    """When the round after the one that was due then and begins now is due: in step with it, and never on its heels."""
    late_s = max(0.0, -seconds_until(due, now))
    behind = math.ceil(late_s / cadence.every_s - _NEAREST_SHARE)
    return now.after((1 + max(0, behind)) * cadence.every_s - late_s)


@dataclass(frozen=True, slots=True)
class DueFile:
    """
    One node's file.

    The file carries the node's name because a home directory, and the state in it, may be shared by many nodes.
    """

    path: Path

    def due(self) -> Timestamp | None:
        """What was kept, None where nothing was or it cannot be read."""
        try:
            return _TIMESTAMP.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read (%s); going on as at a first start", self.path, error)
            return None

    def keep(self, due: Timestamp) -> None:
        """Keep a moment; where the disk cannot be written it lives as long as this process."""
        try:
            write_durably(self.path, _TIMESTAMP.dump_json(due))
        except OSError as error:
            log.warning("%s: %s; after a restart this node measures earlier than due", self.path, error.strerror)


def due_file_of(state_dir: Path, node: str) -> DueFile:
    """File in the state directory that keeps when a node's next round is due."""
    return DueFile(state_dir / "rounds" / f"{file_name_of(node)}.json")


@dataclass(frozen=True, slots=True)
class Timestamp:
    """
    A moment as the clocks of a host show it.

    Attributes:
        wall_s: seconds since 1970, by a clock that may be set, forwards or back.
        uptime_s: seconds since boot, those asleep included; never set, and without meaning after the next boot.
        boot: which boot that was, None where the kernel does not say.
    """

    wall_s: float
    uptime_s: float
    boot: str | None = None

    def after(self, seconds: float) -> Timestamp:
        """The moment so much later, as long as nobody sets a clock."""
        return Timestamp(self.wall_s + seconds, self.uptime_s + seconds, self.boot)


def seconds_until(timestamp: Timestamp, now: Timestamp) -> float:
    """
    Seconds from now until a moment, negative once it has passed.

    Within one boot a clock that somebody sets changes nothing; from one boot to another only that clock is left.
    """
    if timestamp.boot is not None and timestamp.boot == now.boot:
        return timestamp.uptime_s - now.uptime_s
    return timestamp.wall_s - now.wall_s


def timestamp_now() -> Timestamp:
    """The present by the clocks of this host."""
    return Timestamp(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), _boot())


def _boot() -> str | None:
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii", errors="replace").strip() or None
    return None


_TIMESTAMP = TypeAdapter(Timestamp)

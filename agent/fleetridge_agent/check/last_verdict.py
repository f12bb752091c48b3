"""
The last verdict on a node, on disk: what `check --max-age` answers from.

One file a node, as a home directory and the state in it may be shared by many. A verdict that says nothing because
somebody needed the gpu does not replace one that says something. A scheduler's health check reads the file within a
second, so nothing here needs a report or a driver.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fleetridge.quantities import MIB
from fleetridge_agent.check.verdict import GpuVerdict
from fleetridge_agent.durable_file import write_durably
from fleetridge_agent.lock import file_name_of

log = logging.getLogger(__name__)

_FOLDER = "check"

# A clock that was set back by more than this since the verdict tells no age.
_CLOCK_SLACK = timedelta(minutes=1)

# A node of 256 gpus with some dozens of roofs each stays far below; what is larger is no verdict of ours.
_MOST_FILE_BYTES = 4 * MIB


class LastVerdict(BaseModel):
    """
    Verdicts on the gpus of one node.

    Attributes:
        trouble: why none could be checked, in a few words.
        gpus: each with its own time, as a check may be of some gpus only.
    """

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    node: str
    trouble: str = ""
    gpus: tuple[GpuVerdict, ...] = ()


def verdict_path(state_dir: Path, node: str) -> Path:
    """Where the last verdict on a node lies."""
    return state_dir / _FOLDER / f"verdict-{file_name_of(node)}.json"


def read_last(state_dir: Path, node: str) -> LastVerdict | None:
    """The last verdict on a node; None where there is none that can be read."""
    path = verdict_path(state_dir, node)
    try:
        if not path.is_file():
            return None  # nothing there, or something that would keep whoever opens it waiting
        with path.open("rb") as file:
            verdict = LastVerdict.model_validate_json(file.read(_MOST_FILE_BYTES))
    except (OSError, ValidationError):
        return None
    # Two names that differ in unsafe characters alone share a file.
    return verdict if verdict.node == node else None


def keep_last(
    state_dir: Path, node: str, verdicts: Sequence[GpuVerdict], *, all_gpus: bool, trouble: str = ""
) -> LastVerdict:
    """
    Write down what a check found.

    Args:
        state_dir: where state is kept.
        node: name of the node.
        verdicts: of the gpus that were checked.
        all_gpus: whether those are all gpus of the node, so that others of an earlier check are forgotten.
        trouble: why no gpu could be checked.

    Raises:
        OSError: the state directory cannot be written.
    """
    now = LastVerdict(node=node, gpus=tuple(verdicts), trouble=trouble)
    kept = merged_verdicts(read_last(state_dir, node), now, all_gpus=all_gpus)
    write_durably(verdict_path(state_dir, node), kept.model_dump_json().encode())
    return kept


def keep_verdicts(
    verdicts: Sequence[GpuVerdict], state_dir: Path, node: str, *, all_gpus: bool, trouble: str = ""
) -> None:
    """Leave verdicts for `check --max-age`, as `keep_last` does; where that cannot be done it is said."""
    try:
        keep_last(state_dir, node, verdicts, all_gpus=all_gpus, trouble=trouble)
    except OSError as error:
        log.warning("the verdict cannot be kept in %s (%s); --max-age will not find it", state_dir, error.strerror)


def merged_verdicts(before: LastVerdict | None, now: LastVerdict, *, all_gpus: bool) -> LastVerdict:
    """What is known after a check, given what was known before."""
    known = {} if before is None else {gpu.identity: gpu for gpu in before.gpus}
    # One that was absent and that somebody uses is back.
    kept = {identity: gpu for identity, gpu in known.items() if not gpu.absent}
    gpus = {gpu.identity: kept.get(gpu.identity, gpu) if gpu.passing else gpu for gpu in now.gpus}
    if not all_gpus:
        gpus = {**known, **gpus}
    return now.model_copy(update={"gpus": tuple(gpus.values())})


def still_holding(
    last: LastVerdict, *, max_age: timedelta, now: datetime, chosen: Collection[str] | None = None
) -> tuple[GpuVerdict, ...]:
    """
    Verdicts as of now: one that is too old, or from a clock that ran ahead, is unknown.

    Args:
        last: what was written down.
        max_age: how old a verdict may be.
        now: by this node's clock.
        chosen: UUIDs and numbers by place of the gpus to speak of; None for all.
    """
    asked = [gpu for gpu in last.gpus if chosen is None or {gpu.uuid, str(gpu.index)} & set(chosen)]
    return tuple(gpu if _holds(now - gpu.judged_at, max_age) else _outdated(gpu) for gpu in asked)


def _holds(age: timedelta, max_age: timedelta) -> bool:
    return -_CLOCK_SLACK <= age <= max_age


def _outdated(gpu: GpuVerdict) -> GpuVerdict:
    return gpu.model_copy(update={"state": "unknown", "reason": "verdict too old"})

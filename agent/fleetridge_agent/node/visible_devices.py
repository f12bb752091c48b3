"""What CUDA_VISIBLE_DEVICES leaves of a node's gpus, for those that CUDA itself does not list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetridge_agent.node.nvml import NvmlGpu

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible(gpus: Sequence[NvmlGpu], environ: Mapping[str, str]) -> tuple[NvmlGpu, ...]:
    """
    Those of these gpus that this process may use, in the order in which the variable names them.

    As the CUDA programming guide has it ("CUDA environment variables"): UUIDs may be shortened, and the first word that
    names nothing hides all that follow it. A word that names a split card stands for each of its slices.
    """
    if VARIABLE not in environ:
        return tuple(gpus)
    chosen: dict[NvmlGpu, None] = {}
    for word in environ[VARIABLE].split(","):
        named = [gpu for gpu in gpus if _is_named(gpu, word.strip())]
        if not named:
            break
        chosen |= dict.fromkeys(named)
    return tuple(chosen)


def _is_named(gpu: NvmlGpu, word: str) -> bool:
    if word.isdecimal():
        return gpu.index == int(word)
    return bool(word) and any((uuid or "").startswith(word) for uuid in (gpu.uuid, gpu.card_uuid))

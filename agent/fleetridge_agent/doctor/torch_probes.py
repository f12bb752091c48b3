"""Whether the installed torch can use the gpus of this node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetridge_agent.doctor.facts import CudaFacts, NoFactsError, TorchFacts
from fleetridge_agent.doctor.probe import Finding, NodeState, ok, problem, warning

# The oldest that the measuring was written for (pyproject.toml).
_OLDEST_TORCH = (2, 4)

# cuda.h: cuDriverGetVersion gives 1000·major + 10·minor.
_MAJOR_STEP, _MINOR_STEP = 1000, 10


def torch(node: NodeState) -> Iterator[Finding]:
    """Whether torch is there and fits the device."""
    try:
        facts = node.torch()
    except NoFactsError as error:
        yield problem(
            "torch",
            f"importing it: {error}",
            "install it on a local disk; see whether `python -c 'import torch'` ends at all",
        )
        return
    if facts.trouble is not None:
        yield problem("torch", facts.trouble.sentence, "install it with the agent: `pip install 'fleetridge[agent]'`")
        return
    yield from _of_version(facts)
    if facts.hip is not None:
        yield from _rocm(facts)
    elif facts.cuda is None:
        yield from _without_cuda(node, facts)
    else:
        yield from _with_cuda(node, facts)


def _of_version(facts: TorchFacts) -> Iterator[Finding]:
    version = _parts(facts.version)
    if version is not None and version < _OLDEST_TORCH:
        oldest = ".".join(map(str, _OLDEST_TORCH))
        yield problem("torch", f"{facts.version} is older than {oldest}", f"install torch {oldest} or newer")


def _rocm(facts: TorchFacts) -> Iterator[Finding]:
    if facts.rocm_gpus:
        yield ok("torch", f"{facts.version}, built for ROCm {facts.hip}, shows {facts.rocm_gpus} gpus")
    else:
        yield problem(
            "torch",
            f"{facts.version}, built for ROCm {facts.hip}, shows no gpu",
            "check HIP_VISIBLE_DEVICES, /dev/kfd and /dev/dri and the groups `video` and `render`",
        )


def _without_cuda(node: NodeState, facts: TorchFacts) -> Iterator[Finding]:
    if not node.settings.measures_gpus:
        yield ok("torch", f"{facts.version}, built for CPUs, which is what --device cpu needs")
    else:
        yield problem(
            "torch",
            f"{facts.version} is built for CPUs alone and cannot use a gpu",
            "install a build for CUDA (or ROCm) from the index that pytorch.org names, or give --device cpu",
        )


def _with_cuda(node: NodeState, facts: TorchFacts) -> Iterator[Finding]:
    built, newest = _parts(facts.cuda), _newest_cuda(node)
    seen = f"{facts.version}, built for CUDA {facts.cuda}"
    if built is None or newest is None or built <= newest:
        yield ok("torch", seen)
        return
    beyond = f"{seen}, and the driver knows CUDA up to {newest[0]}.{newest[1]}"
    remedy = f"upgrade the driver, or install a torch that is built for CUDA {newest[0]}.{newest[1]} or older"
    if built[0] > newest[0]:
        yield problem("torch", beyond, remedy)
    else:
        # CUDA Compatibility, "minor version compatibility": within a major version programs start, and what needs
        # compiling at run time does not.
        yield warning("torch", f"{beyond}: it starts, and some kernels may not", remedy)


def _newest_cuda(node: NodeState) -> tuple[int, int] | None:
    try:
        facts: CudaFacts = node.cuda()
    except NoFactsError:
        return None
    if facts.newest_cuda is None:
        return None
    return facts.newest_cuda // _MAJOR_STEP, facts.newest_cuda % _MAJOR_STEP // _MINOR_STEP


def _parts(version: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(found[1]), int(found[2])) if found else None

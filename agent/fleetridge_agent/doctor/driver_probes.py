"""Whether the gpus of this node can be seen and used, and which of their kinds were never tried on silicon."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleetridge_agent.doctor.facts import CardFacts, CudaFacts, NoFactsError, NvmlFacts
from fleetridge_agent.doctor.probe import Finding, NodeState, not_checked, ok, problem, warning

# NVIDIA driver, README, "device files": control, unified memory (without which no program starts) and each card.
_NEEDED_NODES = ("nvidiactl", "nvidia-uvm")
_CARD_NODE = re.compile(r"nvidia\d+")

_KERNEL_MODULE = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")

_GIVE_GPUS = (
    "give it gpus: `docker run --gpus all`; in Kubernetes request nvidia.com/gpu, or use the runtime class `nvidia` "
    "with NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)
_HANGS = "look for Xid errors in `dmesg`; a gpu that has fallen off its bus needs a reset or a reboot of the node"

# CUDA's word where the trouble is one that NVML, or the device nodes, name more exactly.
_NO_DRIVER = "no_driver"

_STAND_INS = "never tried on silicon, tested with stand-ins only"
_COMPARE = "hold its results against another tool before relying on them"


def device_nodes(node: NodeState) -> Iterator[Finding]:
    """Whether the driver's device nodes are there and may be used by this user."""
    if not node.settings.measures_gpus:
        return
    folder = node.host.root / "dev"
    nodes = {path.name: path for path in folder.glob("nvidia*")}
    cards = sorted(name for name in nodes if _CARD_NODE.fullmatch(name))
    if not nodes:
        yield from _no_nodes(node)
        return
    missing = [f"/dev/{name}" for name in _NEEDED_NODES if name not in nodes]
    if missing:
        yield problem("device nodes", f"{' and '.join(missing)} missing", _make_nodes(node))
    names = (*(name for name in _NEEDED_NODES if name in nodes), *cards)
    closed = [f"/dev/{name}" for name in names if not node.is_allowed(nodes[name])]
    if closed:
        yield problem(
            "device nodes",
            f"this user may not read and write {', '.join(closed)}",
            "run as a user of the group that owns them (`ls -l /dev/nvidia*`), or let the container have them",
        )
    elif not missing:
        yield ok("device nodes", f"{len(cards)} of cards, and those of the driver")


def nvml(node: NodeState) -> Iterator[Finding]:
    """Whether NVML answers, and with which driver."""
    if not node.settings.measures_gpus:
        return
    try:
        facts = node.nvml()
    except NoFactsError as error:
        yield problem("NVML", str(error), _HANGS)
        return
    module = _kernel_module(node)
    loaded = f"; the kernel module is {module}" if module else ""
    if facts.trouble is None:
        yield ok("NVML", f"driver {facts.driver or 'of unknown version'}, cards: {len(facts.cards)}{loaded}")
    elif facts.trouble.reason == "nvml_missing" and _is_rocm(node):
        yield not_checked("NVML", "torch is a build for ROCm, whose gpus have no NVML")
    else:
        seen, remedy = _parted(facts.trouble.sentence)
        yield problem("NVML", f"{seen}{loaded}", remedy)


def cards(node: NodeState) -> Iterator[Finding]:
    """Whether every card of the bus is there, can be measured, and is free."""
    facts = _nvml_or_none(node)
    if facts is None or facts.trouble is not None or not node.settings.measures_gpus:
        return
    for lost in facts.lost:
        place = "" if lost.pci_bus_id is None else f" at {lost.pci_bus_id}"
        yield problem("cards", f"gpu {lost.index}{place} cannot be used: {lost.error}", _HANGS)
    yield from _gone(node, len(facts.cards) + len(facts.lost))
    unsliced = [card for card in facts.cards if card.split and not card.slices]
    if unsliced:
        report = problem if len(unsliced) == len(facts.cards) else warning
        seen = f"{_listed(unsliced)} in MIG mode without a slice, so that nothing of it can be measured"
        yield report("MIG", seen, "create slices (`nvidia-smi mig -cgi … -C`) or leave MIG mode (`nvidia-smi -mig 0`)")
    for card in facts.cards:
        if card.use is not None:
            yield warning(
                "gpu in use",
                f"{_named(card)}: {card.use}",
                "`run` skips it as busy; `run --wait 30m` waits for it, and `nvidia-smi` shows who it is",
            )
    if facts.cards and not any(card.use for card in facts.cards):
        yield ok("gpu in use", "by nobody that can be seen from here")


def cuda(node: NodeState) -> Iterator[Finding]:
    """Whether CUDA starts, and shows as many gpus as there are."""
    if not node.settings.measures_gpus:
        return
    try:
        facts = node.cuda()
    except NoFactsError as error:
        yield problem("CUDA", f"starting it: {error}", _HANGS)
        return
    if facts.trouble is None:
        yield from _visible(node, facts)
    elif facts.trouble.reason == _NO_DRIVER and _is_rocm(node):
        yield not_checked("CUDA", "torch is a build for ROCm")
    else:
        seen, remedy = _parted(facts.trouble.sentence)
        yield problem("CUDA", seen, remedy)


def _no_nodes(node: NodeState) -> Iterator[Finding]:
    if _is_rocm(node):
        yield not_checked("device nodes", "torch is a build for ROCm")
    elif node.is_container:
        yield problem("device nodes", "this container has none of an NVIDIA gpu", _GIVE_GPUS)
    elif node.host.nvidia_gpus_on_bus():
        yield problem("device nodes", "there are gpus on the bus and no /dev/nvidia*", _make_nodes(node))
    else:
        yield problem(
            "device nodes",
            "no NVIDIA gpu here: neither on the bus nor in /dev",
            "measure the CPU with --device cpu, or run this where there is a gpu",
        )


def _make_nodes(node: NodeState) -> str:
    return _GIVE_GPUS if node.is_container else "load the driver and make them: `nvidia-modprobe -u -c=0`"


def _gone(node: NodeState, cards: int) -> Iterator[Finding]:
    on_bus = node.host.nvidia_gpus_on_bus()
    if on_bus is None or cards >= on_bus:
        return
    seen = f"{on_bus} on the bus, {cards} answer"
    if node.is_container:
        yield not_checked("cards", f"{seen}: this container may have been given some only")
    else:
        yield problem("cards", seen, _HANGS)


def _visible(node: NodeState, facts: CudaFacts) -> Iterator[Finding]:
    known = _nvml_or_none(node)
    there = None if known is None or known.trouble else sum(card.slices or not card.split for card in known.cards)
    limit = node.environ.get("CUDA_VISIBLE_DEVICES")
    if there is not None and facts.gpus < there:
        why = f"CUDA_VISIBLE_DEVICES={limit}" if limit else "MIG shows a program one slice only"
        remedy = "unset CUDA_VISIBLE_DEVICES to measure the others; give --gpus to choose" if limit else ""
        yield Finding("CUDA", "warning" if limit else "ok", f"shows {facts.gpus} of {there} gpus ({why})", remedy)
    else:
        yield ok("CUDA", f"starts and shows {facts.gpus} {'gpu' if facts.gpus == 1 else 'gpus'}")


def _kernel_module(node: NodeState) -> str | None:
    """Version of the module that is loaded, which NVML cannot tell where its own differs."""
    try:
        text = (node.host.root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = _KERNEL_MODULE.search(text)
    return found[1] if found else None


def _nvml_or_none(node: NodeState) -> NvmlFacts | None:
    try:
        return node.nvml()
    except NoFactsError:
        return None


def _is_rocm(node: NodeState) -> bool:
    try:
        return node.torch().hip is not None
    except NoFactsError:
        return False


def _parted(sentence: str) -> tuple[str, str]:
    """What was seen, and the remedy after it."""
    seen, _, remedy = sentence.removeprefix("NVML: ").partition("; ")
    return seen, remedy or "see whether `nvidia-smi` works on this node"


def _named(card: CardFacts) -> str:
    return " ".join(
        word for word in (f"gpu {card.index}", card.device, f"({card.uuid})" if card.uuid else None) if word
    )


def _listed(cards: list[CardFacts]) -> str:
    numbers = ", ".join(str(card.index) for card in cards)
    return f"gpu {numbers} is" if len(cards) == 1 else f"gpus {numbers} are"


def untried(node: NodeState) -> Iterator[Finding]:
    """ROCm and MIG, loudly where this node has one of them."""
    yield _untried_part("ROCm", is_here=_is_rocm(node))
    yield _untried_part("MIG slices", is_here=_has_slices(node))


def _untried_part(what: str, *, is_here: bool) -> Finding:
    if is_here:
        return warning("untried", f"{what}, which this node has: {_STAND_INS}", _COMPARE)
    return not_checked("untried", f"{what}: {_STAND_INS}")


def _has_slices(node: NodeState) -> bool:
    try:
        return any(card.slices for card in node.nvml().cards)
    except NoFactsError:
        return False

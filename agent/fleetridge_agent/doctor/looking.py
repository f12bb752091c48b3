"""
A process that asks one library and prints what it says, so that a library that hangs or crashes costs nobody else.

    python -m fleetridge_agent.doctor.looking nvml|cuda|torch

It makes no CUDA context and changes nothing.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

from fleetridge_agent.device.cuda_driver import cuda_gpus
from fleetridge_agent.doctor.facts import CardFacts, CudaFacts, Facts, NvmlFacts, TorchFacts, Trouble
from fleetridge_agent.errors import AgentError, NoDeviceError
from fleetridge_agent.node.idleness import look
from fleetridge_agent.node.nvml import NvmlError, NvmlGpu, open_nvml
from fleetridge_agent.node.readings import reading

_CUDA = "libcuda.so.1"


def nvml_facts(library: Any = None) -> NvmlFacts:  # noqa: ANN401 # a module
    """What NVML says of driver and cards."""
    try:
        nvml = open_nvml(library)
    except NvmlError as error:
        return NvmlFacts(trouble=_trouble(error))
    return NvmlFacts(driver=nvml.driver, cards=tuple(_card(card) for card in nvml.cards()))


def cuda_facts(library: Any = None) -> CudaFacts:  # noqa: ANN401 # a C library
    """What CUDA's driver library says."""
    newest = _newest_cuda(library)
    try:
        gpus = cuda_gpus() if library is None else cuda_gpus(library)
    except NoDeviceError as error:
        return CudaFacts(trouble=_trouble(error), newest_cuda=newest)
    return CudaFacts(newest_cuda=newest, gpus=len(gpus))


def torch_facts() -> TorchFacts:
    """What torch says of its build."""
    try:
        import torch  # noqa: PLC0415 # only where it is asked for
    except Exception as error:  # noqa: BLE001 # a broken installation raises whatever it likes
        sentence = f"torch cannot be imported: {type(error).__name__}: {error}"
        return TorchFacts(trouble=Trouble(reason="torch_missing", sentence=sentence))
    hip = torch.version.hip
    return TorchFacts(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=hip,
        rocm_gpus=None if hip is None else reading(torch.cuda.device_count),
    )


def _card(card: NvmlGpu) -> CardFacts:
    slices = tuple(card.slices()) if card.is_split else ()
    users = [use for gpu in (slices or (card,)) if (use := look(gpu, wait=None).why) is not None]
    return CardFacts(
        index=card.index,
        uuid=card.uuid,
        pci_bus_id=card.pci_bus_id,
        device=card.device,
        split=card.is_split,
        slices=len(slices),
        use=users[0] if users else None,
    )


def _newest_cuda(library: Any) -> int | None:  # noqa: ANN401 # a C library
    version = ctypes.c_int()
    try:
        code = (ctypes.CDLL(_CUDA) if library is None else library).cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return None
    return version.value if code == 0 else None


def _trouble(error: AgentError) -> Trouble:
    return Trouble(reason=error.reason, sentence=str(error))


_ASKED: dict[str, Callable[[], Facts]] = {"nvml": nvml_facts, "cuda": cuda_facts, "torch": torch_facts}


def main(arguments: Sequence[str]) -> int:
    """Ask one library; 0 when it answered."""
    sys.stdout.write(_ASKED[arguments[0]]().model_dump_json())
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

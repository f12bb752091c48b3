"""
What the driver's libraries and torch say of themselves, asked in a process that may hang or crash.

    python -m fleetridge_agent.doctor.facts nvml|cuda|torch

asks one library and prints what it says; it makes no CUDA context and changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from fleetridge.module_command import module_command
from fleetridge.terminal_text import shortened
from fleetridge_agent.busy.idle_check import check_idle
from fleetridge_agent.errors import AgentError, NoDeviceError
from fleetridge_agent.gpus.cuda_driver import cuda_gpus
from fleetridge_agent.readings.nvml import NvmlError, NvmlGpu, open_nvml
from fleetridge_agent.readings.optional_reading import reading

# The first import of torch from a cold network file system takes half a minute; a driver that is well answers at once.
LIMIT_S = 60.0

# A process that waits for a dead device cannot even be killed; it is left behind.
_FAREWELL_S = 1.0

_LONGEST_CAUSE = 300

_CUDA = "libcuda.so.1"

FailureKind = Literal["name", "tls", "proxy", "timeout", "connection"]


class Facts(BaseModel):
    """Base of what one child says, as JSON on its standard output."""

    model_config = ConfigDict(frozen=True)


class Trouble(Facts):
    """Why a library cannot be used: a word and a sentence with the remedy."""

    reason: str
    sentence: str


class CardFacts(Facts):
    """
    One card.

    Attributes:
        split: whether it is in MIG mode; slices: how many it then has.
        use: who uses it, as the end of a sentence; None where nobody is seen to.
    """

    index: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    device: str | None = None
    split: bool = False
    slices: int = 0
    use: str | None = None


class LostCardFacts(Facts):
    """A card that NVML counts and of which it says that it cannot be used, in the driver's words."""

    index: int
    pci_bus_id: str | None = None
    error: str


class NvmlFacts(Facts):
    """What NVML says; `trouble` where it cannot be used. `lost` are cards beside those that can be."""

    trouble: Trouble | None = None
    driver: str | None = None
    cards: tuple[CardFacts, ...] = ()
    lost: tuple[LostCardFacts, ...] = ()


class CudaFacts(Facts):
    """What CUDA's driver library says: the newest CUDA that it can run (13020 is 13.2), and the gpus that it shows."""

    trouble: Trouble | None = None
    newest_cuda: int | None = None
    gpus: int = 0


class TorchFacts(Facts):
    """
    What torch says.

    Attributes:
        cuda, hip: what it was built for; both None in a build for CPUs.
        rocm_gpus: that a ROCm build shows; None in any other.
    """

    trouble: Trouble | None = None
    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    rocm_gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Why a server gave no answer at all: a word by which the remedy is found, and what the library said."""

    kind: FailureKind
    cause: str


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """
    What a server answered; None for a call that got no answer or was not made.

    Attributes:
        ready: status of `GET /readyz`, which is open to everybody.
        ingest: status of a post of no reports at all.
        read: status of a question for a list.
        location: where an answer sent us on to.
        date: its clock when it answered; asked_at, answered_at: ours.
    """

    unreachable: Unreachable | None = None
    ready: int | None = None
    ingest: int | None = None
    read: int | None = None
    location: str | None = None
    date: datetime | None = None
    asked_at: datetime | None = None
    answered_at: datetime | None = None


FactsT = TypeVar("FactsT", bound=Facts)


class NoFactsError(AgentError):
    """The child hung, crashed or said nothing; the message says which."""


def ask(subject: str, model: type[FactsT], *, limit_s: float = LIMIT_S) -> FactsT:
    """
    What a library says, asked in a process of its own.

    Raises:
        NoFactsError: it does not answer.
    """
    command = (*module_command("fleetridge_agent.doctor.facts"), subject)
    return facts_of(command, model, limit_s=limit_s)


def facts_of(command: Sequence[str], model: type[FactsT], *, limit_s: float) -> FactsT:
    """
    What a command prints, read as facts.

    Raises:
        NoFactsError: it does not end in time, ends otherwise than well, or prints something else.
    """
    process = subprocess.Popen(  # noqa: S603 # our own interpreter and module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Keeps modules of the folder that the agent was started in out of the child, from Python 3.11 on.
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_FAREWELL_S)
        raise NoFactsError(f"it does not answer within {limit_s:g} s") from None
    if process.returncode != 0:
        raise NoFactsError(f"it ends with {_ending(process.returncode)}{_last_line(errors)}")
    try:
        return model.model_validate_json(output)
    except ValidationError as error:
        raise NoFactsError("it says something else than was asked") from error


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return f": {shortened(lines[-1], _LONGEST_CAUSE)}" if lines else ""


def nvml_facts(library: Any = None) -> NvmlFacts:  # noqa: ANN401 # a module
    """What NVML says of driver and cards; `trouble` where it cannot be used."""
    try:
        nvml = open_nvml(library)
    except NvmlError as error:
        return NvmlFacts(trouble=_trouble_of(error))
    return NvmlFacts(
        driver=nvml.driver,
        cards=tuple(_card(card) for card in nvml.cards()),
        lost=tuple(
            LostCardFacts(index=card.index, pci_bus_id=card.pci_bus_id, error=card.error) for card in nvml.lost_cards()
        ),
    )


def cuda_facts(library: Any = None) -> CudaFacts:  # noqa: ANN401 # a C library
    """What CUDA's driver library says; `trouble` where it shows no gpu."""
    newest = _newest_cuda(library)
    try:
        gpus = cuda_gpus() if library is None else cuda_gpus(library)
    except NoDeviceError as error:
        return CudaFacts(trouble=_trouble_of(error), newest_cuda=newest)
    return CudaFacts(newest_cuda=newest, gpus=len(gpus))


def torch_facts() -> TorchFacts:
    """What torch says of its build; `trouble` where it cannot be imported, whatever the cause."""
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
    users = [use for gpu in (slices or (card,)) if (use := check_idle(gpu, wait=None).why) is not None]
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


def _trouble_of(error: AgentError) -> Trouble:
    return Trouble(reason=error.reason, sentence=str(error))


_LIBRARIES: dict[str, Callable[[], Facts]] = {"nvml": nvml_facts, "cuda": cuda_facts, "torch": torch_facts}


def print_facts(arguments: Sequence[str]) -> int:
    """Ask one library; 0 when it answered."""
    sys.stdout.write(_LIBRARIES[arguments[0]]().model_dump_json())
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(print_facts(sys.argv[1:]))

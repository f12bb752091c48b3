"""
NVIDIA's management library: which gpus a node has, joined to those of CUDA by UUID or PCI address, never by index.

CUDA numbers gpus by speed unless told otherwise and only those that it may use; NVML numbers all of them by address.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleetridge_agent.errors import AgentError
from fleetridge_agent.readings.optional_reading import canonical_bus_id, count, reading, text, without_profile

NVML_UNKNOWN_ERROR = "nvml_unknown_error"

# nvmlReturn_t of nvml.h.
_REASON_OF_CODE = {
    9: "driver_not_loaded",
    12: "no_driver",
    18: "driver_library_mismatch",
    999: NVML_UNKNOWN_ERROR,
}
_REMEDY_OF_REASON = {
    "driver_not_loaded": "load the kernel module (`modprobe nvidia`) or reboot the node",
    "no_driver": "install the NVIDIA driver, or let the container runtime pass it in",
    "driver_library_mismatch": "reboot the node, or reload the kernel module: the driver was upgraded under it",
    NVML_UNKNOWN_ERROR: "restart this container: it has lost its gpus, as after a reload of the node's services",
}

# With these the driver says of one card that it cannot be used, whatever becomes of the others; whichever else a card
# answers with (that this user may not see it, that it does not know the reading) says nothing of its health.
_REASON_OF_LOST_CARD = {
    8: "gpu_insufficient_power",
    11: "gpu_irq_issue",
    15: "gpu_lost",
    16: "gpu_reset_required",
    999: NVML_UNKNOWN_ERROR,
}

# What every card has to answer with or say that it does not know. Some drivers do not know single readings of healthy
# cards and call that an unknown error, so that this counts only where all readings say so.
_PROBES = ("nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo")

_SUCCESS = 0

# Members of nvmlValue_t, in the order of nvmlValueType_t.
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class NvmlError(AgentError):
    """
    NVML cannot be used.

    Attributes:
        reason: such as `driver_library_mismatch`.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class NvmlGpu:
    """
    One gpu or MIG slice as NVML knows it.

    Attributes:
        index: of the card, by PCI address.
        is_slice: whether it is a MIG slice; what only whole cards have, such as clocks, is then the card's.
    """

    def __init__(self, library: Any, handle: object, *, index: int | None, card: object | None = None) -> None:  # noqa: ANN401 # a module
        self._library = library
        self._handle = handle
        self._card = handle if card is None else card
        self.index = index
        self.is_slice = card is not None

    def read(self, function: str, *arguments: object) -> Any:  # noqa: ANN401 # whatever the driver gives
        """What a function of the library says of this gpu, None where it says nothing."""
        return reading(self._call, function, self._handle, *arguments)

    def read_card(self, function: str, *arguments: object) -> Any:  # noqa: ANN401 # whatever the driver gives
        """What a function of the library says of the whole card."""
        return reading(self._call, function, self._card, *arguments)

    def fields(self, *numbers: int) -> dict[int, object]:
        """Values of the card's fields by number (nvml.h, NVML_FI_DEV_…); those that it does not have are left out."""
        values = self.read_card("nvmlDeviceGetFieldValues", list(numbers))
        if values is None:
            return {}
        return {
            number: _field(value) for number, value in zip(numbers, values, strict=True) if value.nvmlReturn == _SUCCESS
        }

    @property
    def uuid(self) -> str | None:
        """Identity, with its prefix "GPU-" or "MIG-"."""
        return text(self.read("nvmlDeviceGetUUID"))

    @property
    def card_uuid(self) -> str | None:
        """Identity of the card that this is, or is a slice of."""
        return text(self.read_card("nvmlDeviceGetUUID"))

    @property
    def pci_bus_id(self) -> str | None:
        """PCI address of the card in one spelling, "0000:3b:00.0"; None where it has none."""
        info = self.read_card("nvmlDeviceGetPciInfo")
        return canonical_bus_id(text(reading(lambda: info.busId)))

    @property
    def device(self) -> str | None:
        """Name of the model, without the profile of a slice."""
        return without_profile(text(self.read("nvmlDeviceGetName")))[0]

    @property
    def mig_profile(self) -> str | None:
        """Profile of a slice, None for a whole card."""
        return without_profile(text(self.read("nvmlDeviceGetName")))[1]

    @property
    def is_split(self) -> bool:
        """Whether the card is in MIG mode, in which only its slices can be used."""
        mode = self.read("nvmlDeviceGetMigMode")
        return isinstance(mode, list | tuple) and bool(mode) and mode[0] == 1

    @property
    def memory_bytes(self) -> int | None:
        """Memory of the gpu or slice as the driver counts it, used or not."""
        info = self.read("nvmlDeviceGetMemoryInfo")
        return count(reading(lambda: info.total))

    def slices(self) -> Iterator[NvmlGpu]:
        """MIG slices of a split card."""
        for position in range(count(self.read("nvmlDeviceGetMaxMigDeviceCount")) or 0):
            handle = self.read("nvmlDeviceGetMigDeviceHandleByIndex", position)
            if handle is not None:
                yield NvmlGpu(self._library, handle, index=self.index, card=self._handle)

    def _call(self, function: str, *arguments: object) -> object:
        return getattr(self._library, function)(*arguments)


@dataclass(frozen=True, slots=True)
class LostCard:
    """
    One card that the driver counts and that cannot be used any more.

    Attributes:
        index: by PCI address, among all that the driver counts.
        reason: such as `gpu_lost`.
        error: what NVML says.
        uuid, pci_bus_id, device: None where the driver does not say them any more either.
    """

    index: int
    reason: str
    error: str
    uuid: str | None = None
    pci_bus_id: str | None = None
    device: str | None = None


class Nvml:
    """An open connection to the driver's management library."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 # a module
        self._library = library

    @property
    def driver(self) -> str | None:
        """Version of the driver, None where it does not say."""
        return text(reading(self._library.nvmlSystemGetDriverVersion))

    def cards(self) -> tuple[NvmlGpu, ...]:
        """All cards that can be used, by PCI address. One that is lost or does not answer is left out."""
        return tuple(card for card in self._asked() if isinstance(card, NvmlGpu))

    def lost_cards(self) -> tuple[LostCard, ...]:
        """Cards that the driver counts and of which it says that they cannot be used, by PCI address."""
        return tuple(card for card in self._asked() if isinstance(card, LostCard))

    def _asked(self) -> Iterator[NvmlGpu | LostCard | None]:
        for index in range(count(reading(self._library.nvmlDeviceGetCount)) or 0):
            yield self._card(index)

    def _card(self, index: int) -> NvmlGpu | LostCard | None:
        """A card, why it is lost, or None where neither can be told."""
        try:
            handle = self._library.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:  # noqa: BLE001 # as `reading` has it
            reason = _REASON_OF_LOST_CARD.get(_code(error))
            return None if reason is None else LostCard(index, reason, str(error))
        card = NvmlGpu(self._library, handle, index=index)
        refusals = [refusal for probe in _PROBES if (refusal := self._refusal(probe, handle)) is not None]
        reasons = [_REASON_OF_LOST_CARD.get(_code(refusal)) for refusal in refusals]
        for refusal, reason in zip(refusals, reasons, strict=True):
            if reason is not None and (reason != NVML_UNKNOWN_ERROR or reasons == [reason] * len(_PROBES)):
                return LostCard(index, reason, str(refusal), card.uuid, card.pci_bus_id, card.device)
        return card

    def _refusal(self, function: str, handle: object) -> Exception | None:
        try:
            getattr(self._library, function)(handle)
        except Exception as error:  # noqa: BLE001 # as `reading` has it
            return error
        return None

    def cards_without_slice(self) -> tuple[NvmlGpu, ...]:
        """Cards in MIG mode of which nothing can be measured until somebody creates a slice."""
        return tuple(card for card in self.cards() if card.is_split and not any(card.slices()))

    def gpus(self) -> tuple[NvmlGpu, ...]:
        """Everything that can be measured: whole cards, and the slices of split ones."""
        return tuple(gpu for card in self.cards() for gpu in (card.slices() if card.is_split else [card]))

    def find(self, *, uuid: str | None, pci_bus_id: str | None) -> NvmlGpu | None:
        """The gpu with this UUID, else the one at this PCI address, else None."""
        gpus = self.gpus()
        by_uuid = [gpu for gpu in gpus if uuid and gpu.uuid == uuid]
        by_bus_id = [gpu for gpu in gpus if pci_bus_id and not gpu.is_slice and gpu.pci_bus_id == pci_bus_id]
        return next(iter((*by_uuid, *by_bus_id)), None)


def open_nvml(library: Any = None) -> Nvml:  # noqa: ANN401 # a module
    """
    Connect to the driver's management library, which needs no rights and makes no CUDA context.

    Args:
        library: the module `pynvml`, or what stands for it in tests.

    Raises:
        NvmlError: it is not installed or the driver does not answer; the reason says which.
    """
    try:
        library = importlib.import_module("pynvml") if library is None else library
    except ImportError as error:
        raise NvmlError("NVML's bindings are missing; install nvidia-ml-py", reason="nvml_missing") from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        reason = _REASON_OF_CODE.get(_code(error), "nvml_error")
        remedy = _REMEDY_OF_REASON.get(reason, "see whether `nvidia-smi` works on this node")
        raise NvmlError(f"NVML: {error}; {remedy}", reason=reason) from error
    return Nvml(library)


def _code(error: Exception) -> int:
    code = getattr(error, "value", 0)
    return code if isinstance(code, int) else 0


def _field(value: Any) -> object:  # noqa: ANN401 # a structure of C
    return getattr(value.value, _VALUE_MEMBERS[value.valueType]) if value.valueType < len(_VALUE_MEMBERS) else None

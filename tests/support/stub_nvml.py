"""What stands for the module `pynvml` in tests: cards as a test describes them, and an error for all else."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class StubNvmlError(Exception):
    """What a function raises that has no reading; the value is NVML's code."""

    def __init__(self, value: int = 3, text: str = "Not Supported") -> None:
        super().__init__(text)
        self.value = value


@dataclass(slots=True)
class StubCard:
    """
    One card, or one slice of a card.

    Attributes:
        readings: by name of the function without "nvmlDeviceGet"; an exception is raised, a function is called with the
            further arguments.
        fields: values by number of the field.
        slices: MIG slices; None where the card is not in MIG mode.
        handle_error: why it gives no handle; None where it does.
    """

    uuid: str
    bus_id: str
    name: Any
    readings: dict[str, Any] = field(default_factory=dict)
    fields: dict[int, float] = field(default_factory=dict)
    slices: list[StubCard] | None = None
    handle_error: StubNvmlError | None = None


class StubNvml:
    """A driver's library with some cards."""

    NVMLError = StubNvmlError

    def __init__(self, *cards: StubCard, init_error: StubNvmlError | None = None) -> None:
        self._cards = cards
        self._init_error = init_error

    def nvmlInit(self) -> None:  # noqa: N802 # NVML's name
        """Fail if the test says so."""
        if self._init_error is not None:
            raise self._init_error

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802 # NVML's name
        """A version."""
        return "580.159.04"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 # NVML's name
        """Number of cards."""
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> StubCard:  # noqa: N802 # NVML's name
        """The card itself serves as its handle."""
        error = self._cards[index].handle_error
        if error is not None:
            raise error
        return self._cards[index]

    def __getattr__(self, function: str) -> Any:
        if not function.startswith("nvmlDeviceGet"):
            raise AttributeError(function)
        return lambda card, *arguments: _answer(card, function.removeprefix("nvmlDeviceGet"), *arguments)


def _answer(card: StubCard, name: str, *arguments: Any) -> Any:
    built_in = {
        "UUID": card.uuid,
        "PciInfo": SimpleNamespace(busId=card.bus_id),
        "Name": card.name,
        "MigMode": [0, 0] if card.slices is None else [1, 1],
        "MaxMigDeviceCount": len(card.slices or ()),
    }
    if name == "MigDeviceHandleByIndex":
        return (card.slices or [])[arguments[0]]
    if name == "FieldValues":
        return [_field_value(card.fields.get(number)) for number in arguments[0]]
    answer = card.readings.get(name, built_in.get(name, StubNvmlError()))
    if isinstance(answer, Exception):
        raise answer
    return answer(*arguments) if callable(answer) else answer


def _field_value(value: float | None) -> Any:
    if value is None:
        return SimpleNamespace(nvmlReturn=3, valueType=0, value=SimpleNamespace())
    return SimpleNamespace(nvmlReturn=0, valueType=0, value=SimpleNamespace(dVal=value))

"""What the driver's libraries and torch say of themselves, as a child process passes it on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Facts(BaseModel):
    """Base of the facts of one child."""

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


class NvmlFacts(Facts):
    """What NVML says; `trouble` where it cannot be used."""

    trouble: Trouble | None = None
    driver: str | None = None
    cards: tuple[CardFacts, ...] = ()


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

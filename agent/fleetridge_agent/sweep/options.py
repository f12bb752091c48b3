"""What a user can choose of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from fleetridge.weight_shapes import DEFAULT_MODEL
from fleetridge_agent.device.gemm_variants import Fill
from fleetridge_agent.measurement_protocol import REPS, WARMUP

if TYPE_CHECKING:
    from fleetridge.report import Method

Mode = Literal["gemm", "bandwidth", "all"]
Profile = Literal["quick", "standard", "full"]


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """
    Options of a sweep; None stands for what the protocol and the device's kind provide.

    Attributes:
        mode: which half of the roofline to measure.
        profile: `quick` measures the judged burst and memory roofs, `standard` also the sustained roof, the fastest
            shape and decode steps, `full` all that of every dtype that the device can multiply, and all shapes. What
            two of them measure, they measure alike.
        dtypes: what to multiply; none given means the device's default.
        square: sizes of the square products M=N=K; given, they are measured in every profile.
        m_sweep: rows M (tokens) of the products with the model's weights; likewise.
        all_shapes: whether to measure the shapes of `full` in any profile.
        model, tensor_parallel: whose weight shapes, and over how many gpus they are split.
        buffer_mib: size of each stream buffer.
        warmup, reps: untimed and timed calls; where given they are made in full, however long they take.
        fill: what operands hold.
        force: whether to measure although somebody else uses the device.
    """

    mode: Mode = "all"
    profile: Profile = "standard"
    dtypes: tuple[str, ...] = ()
    square: tuple[int, ...] | None = None
    m_sweep: tuple[int, ...] | None = None
    all_shapes: bool = False
    model: str = DEFAULT_MODEL
    tensor_parallel: int = 1
    buffer_mib: int | None = None
    warmup: int | None = None
    reps: int | None = None
    fill: Fill = field(default_factory=Fill)
    force: bool = False

    @property
    def has_all_shapes(self) -> bool:
        """Whether squares and every number of rows are measured unless others were given."""
        return self.all_shapes or self.profile == "full"

    @property
    def is_standard(self) -> bool:
        """Whether the judged roofs are measured as every agent of this protocol does; the seed does not matter."""
        return (
            self.buffer_mib is None
            and self.warmup in (None, WARMUP)
            and self.reps in (None, REPS)
            and self.fill.kind == "normal"
        )


def method_of(*, is_standard: bool, is_together: bool) -> Method:
    """
    Name of the way in which the judged roofs are measured; rates of different ways are not compared.

    Args:
        is_standard: whether as every agent of this protocol does it.
        is_together: whether at the same time as the other gpus of the node.
    """
    if is_together:
        return "standard_together" if is_standard else "custom_together"
    return "standard" if is_standard else "custom"

"""Who reports: the run, the agent, the node and the gpu."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleetridge import device_names
from fleetridge.report.field_types import (
    AtMost,
    Count,
    CountReading,
    Detail,
    PlainUuid,
    Slug,
    SmallCountReading,
    SwitchReading,
    Text,
    TextReading,
    WireModel,
)

RunKind = Literal["cron", "daemon", "manual", "check", "import"]

Method = Literal["standard", "custom", "standard_together", "custom_together"]

DEFAULT_CLUSTER = device_names.DEFAULT_CLUSTER

# A node in CPX partitions shows 64 gpus; four times that leaves room for machines to come.
MAX_ROSTER = 256

# Kubernetes nodes carry some dozens of labels; more are somebody else's data.
_MAX_LABELS = 64

# A command line longer than this is not one that a person typed.
_MAX_ARGUMENTS = 256


# State of a gpu in a roster that the driver counts and that cannot be used.
LOST: Literal["lost"] = "lost"


class RosterGpu(WireModel):
    """
    One gpu of a node as the driver lists it, measured or not.

    Attributes:
        state: None where it answers; `lost` where the driver counts it and says that it cannot be used, so that its
            identity may be that of when it last answered. A word that a reader does not know is as good as none.
    """

    uuid: TextReading = None
    pci_bus_id: TextReading = None
    index: SmallCountReading = None
    device: TextReading = None
    mig_profile: TextReading = None
    state: Slug | None = None


class Run(WireModel):
    """
    One start of the agent on one node.

    Attributes:
        run_id: shared by the reports of all gpus that the run measured.
        kind: what started it.
        roster: all gpus of the node as the driver lists them, lost ones included; None where the driver could not be
            asked.
        roster_complete: whether nothing (a container, CUDA_VISIBLE_DEVICES) hid gpus from that list; only a complete
            roster lets a reader conclude that a gpu is missing.
    """

    run_id: PlainUuid
    kind: RunKind
    roster: Annotated[tuple[RosterGpu, ...], AtMost(MAX_ROSTER)] | None = None
    roster_complete: SwitchReading = None


class Agent(WireModel):
    """
    The program that measured.

    Attributes:
        version: of the agent.
        protocol_version: of the measuring protocol; results of different protocols are not compared.
        method: `standard`, or `custom` where an option changed how a judged roof is measured; `…_together` where the
            gpus of the node were measured at once and shared its power and its air. Results of different methods are
            not compared.
        arguments: of the command line, without secrets.
    """

    version: Text
    protocol_version: Count | None = None
    method: Method | None = None
    arguments: Annotated[tuple[Detail, ...], AtMost(_MAX_ARGUMENTS)] = ()


class Node(WireModel):
    """
    The host, named within its cluster, as two clusters may each have an "n01".

    Attributes:
        name: None only in imported measurements that never said.
        labels: for filters; `rack` is reserved for where the node stands.
    """

    cluster: Annotated[Text, Field(min_length=1)] = DEFAULT_CLUSTER
    name: TextReading = None
    labels: Annotated[dict[Text, Text], AtMost(_MAX_LABELS)] = Field(default_factory=dict)


class Gpu(WireModel):
    """
    One physical unit or one MIG slice; the CPU where that was measured.

    Attributes:
        uuid: None, empty, "N/A" or all zeros where the driver gives no identity; node and bus id stand in then.
        index: in the driver's order, by bus id; shown only, never joined on.
        device: the model's name as the driver reports it; may be empty, then architecture and memory stand in.
        architecture: such as `sm_90`, `gfx90a` or `x86_64`.
        sm_count: multiprocessors or compute units that are visible; cores of a CPU.
        mig_profile: such as `1g.12gb` for a slice.
        partition: such as `CPX/NPS4` for a card split in another way.
    """

    uuid: TextReading = None
    pci_bus_id: TextReading = None
    index: SmallCountReading = None
    device: TextReading = None
    architecture: TextReading = None
    memory_bytes: CountReading = None
    sm_count: SmallCountReading = None
    mig_profile: TextReading = None
    partition: TextReading = None

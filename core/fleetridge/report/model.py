"""The report as a whole."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from fleetridge.report.environment import Environment, Evidence
from fleetridge.report.field_types import (
    AtMost,
    CountReading,
    Detail,
    PlainUuid,
    Slug,
    SmallCountReading,
    Text,
    TextReading,
    UtcTime,
    WireModel,
)
from fleetridge.report.origin import Agent, Gpu, Node, Run
from fleetridge.report.points import Point
from fleetridge.report.roofs import Roof

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 0
SCHEMA_VERSION = f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"

# A fleet is upgraded over weeks: the server takes the reports of its own and the two minor versions before.
_MINORS_BACK = 2

# A full sweep has some hundreds of points (shapes × dtypes × regimes) and some dozens of roofs.
MAX_POINTS = 4096
MAX_ROOFS = 512

Outcome = Literal["measured", "skipped", "unsupported", "failed"]


def _taken_version(version: str) -> str:
    taken = [f"{SCHEMA_MAJOR}.{minor}" for minor in range(max(0, SCHEMA_MINOR - _MINORS_BACK), SCHEMA_MINOR + 1)]
    if version not in taken:
        raise ValueError(f"unknown schema version; this side takes {', '.join(taken)}: upgrade whichever is older")
    return version


class Sweep(WireModel):
    """
    How a gpu was measured: what was asked for, and what the operands were filled with.

    Attributes:
        gpus_at_once: gpus of the node that were measured at the same time; None where each was measured by itself.
    """

    profile: TextReading = None
    dtypes: Annotated[tuple[Text, ...], AtMost(64)] = ()
    square: Annotated[tuple[int, ...], AtMost(1024)] = ()
    m_sweep: Annotated[tuple[int, ...], AtMost(1024)] = ()
    model: TextReading = None
    tensor_parallel: SmallCountReading = None
    buffer_bytes: CountReading = None
    warmup: SmallCountReading = None
    reps: SmallCountReading = None
    fill: TextReading = None
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] | None = None
    gpus_at_once: SmallCountReading = None


class Report(WireModel):
    """
    One sweep of one gpu: identity, environment, evidence and rates, or why there are none.

    Attributes:
        schema_version: `major.minor` of this contract.
        report_id: made by the agent, the idempotency key; never used for order.
        measured_from, measured_to: by the node's clock, in UTC; None only in imported measurements that never said.
        outcome, reason, detail: a `measured` report has rates; any other says why in a word and a sentence.
        gpu: None where the report is about the node as a whole.
        points, roofs: at least one of them non-empty in a `measured` report.
    """

    schema_version: Annotated[Text, AfterValidator(_taken_version)]
    report_id: PlainUuid
    measured_from: UtcTime | None
    measured_to: UtcTime | None
    run: Run
    outcome: Outcome
    reason: Slug | None = None
    detail: Detail | None = None
    agent: Agent
    node: Node
    gpu: Gpu | None = None
    environment: Environment = Field(default_factory=Environment)
    evidence: Evidence = Field(default_factory=Evidence)
    sweep: Sweep | None = None
    points: Annotated[tuple[Point, ...], AtMost(MAX_POINTS)] = ()
    roofs: Annotated[tuple[Roof, ...], AtMost(MAX_ROOFS)] = ()

    @model_validator(mode="after")
    def _says_what_it_is(self) -> Report:
        if self.outcome == "measured":
            if self.gpu is None:
                raise ValueError("a measured report names its gpu; send `gpu`, or another outcome")
            if not self.points and not self.roofs:
                raise ValueError("a measured report has points or roofs; send them, or another outcome with a reason")
        elif self.reason is None:
            raise ValueError(f"a {self.outcome} report gives a reason, such as `busy` or `timed_out`")
        return self

    @model_validator(mode="after")
    def _times_run_forward(self) -> Report:
        if self.run.kind != "import" and (self.measured_from is None or self.measured_to is None):
            raise ValueError("measured_from and measured_to may be null only in an import")
        if self.measured_from is not None and self.measured_to is not None and self.measured_to < self.measured_from:
            raise ValueError("measured_to lies before measured_from")
        return self

    @model_validator(mode="after")
    def _roofs_rest_on_own_points(self) -> Report:
        for position, roof in enumerate(self.roofs):
            if any(source >= len(self.points) for source in roof.points):
                raise ValueError(f"roofs[{position}].points names a point that this report does not have")
        return self

    def canonical_json(self) -> bytes:
        """
        One spelling of this content: sorted keys, UTC times, no insignificant space, absent and null alike.

        Null is left out so that a field which a later version adds does not change the spelling of older reports.
        """
        content = self.model_dump(mode="json", exclude_none=True)
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    def content_sha256(self) -> bytes:
        """SHA-256 of the canonical JSON, 32 bytes: equal for equal content, however it was spelled on the wire."""
        return hashlib.sha256(self.canonical_json()).digest()

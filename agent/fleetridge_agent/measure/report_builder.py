"""Wire reports from what a sweep measured, or from why there was none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

import fleetridge
from fleetridge.report import SCHEMA_VERSION, Agent, Evidence, Gpu, Method, Node, Outcome, Report, Run
from fleetridge.terminal_text import shortened, visible
from fleetridge.uuid7 import uuid7
from fleetridge_agent.device.contract import Device
from fleetridge_agent.measure.notes import summary
from fleetridge_agent.measure.sweep import Failure, SweepResult
from fleetridge_agent.measure.sweep_options import method_of
from fleetridge_agent.protocol import PROTOCOL_VERSION

# Well inside what the contract takes, and more than anybody reads.
_LONGEST_DETAIL = 2000


def build_report(
    result: SweepResult,
    device: Device,
    *,
    run: Run,
    node: Node,
    arguments: Sequence[str] = (),
    gpus_at_once: int | None = None,
) -> Report:
    """
    Report of one sweep: measured, or unsupported or failed where it measured nothing or broke.

    A sweep that broke keeps the points and roofs that it had.

    Args:
        result: what was measured.
        device: on what.
        run: whose sweep it is.
        node: where.
        arguments: of the command line.
        gpus_at_once: gpus that were measured at the same time, None where this one was alone.
    """
    outcome, reason, detail = _outcome(result)
    method = method_of(is_standard=result.is_standard, is_together=gpus_at_once is not None)
    return Report(
        schema_version=SCHEMA_VERSION,
        report_id=uuid7(),
        measured_from=result.measured_from,
        measured_to=result.measured_to,
        run=run,
        outcome=outcome,
        reason=reason,
        detail=one_line(detail),
        agent=_agent(method, arguments),
        node=node,
        gpu=device.description.gpu,
        environment=device.description.environment,
        evidence=result.evidence,
        sweep=result.sweep.model_copy(update={"gpus_at_once": gpus_at_once}),
        points=result.points,
        roofs=result.roofs,
    )


def build_refusal(
    outcome: Outcome,
    failure: Failure,
    *,
    run: Run,
    node: Node,
    method: Method,
    gpu: Gpu | None = None,
    evidence: Evidence | None = None,
    arguments: Sequence[str] = (),
) -> Report:
    """Report of a gpu, or of the node where `gpu` is None, that was not measured: skipped, unsupported or failed."""
    now = datetime.now(timezone.utc)
    return Report(
        schema_version=SCHEMA_VERSION,
        report_id=uuid7(),
        measured_from=now,
        measured_to=now,
        run=run,
        outcome=outcome,
        reason=failure.reason,
        detail=one_line(failure.detail),
        agent=_agent(method, arguments),
        node=node,
        gpu=gpu,
        evidence=evidence or Evidence(),
    )


def one_line(text: str | None) -> str | None:
    """Text of a driver or of torch as one printable line of bounded length; None stays None."""
    return shortened(visible(" ".join(text.split())), _LONGEST_DETAIL) if text else None


def _outcome(result: SweepResult) -> tuple[Outcome, str | None, str | None]:
    """Outcome, reason and detail."""
    notes = summary(result.notes)
    if result.failure is not None:
        return "failed", result.failure.reason, result.failure.detail
    if result.points:
        return "measured", None, notes
    if all(note.reason == "unsupported" for note in result.notes):
        return "unsupported", "dtype_unsupported", notes or "nothing was asked for"
    return "failed", "out_of_memory", notes


def _agent(method: Method, arguments: Sequence[str]) -> Agent:
    return Agent(
        version=fleetridge.__version__,
        protocol_version=PROTOCOL_VERSION,
        method=method,
        arguments=tuple(arguments),
    )

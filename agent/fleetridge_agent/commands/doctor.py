"""`fleetridge-agent doctor`: what stands in the way of measuring and delivering on this node, and what to do."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache, partial

from fleetridge_agent.commands.context import Context
from fleetridge_agent.config.origins import settings_seen
from fleetridge_agent.doctor.diagnosis import diagnose, diagnosis_json, diagnosis_text
from fleetridge_agent.doctor.facts import CudaFacts, NvmlFacts, TorchFacts, ask
from fleetridge_agent.doctor.probe import NodeState
from fleetridge_agent.doctor.server_probes import server_facts
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.readings.host import Host


def doctor(context: Context) -> ExitCode:
    """Look at everything that measuring and delivering need; nothing is changed and no gpu is used."""
    diagnosis = diagnose(_node_state(context))
    as_json: bool = context.source.options.as_json
    context.emit((diagnosis_json(diagnosis) if as_json else diagnosis_text(diagnosis)) + "\n")
    return ExitCode.DONE if diagnosis.is_well else ExitCode.FAILED


def _node_state(context: Context) -> NodeState:
    return NodeState(
        settings=settings_seen(context.source, context.state_dir),
        environ=context.source.environ,
        state_dir=context.state_dir,
        host=Host(),
        now=_now,
        nvml=cache(partial(ask, "nvml", NvmlFacts)),
        cuda=cache(partial(ask, "cuda", CudaFacts)),
        torch=cache(partial(ask, "torch", TorchFacts)),
        server=partial(server_facts, now=_now),
    )


def _now() -> datetime:
    return datetime.now(timezone.utc)

"""`fleetridge-agent doctor`: what stands in the way of measuring and delivering on this node, and what to do."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache, partial

from fleetridge_agent.commands.context import Context
from fleetridge_agent.config.in_force import settings_seen
from fleetridge_agent.doctor.child import asked
from fleetridge_agent.doctor.diagnosis_forms import diagnosis_json, diagnosis_text
from fleetridge_agent.doctor.examination import examine
from fleetridge_agent.doctor.facts import CudaFacts, NvmlFacts, TorchFacts
from fleetridge_agent.doctor.server_look import looked_at
from fleetridge_agent.doctor.surroundings import Surroundings
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.node.host import Host


def doctor(context: Context) -> ExitCode:
    """Look at everything that measuring and delivering need; nothing is changed and no gpu is used."""
    diagnosis = examine(_surroundings(context))
    as_json: bool = context.source.options.as_json
    context.emit((diagnosis_json(diagnosis) if as_json else diagnosis_text(diagnosis)) + "\n")
    return ExitCode.DONE if diagnosis.is_well else ExitCode.FAILED


def _surroundings(context: Context) -> Surroundings:
    return Surroundings(
        settings=settings_seen(context.source, context.state_dir),
        environ=context.source.environ,
        state_dir=context.state_dir,
        host=Host(),
        now=_now,
        nvml=cache(partial(asked, "nvml", NvmlFacts)),
        cuda=cache(partial(asked, "cuda", CudaFacts)),
        torch=cache(partial(asked, "torch", TorchFacts)),
        server=partial(looked_at, now=_now),
    )


def _now() -> datetime:
    return datetime.now(timezone.utc)

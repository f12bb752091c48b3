"""`fleetridge-agent daemon`: measures every gpu of the node again and again, and delivers in between."""

from __future__ import annotations

from functools import partial

from fleetridge.module_command import module_command
from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import options, resolved
from fleetridge_agent.config.setting_types import as_arguments
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.spool import Spool
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.lock import daemon_lock
from fleetridge_agent.schedule.attempt import Attempt, AttemptResult, attempt_text, result_of, run_to_end
from fleetridge_agent.schedule.daemon_loop import Loop, Tasks
from fleetridge_agent.schedule.due import cadence_of, due_file_of

# By name, as these modules import the program that this command belongs to.
ROUND_PROCESS = module_command("fleetridge_agent.round_process")
_FLUSH_PROCESS = (*module_command("fleetridge_agent.cli"), "flush")

# Tries of one call and its time-outs, for a spool of many calls to a slow server.
_FLUSH_LIMIT_S = 3600.0

# A round that is due again in a moment still gets as long as a quick sweep of a node takes.
_SHORTEST_ROUND_S = 600.0

_MEASURED = (*options.NODE_WIDE, *options.DELIVERING, *options.NAMING, *options.MEASURING, *options.COMMON)
_DELIVERED = (*options.DELIVERING, *options.COMMON)


def daemon(context: Context) -> ExitCode:
    """
    Keep rounds until a signal ends it.

    This process never touches a gpu, nor the driver's libraries: each round has a process of its own.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    source = context.source
    _require_right_settings(context)
    node = resolved.node_of(source).name or ""
    cadence = cadence_of(
        node,
        every_s=options.EVERY.required(source).total_seconds(),
        jitter_s=options.JITTER.required(source).total_seconds(),
    )
    tasks = Tasks(
        measure=partial(_measure, context),
        flush=partial(_flush, context),
        waiting=Spool(context.state_dir).count,
    )
    with daemon_lock(context.state_dir, node):
        return Loop(cadence, due_file_of(context.state_dir, node), tasks, context.stop).run()


def _require_right_settings(context: Context) -> None:
    """What a round would be refused for is said now, and not in the middle of the first night."""
    with Client(resolved.server_of(context.source), wait=context.stop.wait):
        pass  # opens certificates and proxies, and calls nobody
    resolved.device_kind(context.source)
    resolved.sweep_options(context.source)
    for setting in _MEASURED:
        setting.value(context.source)


def _measure(context: Context, attempt: Attempt, limit_s: float) -> AttemptResult | None:
    skipped = () if attempt.gpus is None else (options.GPUS,)
    words = as_arguments(context.source, [setting for setting in _MEASURED if setting not in skipped])
    if attempt.gpus is not None:
        words += (options.GPUS.option, *attempt.gpus)
    command = (*ROUND_PROCESS, attempt_text(attempt), *words)
    return result_of(run_to_end(command, context.stop, limit_s=max(limit_s, _SHORTEST_ROUND_S)))


def _flush(context: Context) -> None:
    words = as_arguments(context.source, _DELIVERED)
    run_to_end((*_FLUSH_PROCESS, *words), context.stop, limit_s=_FLUSH_LIMIT_S)

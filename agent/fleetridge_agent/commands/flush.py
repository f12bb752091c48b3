"""`fleetridge-agent flush`: delivers what earlier runs left in the spool."""

from __future__ import annotations

from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import resolved
from fleetridge_agent.deliver.dispatch import dispatch, log_tally
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.spool import Spool
from fleetridge_agent.errors import ExitCode


def flush(context: Context) -> ExitCode:
    """
    Deliver the spool.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    server = resolved.server_of(context.source)
    with Client(server, wait=context.stop.wait) as client:
        return log_tally(dispatch(client.deliver, Spool(context.state_dir), is_stopped=lambda: context.stop.is_asked))

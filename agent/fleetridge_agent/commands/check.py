"""`fleetridge-agent check`: a preflight of seconds, one line and an exit code for schedulers."""

from __future__ import annotations

import logging
import os
from datetime import datetime, timezone
from pathlib import Path

from fleetridge_agent.check.last_verdict import read_last, still_holding, verdict_path
from fleetridge_agent.check.verdict import State, emit_verdict_line, log_verdict, verdict_line, worst_state
from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import options, resolved
from fleetridge_agent.errors import AgentError, CheckCode, UsageError

log = logging.getLogger(__name__)


_CODE: dict[State, CheckCode] = {
    "ok": CheckCode.OK,
    "degraded": CheckCode.DEGRADED,
    "unknown": CheckCode.UNKNOWN,
}


def check(context: Context) -> CheckCode:
    """
    Say in one line whether the gpus of this node are as fast as they should be.

    Whatever goes wrong on the way is unknown: neither is the node accused of it nor is it ever taken for health.
    """
    try:
        max_age = options.MAX_AGE.value(context.source)
        state = _measured_now(context) if max_age is None else _from_last(context)
    except BrokenPipeError:
        raise
    except AgentError as error:
        log.error("%s", error)  # noqa: TRY400 # expected: the sentence says all
        state = emit_verdict_line(context.emit, (), trouble=error.reason)
    except KeyboardInterrupt:
        state = emit_verdict_line(context.emit, (), trouble="interrupted")
    except Exception as error:
        log.exception("something went wrong that nobody expected; please report it with these lines")
        state = emit_verdict_line(context.emit, (), trouble=f"crashed: {type(error).__name__}")
    return _CODE[state]


def _from_last(context: Context) -> State:
    """The last verdict, if it is young enough; no gpu is touched and no library of a driver loaded."""
    source = context.source
    if options.BASELINE.given(source) or options.SAVE_BASELINE.given(source):
        raise UsageError("--max-age: answers from the last verdict and measures nothing; leave --baseline out")
    node = resolved.node_name_of(source)
    last = read_last(context.state_dir, node)
    if last is None:
        return emit_verdict_line(context.emit, (), trouble=_why_none(context.state_dir, node))
    moment = datetime.now(timezone.utc)
    verdicts = still_holding(
        last,
        max_age=options.MAX_AGE.required(source),
        now=moment,
        chosen=resolved.chosen_gpus(source),
    )
    for verdict in verdicts:
        log_verdict(verdict)
    oldest = max((moment - verdict.judged_at for verdict in verdicts), default=None)
    context.emit(f"{verdict_line(verdicts, trouble=last.trouble or 'no such gpu', old=oldest)}\n")
    return worst_state(verdict.state for verdict in verdicts)


def _why_none(state_dir: Path, node: str) -> str:
    """Why there is no last verdict, in two words; the log says what to do."""
    path = verdict_path(state_dir, node)
    if os.path.lexists(path):
        log.warning("%s is no verdict that this user and this version can read; `check` and `run` replace it", path)
        return "unreadable verdict"
    log.warning("there is no verdict on this node in %s; `check` and `run` leave one there", state_dir)
    return "never checked"


def _measured_now(context: Context) -> State:
    from fleetridge_agent.commands.check_by_measuring import checked  # noqa: PLC0415 # whoever asks for the last verdict does without

    return checked(context)

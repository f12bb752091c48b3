"""
The command `fleetridge-agent`.

Results go to standard output, progress and logs to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly,
3 no device, 4 skipped, 5 the server will never take a report.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import fleetridge
from fleetridge_agent.commands.context import Context
from fleetridge_agent.commands.flush import flush
from fleetridge_agent.commands.run import run
from fleetridge_agent.commands.sweep import sweep
from fleetridge_agent.config import choices, options
from fleetridge_agent.config.settings import Setting, Source, add_all
from fleetridge_agent.errors import AgentError, ExitCode
from fleetridge_agent.log import configure
from fleetridge_agent.stop import stopping_on_signals

log = logging.getLogger(__name__)

Command = Callable[[Context], ExitCode]

_PROGRAM = "fleetridge-agent"

_EXIT_CODES = (
    "Exit codes: 0 done (also when reports wait in the spool), 1 failed, 2 called wrongly, 3 no device, 4 skipped, "
    "5 the server will never take a report."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    source = Source(_parser().parse_args(arguments), os.environ)
    configure(sys.stderr, log_format="text", environ=source.environ)
    try:
        return _ended(source)
    except AgentError as error:
        log.error("%s", error)  # noqa: TRY400 # expected: the sentence says all
        return error.exit_code
    except BrokenPipeError:
        # Whoever read the results has gone; nothing more can be said, also not when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except KeyboardInterrupt:
        log.error("interrupted")  # noqa: TRY400 # as the user asked
        return ExitCode.FAILED
    except Exception:
        log.exception("something went wrong that nobody expected; please report it with these lines")
        return ExitCode.FAILED


def _ended(source: Source) -> ExitCode:
    """Run the command until it ends or is ended by a signal."""
    progress = configure(sys.stderr, log_format=options.LOG_FORMAT.required(source), environ=source.environ)
    with stopping_on_signals() as stop:
        context = Context(
            source=source,
            stdout=sys.stdout,
            progress=progress,
            stop=stop,
            state_dir=choices.state_dir(source, is_root=os.geteuid() == 0, home=Path.home()),
            is_attended=sys.stderr.isatty(),
            columns=shutil.get_terminal_size().columns if sys.stdout.isatty() else None,
        )
        command: Command = source.options.command
        code = command(context)
        progress.clear()
    return ExitCode.FAILED if stop.is_asked and code is ExitCode.DONE else code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, description="Measures the roofline of the gpus of this node.", epilog=_EXIT_CODES
    )
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {fleetridge.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add(commands, "sweep", sweep, "measure here and print", _SWEEP)
    _add(commands, "run", run, "measure every gpu of the node and deliver the reports", _RUN)
    _add(commands, "flush", flush, "deliver what earlier runs left behind", _FLUSH)
    return parser


_Groups = Sequence[tuple[str, Sequence[Setting[object]]]]

_SWEEP: _Groups = (
    ("measuring", options.MEASURING),
    ("showing", options.SHOWING),
    ("this node", options.NAMING),
    ("surroundings", options.COMMON),
)
_RUN: _Groups = (
    ("delivering", options.DELIVERING),
    ("this node", options.NAMING),
    ("measuring", options.MEASURING),
    ("surroundings", options.COMMON),
)
_FLUSH: _Groups = (("delivering", options.DELIVERING), ("surroundings", options.COMMON))


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: Command,
    summary: str,
    groups: _Groups,
) -> None:
    parser = commands.add_parser(name, help=summary, description=f"{summary.capitalize()}.", epilog=_EXIT_CODES)
    parser.set_defaults(command=command)
    for title, settings in groups:
        add_all(parser, title, settings)


if __name__ == "__main__":
    sys.exit(main())

"""
The command `fleetridge-agent`.

Results go to standard output, progress and logs to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly,
3 no device, 4 skipped, 5 the server will never take a report; `check` and `doctor` have codes of their own.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import fleetridge
from fleetridge_agent import commands
from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import options, resolved
from fleetridge_agent.config.setting_types import Setting, Source, add_all
from fleetridge_agent.config.variables import unknown_variables
from fleetridge_agent.errors import AgentError, CheckCode, ExitCode, UsageError
from fleetridge_agent.log import LogFormat, configure, stray_output_logged
from fleetridge_agent.stop import stopping_on_signals

log = logging.getLogger(__name__)

Command = Callable[[Context], int]

_PROGRAM = "fleetridge-agent"

_CHECK_COMMAND, _DAEMON_COMMAND = "check", "daemon"

# What a command ends with that had nothing to complain of; one that a signal ended has not done what it was for.
_DONE_OR_SKIPPED = (ExitCode.DONE, ExitCode.SKIPPED)

_EXIT_CODES = (
    "Exit codes: 0 done (also when reports wait in the spool), 1 failed, 2 called wrongly, 3 no device, 4 skipped, "
    "5 the server will never take a report."
)

_EXIT_CODES_OF_CHECK = "Exit codes: 0 ok, 1 degraded, 2 unknown; whatever goes wrong is unknown."
_EXIT_CODES_OF_DOCTOR = "Exit codes: 0 nothing stands in the way of measuring and delivering, 1 something does."


def main(arguments: Sequence[str] | None = None, carry_out: Command | None = None) -> int:
    """
    Run one command; its exit code.

    A command is imported once it is called for: what it measures, prints and sends with takes most of a second.

    Args:
        arguments: of the command line, by default this process's own.
        carry_out: what to do with the settings that they give, in place of the command that they name.
    """
    _open_streams()
    configure(sys.stderr, log_format=_early_log_format(arguments), environ=os.environ)
    failed: int = ExitCode.FAILED
    try:
        with stray_output_logged():
            source = Source(_parser().parse_args(arguments), os.environ)
            command: str = source.options.command
            if command == _CHECK_COMMAND:
                failed = CheckCode.UNKNOWN  # 1 would accuse the node of what went wrong here
            return _ended(source, carry_out or _loaded(command), failed=failed, is_endless=command == _DAEMON_COMMAND)
    except AgentError as error:
        log.error("%s", error)  # noqa: TRY400 # expected: the sentence says all
        return _wrongly_called_check(error) if _asks_for_check(arguments) else error.exit_code
    except BrokenPipeError:
        # Whoever read the results has gone; nothing more can be said, also not when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failed
    except KeyboardInterrupt:
        log.error("interrupted")  # noqa: TRY400 # as the user asked
        return failed
    except Exception:
        log.exception("something went wrong that nobody expected; please report it with these lines")
        return failed


def _asks_for_check(arguments: Sequence[str] | None) -> bool:
    """Whether the command is `check`, also where its options cannot be read."""
    return [*(sys.argv[1:] if arguments is None else arguments)][:1] == [_CHECK_COMMAND]


def _wrongly_called_check(error: AgentError) -> CheckCode:
    """A check that cannot even begin still owes whoever reads its standard output a line."""
    from fleetridge_agent.check.verdict import verdict_line

    with suppress(BrokenPipeError):
        print(verdict_line((), trouble=error.reason), flush=True)
    return CheckCode.UNKNOWN


def _open_streams() -> None:
    """Give the streams that were closed before this program began somewhere to go; Python has None in their place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 # as long as we live


def _early_log_format(arguments: Sequence[str] | None) -> LogFormat:
    """Format of what is said of a command line that cannot be read: as it asks for, as far as that can be made out."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    options.LOG_FORMAT.add_to(parser)
    try:
        return options.LOG_FORMAT.required(Source(parser.parse_known_args(arguments)[0], os.environ))
    except UsageError:
        return "auto"


def _loaded(command: str) -> Command:
    """A command by its name, which is that of its module too."""
    function: Command = getattr(import_module(f"{commands.__name__}.{command}"), command)
    return function


def _ended(source: Source, command: Command, *, failed: int, is_endless: bool) -> int:
    """Run the command until it ends or is ended by a signal, which is how an endless one ends as it should."""
    progress = configure(sys.stderr, log_format=options.LOG_FORMAT.required(source), environ=source.environ)
    for variable in unknown_variables(source.environ):
        log.warning("%s", variable)
    with stopping_on_signals() as stop:
        context = Context(
            source=source,
            stdout=sys.stdout,
            progress=progress,
            stop=stop,
            state_dir=resolved.state_dir(source, is_root=os.geteuid() == 0),
            is_attended=sys.stderr.isatty(),
            columns=shutil.get_terminal_size().columns if sys.stdout.isatty() else None,
        )
        code = command(context)
        progress.clear()
    # A check ends with what its line says, whatever came after it.
    is_cut_short = stop.is_asked and not is_endless and source.options.command != _CHECK_COMMAND
    return failed if is_cut_short and code in _DONE_OR_SKIPPED else code


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line as everything else is said: in the log, in its format."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError in place of printing the usage and ending the program."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=_PROGRAM, description="Measures the roofline of the gpus of this node.", epilog=_EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {fleetridge.__version__}")
    named = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add(named, "sweep", "measure here and print", _SWEEP)
    _add(named, "run", "measure every gpu of the node and deliver the reports", _RUN)
    _add(named, _DAEMON_COMMAND, "measure every gpu of the node again and again, whenever it is idle", _DAEMON)
    _add(named, "flush", "deliver what earlier runs left behind", _FLUSH)
    checking = _add(named, _CHECK_COMMAND, "say in one line whether the gpus are as fast as they should be", _CHECK)
    checking.epilog = _EXIT_CODES_OF_CHECK
    examining = _add(named, "doctor", "say what stands in the way of measuring and delivering, and what to do", _DOCTOR)
    examining.epilog = _EXIT_CODES_OF_DOCTOR
    examining.add_argument("--json", dest="as_json", action="store_true", help="Print one JSON object instead of text.")
    return parser


_Groups = Sequence[tuple[str, Sequence[Setting[object]]]]

_SWEEP: _Groups = (
    ("measuring", options.MEASURING),
    ("showing", options.SHOWING),
    ("this node", options.NAMING),
    ("state and logs", options.COMMON),
)
_RUN: _Groups = (
    ("the node as a whole", options.NODE_WIDE),
    ("waiting", (options.WAIT,)),
    ("delivering", options.DELIVERING),
    ("this node", options.NAMING),
    ("measuring", options.MEASURING),
    ("state and logs", options.COMMON),
)
_DAEMON: _Groups = (
    ("rounds", options.ROUNDS),
    ("the node as a whole", options.NODE_WIDE),
    ("delivering", options.DELIVERING),
    ("this node", options.NAMING),
    ("measuring", options.MEASURING),
    ("state and logs", options.COMMON),
)
_FLUSH: _Groups = (("delivering", options.DELIVERING), ("state and logs", options.COMMON))
_CHECK: _Groups = (
    ("checking", (*options.CHECKING, *options.CHECKED)),
    ("delivering", options.DELIVERING),
    ("this node", options.NAMING),
    ("state and logs", options.COMMON),
)
# Those that say what is printed and where to are nobody's trouble.
_DOCTOR: _Groups = (
    ("settings to look at", [setting for setting in options.every_setting() if setting not in options.SHOWING]),
)


def _add(
    named: argparse._SubParsersAction[_Parser],
    name: str,
    summary: str,
    groups: _Groups,
) -> _Parser:
    parser = named.add_parser(name, help=summary, description=f"{summary.capitalize()}.", epilog=_EXIT_CODES)
    parser.set_defaults(command=name)
    for title, settings in groups:
        add_all(parser, title, settings)
    return parser


if __name__ == "__main__":
    sys.exit(main())

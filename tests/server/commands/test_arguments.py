"""The commands and their options."""

from __future__ import annotations

import argparse
import pkgutil
from typing import TYPE_CHECKING

from fleetridge_server.commands.arguments import parser

if TYPE_CHECKING:
    from collections.abc import Iterator


def commands_of(found: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Parsers of all commands, those of their actions included."""
    nested = [part for part in found._actions if isinstance(part, argparse._SubParsersAction)]
    if not nested:
        yield found
    for part in nested:
        for own in part.choices.values():
            yield from commands_of(own)


def test_every_command_names_the_function_that_carries_it_out() -> None:
    """It is imported once its command is given, so that nothing else would miss it before."""
    named = {own.prog: own.get_default("command") for own in commands_of(parser())}

    assert {"fleetridge-server serve", "fleetridge-server token list"} <= named.keys()
    assert all(callable(pkgutil.resolve_name(command)) for command in named.values())
    assert len(set(named.values())) == len(named)

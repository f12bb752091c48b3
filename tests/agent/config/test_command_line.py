"""Options that are handed on to another process."""

from __future__ import annotations

import argparse

import pytest

from fleetridge_agent.config import options
from fleetridge_agent.config.settings import Setting, Source, add_all, typed_again

SETTINGS: tuple[Setting[object], ...] = (*options.DELIVERING, *options.NAMING, *options.MEASURING, *options.COMMON)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_all(parser, "all", SETTINGS)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--server", "https://f.example/a b"),
        ("--label", "rack=row 1", "--label", "site=-x"),
        ("--gpus", "0", "GPU-a", "--square", "512", "1024", "--force"),
        ("--node=-odd", "--cluster=--east"),
        ("--log-format", "json", "--state-dir", "/var/lib/f r"),
    ],
)
def test_another_process_reads_the_same_options(words: tuple[str, ...]) -> None:
    first = parsed(*words)

    assert parsed(*typed_again(Source(first, {}), SETTINGS)) == first


def test_what_a_variable_gave_is_left_to_the_variable() -> None:
    """A process inherits it; on a command line everybody could read it."""
    assert typed_again(Source(parsed(), {"FLEETRIDGE_SERVER": "https://f.example"}), SETTINGS) == ()

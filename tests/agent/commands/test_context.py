"""Where results go."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from fleetridge_agent.commands.context import Context
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.progress import ProgressLine
from fleetridge_agent.stop import Stop


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("utf-8", "−3 % [8,4]×[4,2] – ○ d\u00e9j\u00e0"),
        ("ascii", "-3 % [8,4]x[4,2] - \\u25cb d\\xe9j\\xe0"),
        ("latin-1", "-3 % [8,4]x[4,2] - \\u25cb d\u00e9j\u00e0"),
    ],
)
def test_a_result_is_readable_in_every_encoding(encoding: str, written: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    context = Context(
        source=Source(None, {}),  # type: ignore[arg-type] # not read here
        stdout=stream,
        progress=ProgressLine(io.StringIO(), enabled=False),
        stop=Stop(),
        state_dir=Path(),
        is_attended=False,
        columns=None,
    )
    context.emit("−3 % [8,4]×[4,2] – ○ d\u00e9j\u00e0")

    assert stream.buffer.getvalue() == written.encode(encoding)

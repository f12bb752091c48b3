from __future__ import annotations

import pytest

from fleetridge_agent.worker.process_handle import last_stderr_line

_TRACEBACK = """Traceback (most recent call last):
  File "worker.py", line 3, in <module>
    raise RuntimeError("out of luck")
RuntimeError: out of luck
"""
_DUMP = """Fatal Python error: Segmentation fault

Current thread 0x00007f (most recent call first):
  File "worker.py", line 3 in launch

Extension modules: torch._C (total: 1)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (_TRACEBACK, "RuntimeError: out of luck"),
        (_DUMP, "Fatal Python error: Segmentation fault"),
        ("a warning\nterminate called\n\n", "terminate called"),
    ],
)
def test_the_sentence_of_a_crash_is_found_among_its_lines(text: str, words: str) -> None:
    """Neither its stack nor the paths in it, which are nobody else's business."""
    assert last_stderr_line(text) == words

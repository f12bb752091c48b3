"""
The collector of cyclic garbage, held back while an evaluation is made.

An evaluation of 100,000 gpus makes some ten million objects and no cycles. The collector looks at the young ones after
every 700, and at all of them again and again as they become more: a quarter of the time of an evaluation.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Objects after which it looks; what others make meanwhile is still collected. A look holds all threads for 0.4 s. After
# a fifth as many, every tenth took that long, too, and all of them together twice the time.
_RARELY = 1_000_000

_lock = threading.Lock()
_held: list[int] = []


@contextmanager
def collector_held_back() -> Iterator[None]:
    """Within it the collector looks rarely; as often as before once nobody is within it any more."""
    with _lock:
        before, *older = gc.get_threshold()
        usual = _held[0] if _held else before
        _held.append(usual)
        gc.set_threshold(max(_RARELY, usual) if usual else 0, *older)
    try:
        yield
    finally:
        with _lock:
            _held.pop()
            if not _held:
                gc.set_threshold(usual, *older)

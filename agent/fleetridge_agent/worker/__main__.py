"""
A process that measures one gpu.

    python -m fleetridge_agent.worker

Started by `fleetridge-agent run` or `check`, which gives it an order on standard input; nothing for a person to call.
"""

from __future__ import annotations

import os
import sys

from fleetridge_agent.worker.work import work

if __name__ == "__main__":
    code = work()
    sys.stderr.flush()
    # Everything is said and freed. Taking Python and torch apart in order would hold the gpu longer: on an H200 0.6 s
    # from a signal to the end, instead of 0.2 s.
    os._exit(code)

"""
The process that evaluates: judges the devices that it is given until whoever started it says no more, or is gone.

It ends at once when that is gone, also in the midst of an evaluation: what it has stored until then is whole, and
somebody else may be about to evaluate the same device.
"""

import os
import queue
import threading
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from fleetridge_server.background import be_child
from fleetridge_server.db.database import Database
from fleetridge_server.db.troubles import DatabaseTroubleError, trouble
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.process import EvaluationError, Reply
from fleetridge_server.verdicts.save import SupersededError
from fleetridge_server.verdicts.series import DeviceGroup

# A fleet whose reports never pause is evaluated every minute or less often, so that its process stays; one that reports
# once a day gives the memory back.
_IDLE_S = 300.0

# Of memory at its height, after which the process makes room for a new one: Python gives little of it back. It starts
# with 63 MiB in 0.6 s of processor. After 1,000 gpus (0.3 s) it has 91 and stays; after 10,000 (2.7 s) it had 295, of
# which it would keep 230, and starts anew.
_LARGE_KIB = 256 * 1024


def main() -> None:
    """Evaluate what is asked for."""
    be_child(_work)


def _work(connection: Connection, database: Database) -> None:
    asked: queue.SimpleQueue[tuple[DeviceGroup, timedelta | None]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, asked), daemon=True).start()
    with suppress(queue.Empty):
        is_first = True
        while is_first or not _is_large():
            device_group, measured_every = asked.get(timeout=_IDLE_S)
            connection.send(_reply(Evaluator(database, measured_every), device_group))
            is_first = False


def _listen(connection: Connection, asked: queue.SimpleQueue[tuple[DeviceGroup, timedelta | None]]) -> None:
    """Take what is asked for, and end the process once nobody is there who asks."""
    try:
        while True:
            asked.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)


def _reply(evaluator: Evaluator, device_group: DeviceGroup) -> Reply:
    began_s = time.perf_counter()
    try:
        evaluator.evaluate_now(device_group)
    except SupersededError as error:
        return error
    except Exception as error:  # noqa: BLE001 # sent to whoever asked, whatever it is
        problem = trouble(error)
        if problem is not None:
            return DatabaseTroubleError(problem)
        return EvaluationError(f"in the process that evaluates:\n{traceback.format_exc()}")
    return time.perf_counter() - began_s


def _is_large() -> bool:
    return _peak_memory_kib() > _LARGE_KIB


def _peak_memory_kib() -> int:
    """The most memory that this process had, in KiB; 0 on a system that has no /proc, where the process just stays.

    Not ru_maxrss: what whoever started this process had counts in it, also across an exec (getrusage(2)).
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()

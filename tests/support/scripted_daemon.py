"""
`fleetridge-agent daemon` on a node with scripted gpus; each round and each worker is a process of its own.

    python tests/support/scripted_daemon.py UUID[,UUID…]|REASON WORKER-ARGUMENT[,…] [OPTION…]

Where a word in small letters stands for the UUIDs, there is no gpu for that reason. A worker's arguments are those of
`scripted_worker.py`. At its end the daemon prints on stdout what it had imported of that which only rounds need.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from unittest.mock import patch

from fleetridge_agent import cli, round_process
from fleetridge_agent.commands import daemon as daemon_command
from fleetridge_agent.commands import run as run_command
from fleetridge_agent.errors import NoDeviceError
from fleetridge_agent.gpus import targets
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.worker.launcher import Launcher

_SCRIPTED_WORKER = Path(__file__).with_name("scripted_worker.py")

# In place of the first option, where this is the process of a round.
_ROUND = "round"

_OF_ROUNDS = ("torch", "pynvml")


def main(uuids: str, worker: str, *arguments: str) -> int:
    """Be the daemon, or one of its rounds."""
    if arguments[0] == _ROUND:
        launcher = partial(Launcher, program=(sys.executable, str(_SCRIPTED_WORKER), *worker.split(",")))
        with (
            patch.object(targets, "visible_gpus", partial(_visible_gpus, uuids)),
            patch.object(targets, "gpus_without_slice", tuple),
            patch.object(run_command, "Launcher", launcher),
            patch.object(sys, "argv", [_ROUND, *arguments[1:]]),
        ):
            return round_process.main()
    with patch.object(daemon_command, "ROUND_PROCESS", (sys.executable, __file__, uuids, worker, _ROUND)):
        code = cli.main(("daemon", *arguments))
    sys.stdout.write(f"imported: {[name for name in _OF_ROUNDS if name in sys.modules]}\n")
    return code


def _visible_gpus(uuids: str) -> tuple[CudaGpu, ...]:
    if uuids.islower():
        raise NoDeviceError("the driver is in trouble; see to it", reason=uuids)
    return tuple(CudaGpu(number, uuid, None, "NVIDIA H200", None) for number, uuid in enumerate(uuids.split(",")))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

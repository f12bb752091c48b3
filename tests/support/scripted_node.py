"""
`fleetridge-agent` on a node with scripted gpus, in a process of its own, with workers that are processes of theirs.

    python tests/support/scripted_node.py UUID[,UUID…] TROUBLE[,TROUBLE…] COMMAND [OPTION…]

TROUBLE is an argument of `scripted_worker.py`. After the command it prints on stderr whether torch was imported.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from unittest import mock

from fleetridge_agent import cli
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.worker.launcher import Launcher

SCRIPTED_NODE = Path(__file__)
SCRIPTED_WORKER = Path(__file__).with_name("scripted_worker.py")


def main(uuids: str, troubles: str, *arguments: str) -> int:
    """Run the command."""
    gpus = tuple(CudaGpu(number, uuid, None, "NVIDIA H200", None) for number, uuid in enumerate(uuids.split(",")))
    program = (sys.executable, str(SCRIPTED_WORKER), *troubles.split(","))
    with (
        mock.patch("fleetridge_agent.gpus.targets.visible_gpus", return_value=gpus),
        mock.patch("fleetridge_agent.gpus.targets.gpus_without_slice", return_value=()),
        mock.patch("fleetridge_agent.commands.run.Launcher", partial(Launcher, program=program)),
        mock.patch("fleetridge_agent.commands.check_by_measuring.Launcher", partial(Launcher, program=program)),
    ):
        code = cli.main(arguments)
    sys.stderr.write(f"torch imported: {'torch' in sys.modules}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

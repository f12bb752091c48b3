"""
A worker on a scripted gpu that gets into trouble, started as the real one is.

    python tests/support/scripted_worker.py DEVICE=TROUBLE… [--mark FOLDER]

DEVICE is a UUID, or `*` for all; TROUBLE is one of those below. With --mark it leaves a file there, named by what it
has come to and by its process.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fleetridge.report import Gpu
from fleetridge_agent.device.interface import Launch, OutOfDeviceMemoryError
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.worker.child_main import work
from support.scripted_device import ScriptedDevice, described

# Long enough for any test to end it.
_FOR_EVER_S = 600

# An eighth below what scripted gpus reach.
_WEAK_TFLOPS = 700.0


def _hang() -> None:
    time.sleep(_FOR_EVER_S)


def _hang_deaf() -> None:
    """As a process does that a driver holds on to: signals that ask are not heard."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _hang()


def _segfault() -> None:
    faulthandler.enable()
    os.kill(os.getpid(), signal.SIGSEGV)


def _babble() -> None:
    # Whatever a library prints goes elsewhere; only who takes the worker's own pipe can say nonsense.
    for descriptor in range(3, 32):
        with suppress(OSError):
            os.write(descriptor, b"Segments: 5\n")
    os._exit(0)


def _out_of_memory() -> None:
    raise OutOfDeviceMemoryError("out of memory: 80 GiB asked for, 2 GiB free")


def _out_of_memory_unseen() -> None:
    os.write(2, b"terminate called after throwing an instance of c10::Error\nwhat(): CUDA out of memory.\n")
    os._exit(134)


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _broken() -> None:
    raise RuntimeError("nobody expected this")


def _chatty() -> None:
    print("a library that prints", flush=True)  # noqa: T201 # as libraries do


_OPENING: Mapping[str, Callable[[], None]] = {
    "hang": _hang,
    "hang_deaf": _hang_deaf,
    "segfault": _segfault,
    "babble": _babble,
    "out_of_memory": _out_of_memory,
    "out_of_memory_unseen": _out_of_memory_unseen,
    "killed": _killed,
    "broken": _broken,
    "chatty": _chatty,
}


@dataclass(slots=True)
class _Troubled(ScriptedDevice):
    """A scripted gpu that leaves marks, and gets slow after its first roofs if it is to."""

    mark: Callable[[str], None] = field(default=lambda _: None)
    is_slow: bool = False

    def run(self, launch: Launch, calls: int) -> None:
        """Count the calls, or take half a second for them."""
        self.mark("measuring")
        if self.is_slow and len(self.allocations) > 2:
            self.mark("slow")
            time.sleep(0.5)
        ScriptedDevice.run(self, launch, calls)

    def release(self) -> None:
        """Say so."""
        self.mark("released")
        ScriptedDevice.release(self)


def main(arguments: list[str]) -> int:
    """Work, and get into trouble."""
    folder = Path(arguments.pop()) if "--mark" in arguments else None
    troubles = dict(argument.split("=") for argument in arguments if "=" in argument)

    def mark(what: str) -> None:
        if folder is not None:
            (folder / f"{what}.{os.getpid()}").touch()

    def opened(kind: DeviceKind, which: int | str | None) -> ScriptedDevice:
        mark("opened")
        trouble = troubles.get(str(which), troubles.get("*", ""))
        _OPENING.get(trouble, lambda: None)()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        name = "scripted CPU" if kind == "cpu" else "NVIDIA H200"
        gpu = Gpu(uuid="GPU-other" if trouble == "other" else visible, device=name, sm_count=132)
        pi_tflops = _WEAK_TFLOPS if trouble == "weak" else ScriptedDevice().pi_tflops
        return _Troubled(described(gpu=gpu), pi_tflops=pi_tflops, mark=mark, is_slow=trouble == "slow")

    return work(opened, lambda: None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Starts the agent's commands in this process, on scripted gpus and a scripted server."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetridge.report import Gpu
from fleetridge_agent import cli
from fleetridge_agent.check import reference
from fleetridge_agent.check.fleet_client import ridge_answer
from fleetridge_agent.check.last_verdict import read_last
from fleetridge_agent.check.verdict import State
from fleetridge_agent.commands import check_by_measuring
from fleetridge_agent.commands import flush as flush_command
from fleetridge_agent.commands import run as run_command
from fleetridge_agent.deliver import dispatch as dispatch_module
from fleetridge_agent.deliver import retrying_client
from fleetridge_agent.device.interface import Device
from fleetridge_agent.errors import AgentError, NoDeviceError
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.sweep import device_sweep
from fleetridge_agent.sweep.device_sweep import Callbacks
from fleetridge_agent.sweep.report import Assignment, Measured
from fleetridge_agent.worker.launcher import Launcher
from support.scripted_device import ScriptedDevice, described

Reply = Callable[[httpx.Request], httpx.Response]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    stdout: str
    stderr: str

    @property
    def line(self) -> str:
        """The one line of a check, no longer than what node-problem-detector reads."""
        (line,) = self.stdout.splitlines()
        assert self.stdout == f"{line}\n"
        assert len(self.stdout.encode()) <= 80
        return line


@dataclass(slots=True)
class WatchedDevice(ScriptedDevice):
    """A scripted device at whose every step something happens."""

    on_step: Callable[[], None] = field(default=lambda: None)

    def free_bytes(self) -> int:
        """What the test says."""
        self.on_step()
        return ScriptedDevice.free_bytes(self)


@dataclass(frozen=True, slots=True)
class LauncherHere(Launcher):
    """Measures in this process instead of a worker, so that a test can look on; `agent/worker` tests the real one."""

    def measure(self, target: Target, assignment: Assignment) -> Measured:
        """As a worker does."""
        return device_sweep.measure(target, assignment, self._callbacks(target))

    def measure_together(self, targets: Sequence[Target], assignment: Assignment) -> Iterator[Measured]:
        """One after the other, and say otherwise."""
        for target in targets:
            callbacks = replace(self._callbacks(target), start=lambda: len(targets))
            yield device_sweep.measure_admitted(target, assignment, callbacks, is_contended=False)

    def _callbacks(self, target: Target) -> Callbacks:
        return Callbacks(lambda progress: self.on_progress(target, progress), self.stop.check)


@dataclass(slots=True)
class AgentNode:
    """
    A node with scripted gpus.

    Attributes:
        devices: by UUID; an error stands for a gpu that cannot be opened.
        cpu: what is measured where the CPU is asked for.
        no_gpu: why there is none.
        without_slice: cards in MIG mode that have none.
        server: answers each POST; None takes everything.
        posts: what arrived.
        fleet: answers each question for a device's ridge; None knows no device.
        questions: for ridges.
    """

    state_dir: Path
    devices: dict[str, Device | AgentError] = field(default_factory=dict)
    cpu: Device | AgentError = field(default_factory=lambda: NoDeviceError("this node has no scripted CPU"))
    no_gpu: NoDeviceError | None = None
    without_slice: tuple[CudaGpu, ...] = ()
    server: Reply | None = None
    posts: list[httpx.Request] = field(default_factory=list)
    fleet: Reply | None = None
    questions: list[httpx.Request] = field(default_factory=list)

    @property
    def posted(self) -> list[list[dict[str, Any]]]:
        """Reports of each POST."""
        return [json.loads(gzip.decompress(request.content))["reports"] for request in self.posts]

    def touched(self, uuid: str) -> list[Any]:
        """What was allocated on a scripted gpu."""
        device = self.devices[uuid]
        assert isinstance(device, ScriptedDevice)
        return device.allocations

    @property
    def spooled(self) -> list[Path]:
        """Files of the spool."""
        return sorted((self.state_dir / "spool").glob("*.json"))

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put gpus and server in place of the real ones."""
        monkeypatch.setattr("fleetridge_agent.gpus.targets.visible_gpus", self._visible_gpus)
        monkeypatch.setattr("fleetridge_agent.gpus.targets.gpus_without_slice", lambda: self.without_slice)
        monkeypatch.setattr(device_sweep, "open_device", self._open_device)
        for command in (run_command, check_by_measuring):
            monkeypatch.setattr(command, "Launcher", LauncherHere)
        impatient = partial(retrying_client.Client, transport=httpx.MockTransport(self._answer))
        asking = partial(ridge_answer, transport=httpx.MockTransport(self._tell))
        monkeypatch.setattr(reference, "ridge_answer", asking)
        monkeypatch.setattr(dispatch_module, "Client", impatient)
        for command in (run_command, flush_command):
            monkeypatch.setattr(command, "Client", lambda server, *, wait: impatient(server, wait=lambda _: wait(0)))

    def _visible_gpus(self) -> tuple[CudaGpu, ...]:
        if self.no_gpu is not None:
            raise self.no_gpu
        return tuple(
            CudaGpu(number, uuid, f"0000:{number:02X}:00.0", "NVIDIA H200", None)
            for number, uuid in enumerate(self.devices)
        )

    def _open_device(self, kind: DeviceKind, which: str | None) -> Device:
        device = self.cpu if kind == "cpu" or which is None else self.devices[which]
        if isinstance(device, AgentError):
            raise device
        return device

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.posts.append(request)
        return (self.server or all_created)(request)

    def _tell(self, request: httpx.Request) -> httpx.Response:
        self.questions.append(request)
        return (self.fleet or no_such_device)(request)


def scripted_gpu(uuid: str, **changes: Any) -> WatchedDevice:
    """An H200 with an identity of its own."""
    return WatchedDevice(description=described(gpu=Gpu(uuid=uuid, device="NVIDIA H200", sm_count=132)), **changes)


def at_step(number: int, action: Callable[[], None]) -> Callable[[], None]:
    """Something that happens at one step of a sweep, counted from 0."""
    steps = itertools.count()

    def on_step() -> None:
        if next(steps) == number:
            action()

    return on_step


def answered(outcome_of: Mapping[str, str] | str) -> Reply:
    """A server that gives every report the same outcome, or one by its gpu's UUID."""

    def reply(request: httpx.Request) -> httpx.Response:
        reports = json.loads(gzip.decompress(request.content))["reports"]
        results = [
            {
                "report_id": report["report_id"],
                "outcome": outcome_of if isinstance(outcome_of, str) else outcome_of[report["gpu"]["uuid"]],
                "errors": [],
            }
            for report in reports
        ]
        return httpx.Response(200, json={"results": results})

    return reply


all_created = answered("created")


def no_such_device(_: httpx.Request) -> httpx.Response:
    """A server that never heard of the device."""
    return httpx.Response(404, json={"code": "unknown_device"})


def started(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """Run a command to its end."""
    try:
        code = cli.main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return Ended(int(code), captured.out, captured.err)


def told(answer: dict[str, Any]) -> Reply:
    """A server that answers every question for a ridge alike."""
    return lambda _: httpx.Response(200, json=answer)


def unreachable(request: httpx.Request) -> httpx.Response:
    """A server that nobody reaches."""
    raise httpx.ConnectError("connection refused", request=request)


def kept_states(node: AgentNode) -> dict[str | None, State]:
    """States by UUID in the verdict that was left on a node."""
    last = read_last(node.state_dir, "n1")
    return {} if last is None else {gpu.uuid: gpu.state for gpu in last.gpus}

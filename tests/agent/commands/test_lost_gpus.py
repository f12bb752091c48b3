"""A node that loses a gpu: what `run` reports of it, and what `check` says of fewer gpus than there were."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from fleetridge_agent.deliver import dispatch as dispatch_module
from fleetridge_agent.errors import NoDeviceError, UsageError
from fleetridge_agent.gpus import discovery, listing
from fleetridge_agent.gpus.known_gpus import known_gpus_path
from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.nvml import open_nvml
from support.agent_commands import AgentNode, Ended, kept_states, scripted_gpu, told
from support.ridges import ridge_answer
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

Agent = Callable[..., Ended]

CHECK = ("check", "--server", "https://f.example")
RUN = ("run", "--server", "https://f.example", "--square", "512", "--m-sweep", "1")
_UUIDS = tuple(f"GPU-{place}4fcf3a0-7f1c-6e25" for place in range(8))
_LOST = _UUIDS[3]


class Driver:
    """What NVML says of the node; CUDA shows the gpus that the node has."""

    def __init__(self, node: AgentNode) -> None:
        self._node = node
        self.cards = [StubCard(uuid, f"00000000:{place:02X}:00.0", "NVIDIA H200") for place, uuid in enumerate(_UUIDS)]

    def lose(self, code: int = 15, text: str = "GPU is lost") -> None:
        """Lose one of them: NVML counts it and gives no handle, and CUDA does not show it."""
        self.cards[3].handle_error = StubNvmlError(code, text)
        del self._node.devices[_LOST]

    def remove(self) -> None:
        """Have one of them leave the bus."""
        del self.cards[3]
        del self._node.devices[_LOST]


@pytest.fixture
def driver(node: AgentNode, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A node with eight gpus, whose server knows how fast they should be."""
    node.devices = {uuid: scripted_gpu(uuid) for uuid in _UUIDS}
    node.fleet = told(ridge_answer())
    driver = Driver(node)
    monkeypatch.setattr(listing, "nvml_or_none", lambda: open_nvml(StubNvml(*driver.cards)))
    return driver


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        (15, "GPU is lost", "gpu_lost"),
        (16, "GPU requires restart", "gpu_reset_required"),
        (999, "Unknown Error", "nvml_unknown_error"),
    ],
)
def test_a_lost_gpu_has_a_report_of_its_own_ahead_of_the_others(
    agent: Agent, node: AgentNode, driver: Driver, code: int, text: str, reason: str
) -> None:
    """So that a server finds it lost in rosters that are newer than what it last said of itself."""
    agent(*RUN)
    driver.lose(code, text)
    ended = agent(*RUN)
    lost, *others = node.posted[-1]

    assert ended.code == 1
    assert (lost["outcome"], lost["reason"]) == ("failed", reason)
    assert lost["gpu"] == {"uuid": _LOST, "pci_bus_id": "0000:03:00.0", "index": 3, "device": "NVIDIA H200"}
    assert text in lost["detail"]
    assert [report["outcome"] for report in others] == ["measured"] * 7
    assert lost["measured_to"] < others[0]["measured_to"]
    for report in (lost, *others):
        assert report["run"]["roster_complete"] is True
        states = {gpu["uuid"]: gpu.get("state") for gpu in report["run"]["roster"]}
        assert states == {uuid: "lost" if uuid == _LOST else None for uuid in _UUIDS}


def test_a_gpu_that_cuda_still_shows_is_not_touched_once_its_driver_has_lost_it(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    driver.cards[3].readings["MemoryInfo"] = StubNvmlError(15, "GPU is lost")
    agent(*RUN)

    assert [report["reason"] for report in node.posted[-1] if report["outcome"] == "failed"] == ["gpu_lost"]
    assert not node.touched(_LOST)


def test_where_no_gpu_is_left_the_lost_ones_are_reported_and_the_node_too(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    agent(*RUN)
    for card in driver.cards:
        card.handle_error = StubNvmlError(15, "GPU is lost")
    node.no_gpu = NoDeviceError("no gpu is visible")
    ended = agent(*RUN)

    assert ended.code == 1
    assert [report["reason"] for report in node.posted[-1]] == ["gpu_lost"] * 8 + ["no_device"]
    assert "gpu" not in node.posted[-1][-1]
    assert agent(*CHECK).line == "degraded: 0 of 8 gpus are there, gpu 0 gpu_lost, GPU-04fcf3a0"


def test_gpus_that_were_chosen_are_measured_whatever_others_are_lost(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    agent(*RUN)
    driver.lose()
    others, own = agent(*RUN, "--gpus", _UUIDS[0]), agent(*RUN, "--gpus", f"{_UUIDS[0]} {_LOST}")

    assert (others.code, own.code) == (0, 1)
    assert [report["gpu"]["uuid"] for report in node.posted[-2]] == [_UUIDS[0]]
    assert [report["gpu"]["uuid"] for report in node.posted[-1]] == [_LOST, _UUIDS[0]]


def test_a_check_that_finds_a_gpu_lost_is_degraded_and_says_how_many_are_there(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    agent(*CHECK)
    driver.lose()
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (1, "degraded: 7 of 8 gpus are there, gpu 3 gpu_lost, GPU-34fcf3a0")
    assert kept_states(node)[_LOST] == "degraded"
    assert agent("check", "--max-age", "1h").stdout.startswith("degraded: 7 of 8 gpus are there, gpu 3 gpu_lost")
    assert [report["reason"] for report in node.posted[-1] if report["outcome"] == "failed"] == ["gpu_lost"]


def test_even_a_first_check_misses_what_the_driver_counts(agent: Agent, driver: Driver) -> None:
    """Nobody remembers which one it was."""
    driver.lose()

    assert agent(*CHECK).line == "degraded: 7 of 8 gpus are there, gpu 3 gpu_lost"


@pytest.mark.parametrize("before", [CHECK, RUN], ids=["check", "run"])
def test_a_gpu_that_has_left_the_bus_is_missed_by_every_check_from_then_on(
    agent: Agent, driver: Driver, before: tuple[str, ...]
) -> None:
    """Whether a check or a run knew it, and however many have come since."""
    agent(*before)
    driver.remove()
    first, _, third = agent(*CHECK), agent(*RUN), agent(*CHECK)

    assert (first.code, first.line) == (1, "degraded: 7 of 8 gpus are there, gpu 3 missing, GPU-34fcf3a0")
    assert (third.code, third.line) == (first.code, first.line)
    assert agent("check", "--max-age", "1h").code == 1


def test_a_run_leaves_what_is_missing_for_health_checks(agent: Agent, driver: Driver) -> None:
    agent(*RUN)
    driver.remove()
    agent(*RUN)
    ended = agent("check", "--max-age", "1h")

    assert ended.code == 1
    assert ended.line.startswith("degraded: 7 of 8 gpus are there, gpu 3 missing")


def test_the_last_verdict_alone_is_enough_to_miss_a_gpu(agent: Agent, node: AgentNode, driver: Driver) -> None:
    agent(*CHECK)
    known_gpus_path(node.state_dir, "n1").unlink()
    driver.remove()

    assert agent(*CHECK).line.startswith("degraded: 7 of 8 gpus are there, ")


def test_so_is_the_roster_of_the_last_run_alone(agent: Agent, node: AgentNode, driver: Driver) -> None:
    agent(*RUN)
    (node.state_dir / "check" / "verdict-n1.json").unlink()
    driver.remove()

    assert agent(*CHECK).line.startswith("degraded: 7 of 8 gpus are there, ")


def test_a_gpu_that_cuda_does_not_show_any_more_is_missed_though_nvml_lists_it(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    agent(*CHECK)
    assert driver.cards
    del node.devices[_LOST]

    assert agent(*CHECK).line.startswith("degraded: 7 of 8 gpus are there, GPU-34fcf3a0 missing")


def test_a_gpu_that_was_replaced_is_not_missed(agent: Agent, node: AgentNode, driver: Driver) -> None:
    agent(*RUN)
    driver.cards[3] = StubCard("GPU-new", "00000000:03:00.0", "NVIDIA H200")
    del node.devices[_LOST]
    node.devices["GPU-new"] = scripted_gpu("GPU-new")

    assert agent(*CHECK).line.startswith("degraded: 7 of 8") is False


def test_a_gpu_that_is_back_is_ok_again(agent: Agent, node: AgentNode, driver: Driver) -> None:
    agent(*CHECK)
    driver.lose()
    agent(*CHECK)
    driver.cards[3].handle_error = None
    node.devices[_LOST] = scripted_gpu(_LOST)
    ended = agent(*CHECK)

    assert (ended.code, ended.line.partition(",")[0]) == (0, "ok: 8 gpus")


def test_what_was_taken_out_for_good_is_forgotten_by_hand_as_the_log_says(
    agent: Agent, node: AgentNode, driver: Driver
) -> None:
    agent(*CHECK)
    driver.remove()
    ended = agent(*CHECK)
    for path in (known_gpus_path(node.state_dir, "n1"), node.state_dir / "check" / "verdict-n1.json"):
        assert str(path) in ended.stderr
        path.unlink()

    assert agent(*CHECK).line.startswith("ok: 7 gpus")


def test_fewer_gpus_than_the_baseline_has_are_degraded(agent: Agent, driver: Driver, tmp_path: Path) -> None:
    """It may come from another machine: what counts is how many there are."""
    path = str(tmp_path / "base.json")
    elsewhere = ("--state-dir", str(tmp_path / "elsewhere"))
    agent("check", "--save-baseline", path)
    driver.remove()
    known = agent("check", "--baseline", path)
    unknown = agent("check", "--baseline", path, *elsewhere)

    assert (known.code, known.line) == (1, "degraded: 7 of 8 gpus are there, gpu 3 missing, GPU-34fcf3a0")
    assert (unknown.code, unknown.line) == (1, "degraded: 7 of 8 gpus are there, the baseline has more")
    # A wrong file must not leave a mark on the node.
    assert agent("check", "--max-age", "1h", *elsewhere).line.startswith("ok: 7 gpus")


def test_some_gpus_of_a_baseline_can_be_chosen(agent: Agent, driver: Driver, tmp_path: Path) -> None:
    path = str(tmp_path / "base.json")
    agent("check", "--save-baseline", path)
    driver.remove()

    assert agent("check", "--baseline", path, "--gpus", _UUIDS[0]).code == 0


def test_no_baseline_is_made_of_fewer_gpus_than_the_node_has(agent: Agent, driver: Driver, tmp_path: Path) -> None:
    agent(*CHECK)
    driver.remove()
    ended = agent("check", "--save-baseline", str(tmp_path / "base.json"))

    assert (ended.code, ended.line) == (2, "unknown: no baseline saved")
    assert not (tmp_path / "base.json").exists()


def test_a_slow_gpu_is_told_beside_one_that_is_missing(agent: Agent, node: AgentNode, driver: Driver) -> None:
    agent(*CHECK)
    driver.remove()
    node.devices[_UUIDS[5]] = scripted_gpu(_UUIDS[5], pi_tflops=700.0)

    ended = agent(*CHECK)

    assert ended.line == "degraded: 7 of 8 gpus are there, gpu 3 missing, GPU-34fcf3a0"
    assert f"{_UUIDS[5]} (NVIDIA H200, {_UUIDS[5]}): degraded" in ended.stderr
    assert kept_states(node)[_UUIDS[5]] == "degraded"


def test_gpus_that_a_container_hides_are_not_held_against_anybody_and_never_ok(
    agent: Agent, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(*CHECK)
    driver.remove()
    monkeypatch.setattr(Host, "nvidia_addresses", lambda _: ("0000:00:00.0",) * 8)
    monkeypatch.setattr(Host, "is_container", lambda *_: True)
    ended = agent(*CHECK)

    assert (ended.code, ended.line) == (2, "unknown: 7 of 8 gpus are there, others may be hidden")


def test_gpus_that_the_variable_hides_are_not_missed(
    agent: Agent, node: AgentNode, driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As if the others had been chosen; a baseline asks for all that it has."""
    path = str(tmp_path / "base.json")
    agent("check", "--save-baseline", path)
    agent(*CHECK)
    assert driver.cards
    monkeypatch.setenv(discovery.VISIBLE_DEVICES, "0,1")
    node.devices = {uuid: node.devices[uuid] for uuid in _UUIDS[:2]}

    assert agent(*CHECK).line.startswith("ok: 2 gpus")
    assert agent("check", "--baseline", path).line == "unknown: 2 of 8 gpus are there, others may be hidden"


@pytest.mark.parametrize("error", [UsageError("--ca-file: no certificates"), RuntimeError("odd"), KeyboardInterrupt()])
def test_whatever_goes_wrong_in_delivery_a_check_has_one_line_and_its_code(
    agent: Agent, driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    assert driver.cards
    agent("check", "--save-baseline", str(tmp_path / "base.json"))

    def no_client(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(dispatch_module, "Client", no_client)
    ended = agent(*CHECK, "--baseline", str(tmp_path / "base.json"))

    assert (ended.code, ended.line.partition(",")[0]) == (0, "ok: 8 gpus")
    assert "deliver" in ended.stderr


def test_a_server_whose_certificates_cannot_be_used_leaves_the_verdict_alone(
    agent: Agent, node: AgentNode, driver: Driver, tmp_path: Path
) -> None:
    def refuses(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(str(ssl.SSLCertVerificationError("self-signed")), request=request)

    assert driver.cards
    node.server = refuses
    agent("check", "--save-baseline", str(tmp_path / "base.json"))
    ended = agent(*CHECK, "--baseline", str(tmp_path / "base.json"))

    assert (ended.code, ended.line.partition(",")[0]) == (0, "ok: 8 gpus")
    assert len(node.spooled) == 8

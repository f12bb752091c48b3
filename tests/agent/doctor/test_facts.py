"""A child process that hangs, crashes or talks nonsense costs nobody else."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fleetridge_agent.doctor.facts import (
    CudaFacts,
    NoFactsError,
    NvmlFacts,
    TorchFacts,
    ask,
    cuda_facts,
    facts_of,
    nvml_facts,
)
from support.stub_nvml import StubCard, StubNvml, StubNvmlError

PATIENCE_S = 600


def told(code: str, *, limit_s: float = PATIENCE_S) -> CudaFacts:
    return facts_of([sys.executable, "-c", code], CudaFacts, limit_s=limit_s)


def test_a_child_that_answers_is_heard() -> None:
    assert told("""print('{"newest_cuda": 13000, "gpus": 2}')""") == CudaFacts(newest_cuda=13000, gpus=2)


def test_a_child_that_hangs_is_left_after_its_time() -> None:
    with pytest.raises(NoFactsError, match=r"does not answer within 0\.5 s"):
        told("import time; time.sleep(600)", limit_s=0.5)


def test_a_child_that_cannot_be_asked_to_end_is_ended() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

    with pytest.raises(NoFactsError, match="does not answer"):
        told(code, limit_s=0.5)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it ends with signal 9"),
        ("raise RuntimeError('no libcudart')", "it ends with exit code 1: RuntimeError: no libcudart"),
        ("print('Segments: 5')", "something else than was asked"),
        ("", "something else than was asked"),
    ],
)
def test_a_child_that_crashes_or_talks_nonsense_says_which(code: str, words: str) -> None:
    with pytest.raises(NoFactsError, match=words):
        told(code)


def test_the_real_children_answer_whatever_this_machine_has() -> None:
    assert ask("torch", TorchFacts, limit_s=PATIENCE_S).version is not None
    assert isinstance(ask("nvml", NvmlFacts, limit_s=PATIENCE_S), NvmlFacts)
    assert isinstance(ask("cuda", CudaFacts, limit_s=PATIENCE_S), CudaFacts)


MIB = 1024**2


def card(index: int, **changes: Any) -> StubCard:
    return StubCard(f"GPU-{index}", f"00000000:{index:02X}:00.0", "NVIDIA H200", **changes)


def memory(used_mib: int) -> SimpleNamespace:
    return SimpleNamespace(used=used_mib * MIB, total=144000 * MIB)


def test_idle_cards_are_used_by_nobody() -> None:
    facts = nvml_facts(
        StubNvml(
            *(card(n, readings={"ComputeRunningProcesses": [], "MemoryInfo": lambda *_: memory(500)}) for n in (0, 1))
        )
    )

    assert facts.driver == "580.159.04"
    assert [(found.index, found.uuid, found.use) for found in facts.cards] == [(0, "GPU-0", None), (1, "GPU-1", None)]


def test_a_card_with_processes_or_memory_in_use_says_so() -> None:
    held = card(0, readings={"ComputeRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=1)]})
    hidden = card(1, readings={"MemoryInfo": lambda *_: memory(40960)})

    assert [found.use for found in nvml_facts(StubNvml(held, hidden)).cards] == [
        "processes on it: 1",
        "40960 MiB of its memory are in use",
    ]


def test_a_card_that_is_lost_is_told_beside_those_that_are_not() -> None:
    facts = nvml_facts(StubNvml(card(0), card(1, handle_error=StubNvmlError(15, "GPU is lost"))))

    assert [found.index for found in facts.cards] == [0]
    assert [(found.index, found.error) for found in facts.lost] == [(1, "GPU is lost")]


def test_a_card_in_mig_mode_is_told_with_its_slices() -> None:
    slices = [StubCard("MIG-a", "00000000:00:00.0", "NVIDIA H200 MIG 1g.18gb")]
    facts = nvml_facts(StubNvml(card(0, slices=slices), card(1, slices=[])))

    assert [(found.split, found.slices) for found in facts.cards] == [(True, 1), (True, 0)]


@pytest.mark.parametrize(
    ("code", "reason"), [(18, "driver_library_mismatch"), (9, "driver_not_loaded"), (999, "nvml_unknown_error")]
)
def test_nvml_that_does_not_start_says_why(code: int, reason: str) -> None:
    facts = nvml_facts(StubNvml(init_error=StubNvmlError(code, "it does not work")))

    assert facts.trouble is not None
    assert facts.trouble.reason == reason
    assert "; " in facts.trouble.sentence


class StubCuda:
    """CUDA's library, as far as it is asked."""

    def __init__(self, init: int, version: int = 13000) -> None:
        self._init, self._version = init, version

    def cuInit(self, _: int) -> int:  # noqa: N802 # CUDA's name
        """Start, or say why not."""
        return self._init

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802 # CUDA's name
        """Newest CUDA that the driver knows."""
        version._obj.value = self._version
        return 0


def test_cuda_that_is_not_ready_still_says_how_new_it_is() -> None:
    facts = cuda_facts(StubCuda(802))

    assert facts.trouble is not None
    assert (facts.trouble.reason, facts.newest_cuda, facts.gpus) == ("cuda_not_ready", 13000, 0)
    assert "fabricmanager" in facts.trouble.sentence

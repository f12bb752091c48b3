"""A child process that hangs, crashes or talks nonsense costs nobody else."""

from __future__ import annotations

import sys

import pytest

from fleetridge_agent.doctor.facts import CudaFacts, NoFactsError, NvmlFacts, TorchFacts, ask, facts_of

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

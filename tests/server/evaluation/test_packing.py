from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evidence import Factors, GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.evaluation.gpu_history import GpuHistory, HistoryReader, gpu_history, packed_history
from support.judged import AS_OF, BETA, CONDITIONS, H2D, PI, report, series


def a_history(seed: int) -> GpuHistory:
    """A history in which anything that may be null sometimes is."""
    choose = random.Random(seed)  # noqa: S311 # no secret

    def maybe(value: float) -> float | None:
        return choose.choice([None, value, value * choose.random()])

    reports: list[JudgedReport] = []
    for day in range(choose.randrange(1, 16)):
        own = report("GPU-ü", 800.0, days_ago=day + choose.random())
        roofs = {
            roof: RoofReading(
                choose.gauss(800, 10),
                converged=choose.choice([None, True, False]),
                implausible=choose.random() < 0.1,
                trend=maybe(-0.1),
                sm_clock_mhz=maybe(1980.0),
                memory_clock_mhz=maybe(3201.0),
                power_w=maybe(700.0),
                temperature_c=maybe(60.0),
                throttle_ms=choose.choice([None, {}, {"thermal": 1.5}]),
            )
            for roof in (PI, BETA, H2D)
            if choose.random() < 0.8
        }
        reports.append(
            replace(
                own,
                roofs=roofs,
                node=choose.choice([None, NodeName("east", "n1"), NodeName("east", "n2")]),
                rack=choose.choice([None, "r1"]),
                factors=Factors(driver=choose.choice([None, "580.1"]), power_limit_w=maybe(700.0), ecc_enabled=True),
                conditions=replace(CONDITIONS, fill=choose.choice([None, "normal"])),
                contended=choose.random() < 0.1,
                conflict=choose.random() < 0.1,
                health=choose.choice([GpuHealth(), GpuHealth(remapped_rows_pending=False, pcie_width=16)]),
            )
        )
    return gpu_history(by_gpu(reports, AS_OF)["GPU-ü"])


@given(st.integers(0, 2**32))
def test_a_history_reads_back_as_it_was_packed(seed: int) -> None:
    """To the last digit, whatever is missing in it."""
    history = a_history(seed)

    assert HistoryReader().read("GPU-ü", packed_history(history)) == history


def test_histories_that_are_read_together_share_what_is_equal() -> None:
    """The engine compares settings by identity first."""
    reader = HistoryReader()
    texts = {gpu: packed_history(gpu_history(series(gpu, [800.0] * 3)[::-1])) for gpu in ("gpu-0", "gpu-1")}

    reports = [own for gpu, text in texts.items() for own in reader.read(gpu, text).reports]

    assert len({id(own.conditions) for own in reports}) == 1
    assert len({id(own.factors) for own in reports}) == 1


def test_a_packed_history_is_small() -> None:
    """Settings stand once in it, however many reports share them."""
    one, ten = (len(packed_history(gpu_history(series("gpu-0", [800.0] * n)[::-1]))) for n in (1, 10))

    assert ten < 5 * one
    assert len(packed_history(gpu_history([]))) < 50

"""The line of 80 bytes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.check.verdict import GpuVerdict, RoofVerdict, State, verdict_line

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


def gpu(index: int | None, state: State, value: float = 100.0, *, reason: str = "", uuid: str = "") -> GpuVerdict:
    roof = RoofVerdict(
        roof="pi bfloat16 burst", unit="TFLOP/s", value=value, state=state, median=100.0, lowest=97.0, peers=32
    )
    return GpuVerdict(
        uuid=uuid or f"GPU-{index}4fcf3a0-7f1c", index=index, state=state, reason=reason, judged_at=NOW, roofs=(roof,)
    )


def test_a_healthy_node_names_its_slowest_gpu() -> None:
    gpus = [gpu(0, "ok", 100.2), gpu(1, "ok", 99.6)]

    assert verdict_line(gpus) == "ok: 2 gpus, gpu 1 -0.4 % in pi bfloat16 burst"


def test_one_gpu_is_not_counted() -> None:
    assert verdict_line([gpu(0, "ok", 99.6)]) == "ok: gpu 0 -0.4 % in pi bfloat16 burst"


@pytest.mark.parametrize("noise", [0.0, 1e-9, -1e-9])
def test_of_what_looks_alike_the_first_is_named(noise: float) -> None:
    """What arithmetic leaves behind decides neither between gpus nor between roofs."""
    pi = gpu(0, "ok", 100.0).roofs[0]
    beta = pi.model_copy(update={"roof": "beta burst", "value": 100.0 + noise})
    first = gpu(0, "ok").model_copy(update={"roofs": (pi, beta)})

    assert verdict_line([first, gpu(1, "ok", 100.0 + noise)]) == "ok: 2 gpus, gpu 0 0.0 % in pi bfloat16 burst"


def test_a_degraded_gpu_is_named_with_its_loss_and_its_identity() -> None:
    gpus = [*(gpu(index, "ok") for index in range(7)), gpu(7, "degraded", 87.6)]

    assert verdict_line(gpus) == "degraded: 1 of 8 gpus, gpu 7 -12.4 % in pi bfloat16 burst, GPU-74fcf3a0"


def test_what_is_known_to_be_slow_goes_before_what_is_unknown() -> None:
    gpus = [gpu(0, "unknown", reason="busy"), gpu(1, "degraded", 90.0), gpu(2, "ok")]

    assert verdict_line(gpus).startswith("degraded: 1 of 3 gpus, gpu 1 ")


def absent(index: int | None, *, count: int = 1, state: State = "degraded", reason: str = "gpu_lost") -> GpuVerdict:
    uuid = None if index is None else f"GPU-{index}4fcf3a0-7f1c"
    return GpuVerdict(uuid=uuid, index=index, state=state, reason=reason, judged_at=NOW, absent=count)


def test_gpus_that_are_not_there_go_before_one_that_is_slow() -> None:
    there = [gpu(index, "ok") for index in range(6)]

    assert verdict_line([*there, absent(7), absent(6)]) == (
        "degraded: 6 of 8 gpus are there, gpu 7 gpu_lost, GPU-74fcf3a0"
    )
    assert verdict_line([*there, gpu(6, "degraded", 90.0), absent(None, reason="")]).startswith(
        "degraded: 7 of 8 gpus are there, gpu 6 -10.0 % in pi"
    )


def test_any_number_that_nobody_can_name_is_counted() -> None:
    assert verdict_line([gpu(0, "ok"), absent(None, count=3, state="unknown", reason="others may be hidden")]) == (
        "unknown: 1 of 4 gpus are there, others may be hidden"
    )


def test_what_is_unknown_says_why() -> None:
    assert verdict_line([gpu(0, "ok"), gpu(1, "unknown", reason="busy")]) == "unknown: 1 of 2 gpus, gpu 1 busy"


def test_a_gpu_without_a_number_goes_by_its_uuid() -> None:
    assert verdict_line([gpu(None, "unknown", reason="busy", uuid="GPU-14fcf3a0-aaaa")]) == "unknown: GPU-14fcf3a0 busy"


def test_no_gpu_at_all_is_unknown() -> None:
    assert verdict_line([], trouble="driver_library_mismatch") == "unknown: driver_library_mismatch"
    assert verdict_line([]) == "unknown: no verdict"


def test_an_old_verdict_says_its_age() -> None:
    assert verdict_line([gpu(0, "ok")], old=timedelta(hours=3, minutes=12)).endswith(", 3 h 12 min ago")


HOSTILE = ["\x1b[2J", "\u202eevil", "显卡" * 40, "x" * 500, "a\nb", "\udc80", "% %s {}", "\0", "🎮" * 30]


@pytest.mark.parametrize("text", HOSTILE)
def test_names_that_nobody_vouches_for_stay_within_80_printable_bytes(text: str) -> None:
    for verdicts in ([gpu(None, "degraded", 50.0, uuid=text)], [gpu(None, "unknown", reason=text, uuid=text)], []):
        line = verdict_line(verdicts, trouble=text, old=timedelta(days=400))

        assert len(f"{line}\n".encode()) <= 80
        assert line.isascii()
        assert line.isprintable()


@given(
    st.lists(
        st.builds(
            gpu,
            st.none() | st.integers(0, 2**31),
            st.sampled_from(["ok", "degraded", "unknown"]),
            st.floats(1e-9, 1e12),
            reason=st.text(max_size=60),
            uuid=st.text(max_size=120),
        ),
        max_size=300,
    ),
    st.text(max_size=100),
    st.none() | st.timedeltas(),
)
def test_every_line_fits_and_begins_with_the_state(gpus: list[GpuVerdict], trouble: str, old: timedelta | None) -> None:
    line = verdict_line(gpus, trouble=trouble, old=old)

    assert len(f"{line}\n".encode("ascii")) <= 80
    assert line.split(":")[0] in {"ok", "degraded", "unknown"}
    assert line.isprintable()


def test_a_verdict_from_a_clock_that_ran_ahead_is_not_said_to_be_old() -> None:
    assert verdict_line([gpu(0, "unknown", reason="x")], old=timedelta(days=-2)).endswith(", 2 d ahead")

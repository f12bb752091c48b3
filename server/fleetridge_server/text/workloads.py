"""Workloads of a device as text."""

from __future__ import annotations

from collections.abc import Sequence

from fleetridge.quantities import MISSING, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.answer.workload_schemas import DeviceWorkloads, RidgeWorkloads, ShapeShown, WorkloadShown
from fleetridge_server.compare.placements import Tokens
from fleetridge_server.compare.roof_words import variant
from fleetridge_server.text.words import at, blocks, counted, differing_conditions, lines, short_id, spread

_WORKLOADS = (
    Column("workload"),
    Column("FLOP/B"),
    Column("bound by", align="left"),
    Column("typical", "TFLOP/s"),
    Column("quartiles"),
    Column("slowest", "TFLOP/s"),
)
_SHAPES = (
    Column("weights"),
    Column("K"),
    Column("N"),
    Column("T*", "tokens"),
    Column("quartiles"),
    Column("slowest", "tokens"),
)


def workloads(answer: DeviceWorkloads) -> str:
    """Each group's workloads, then the tokens at which weights become compute-bound."""
    conditions = differing_conditions(answer.ridges)
    return blocks(
        lines([f"workloads on {answer.device.name}, as of {at(answer.as_of)}"]),
        *(_ridge(ridge, words, answer) for ridge, words in zip(answer.ridges, conditions, strict=True)),
        "" if answer.ridges else "no ridges: no valid report has a judged pi and beta here",
        lines(["T*: tokens from which a product is limited by arithmetic, no longer by memory; – where none is"])
        if answer.ridges
        else "",
    )


def _ridge(ridge: RidgeWorkloads, conditions: str, answer: DeviceWorkloads) -> str:
    name = variant(ridge.dtype, ridge.regime, ridge.out_dtype, fast_accumulation=ridge.fast_accumulation)
    slowest = ridge.slowest
    head = (
        f"{name}{conditions}: {counted(ridge.gpus, 'gpu')}, pi {significant(ridge.pi_tflops.median)} TFLOP/s, "
        f"beta {significant(ridge.beta_gbps.median)} GB/s, I* {significant(ridge.ridge_flop_per_byte.median)} FLOP/B; "
        f"slowest {short_id(slowest.gpu_id)} with pi {significant(slowest.pi_tflops)}"
    )
    return blocks(
        lines([head]),
        text_table(_WORKLOADS, [_workload(workload) for workload in ridge.workloads]),
        text_table(_SHAPES, list(_shapes(ridge, answer))),
    )


def _workload(workload: WorkloadShown) -> list[str]:
    return [
        workload.name,
        significant(workload.intensity),
        workload.bound,
        significant(workload.attainable_tflops.median),
        spread(workload.attainable_tflops),
        significant(workload.slowest_tflops),
    ]


def _shapes(ridge: RidgeWorkloads, answer: DeviceWorkloads) -> Sequence[list[str]]:
    width = str(answer.hidden_size)
    rows = [["square projection", width, width, *_tokens(ridge.square_t_star_tokens)]]
    return [
        *rows,
        *([_label(shape, ridge), str(shape.k), str(shape.n), *_tokens(shape.t_star_tokens)] for shape in ridge.shapes),
    ]


def _label(shape: ShapeShown, ridge: RidgeWorkloads) -> str:
    """The model is named by its last part where several are listed, else it goes without saying."""
    several = len({other.model for other in ridge.shapes}) > 1
    return f"{shape.model.rpartition('/')[2]} {shape.label}" if several else shape.label


def _tokens(tokens: Tokens) -> list[str]:
    quartiles = f"{_count(tokens.q1)}–{_count(tokens.q3)}"
    return [_count(tokens.typical), quartiles, _count(tokens.slowest)]


def _count(tokens: float | None) -> str:
    return MISSING if tokens is None else f"{tokens:.0f}"

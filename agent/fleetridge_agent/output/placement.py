"""Where reference workloads and weight shapes land under the measured roofs."""

from __future__ import annotations

from dataclasses import dataclass

from fleetridge.quantities import percent, significant
from fleetridge.report import Report
from fleetridge.roofline import square_t_star_tokens
from fleetridge.terminal_text import wrapped
from fleetridge.text_table import Column, text_table
from fleetridge.weight_shapes import served_model
from fleetridge.workloads import (
    DEFAULT_GQA_GROUP,
    DEFAULT_HIDDEN_SIZE,
    Workload,
    place,
    place_shapes,
    reference_workloads,
)
from fleetridge_agent.device.product import Product
from fleetridge_agent.output.achieved import Achieved


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """
    What the reference workloads are worked out for.

    Attributes:
        hidden_size: width d of the model.
        gqa_group: query heads that share one KV head (g).
    """

    hidden_size: int = DEFAULT_HIDDEN_SIZE
    gqa_group: int = DEFAULT_GQA_GROUP


def workloads_of(product: Product, traits: ModelTraits) -> tuple[Workload, ...]:
    """Reference workloads whose weights and activations have the measured dtype."""
    return reference_workloads(product.format, hidden_size=traits.hidden_size, gqa_group=traits.gqa_group)


def workload_table(roofs: Achieved, traits: ModelTraits, *, width: int) -> str:
    """Reference workloads on the measured ridge; empty where memory was not measured."""
    if roofs.beta is None:
        return ""
    pi_tflops, beta_gbps = roofs.pi.value, roofs.beta.value
    placements = [
        place(workload, pi_tflops=pi_tflops, beta_gbps=beta_gbps) for workload in workloads_of(roofs.product, traits)
    ]
    rows = [
        [
            one.workload.name,
            significant(one.workload.intensity),
            one.bound,
            significant(one.attainable_tflops),
            percent(one.attainable_tflops / pi_tflops).removesuffix(" %"),
        ]
        for one in placements
    ]
    columns = (
        Column("workload"),
        Column("I", "FLOP/byte"),
        Column("bound by", align="left"),
        Column("at most", "TFLOP/s"),
        Column("of pi", "%"),
    )
    return text_table(columns, rows, title="Reference workloads on the measured ridge, derived", width=width)


def t_star_sentence(roofs: Achieved, traits: ModelTraits, *, width: int) -> str:
    """How many tokens make a square projection compute-bound, or why none do; empty without a ridge."""
    if roofs.ridge is None:
        return ""
    sizes, d = roofs.product.format, traits.hidden_size
    tokens = square_t_star_tokens(
        roofs.ridge, hidden_size=d, input_bytes=sizes.input_bytes, output_bytes=sizes.output_bytes
    )
    if tokens is None:
        highest = 2 * d / (sizes.input_bytes + sizes.output_bytes)
        text = (
            f"No number of tokens makes a square {roofs.product.title} GEMM of width d={d} compute-bound here: its "
            f"intensity stays below 2d / (b_in + b_out) = {significant(highest)} FLOP/byte, and the ridge lies at "
            f"{significant(roofs.ridge)}."
        )
    else:
        text = (
            f"A square [T,{d}]×[{d},{d}] {roofs.product.title} GEMM reaches the ridge at T* = {tokens:.1f} tokens. "
            "Derived: T* = I*·b_in·d / (2d − I*·(b_in + b_out)); hold it against the batched-token budget of your "
            "engine."
        )
    return "\n".join(wrapped(text, width))


def shape_table(report: Report, roofs: Achieved, *, width: int) -> str:
    """Tokens at which each weight shape of the sweep's model reaches the ridge; empty without a ridge or a model."""
    sweep = report.sweep
    if roofs.ridge is None or sweep is None or sweep.model is None:
        return ""
    shapes = served_model(sweep.model).divided_by(sweep.tensor_parallel or 1)
    rows = [
        [one.shape.label, str(one.shape.k), str(one.shape.n), _tokens(one.t_star_tokens)]
        for one in place_shapes(shapes, roofs.product.format, ridge=roofs.ridge)
    ]
    columns = (Column("shape"), Column("K"), Column("N"), Column("T*", "tokens"))
    return text_table(columns, rows, title="Tokens at which each weight shape reaches the ridge, derived", width=width)


def _tokens(t_star_tokens: float | None) -> str:
    return "never" if t_star_tokens is None else f"{t_star_tokens:.1f}"

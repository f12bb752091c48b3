"""Workloads on a device, and its groups side by side, as text."""

from collections.abc import Sequence

from fleetridge.quantities import MISSING, percent, signed_percent, significant
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.ridge import Tokens
from fleetridge_server.engine.wording import counted, reading_words, roof_words, value_words
from fleetridge_server.responses.comparison import Comparison, GroupShown, RoofComparison
from fleetridge_server.responses.workload import DeviceWorkloads, RidgeWorkloads, ShapeShown, WorkloadShown
from fleetridge_server.text.words import at, blocks, differing_conditions, lines, ridge_words, short_id, spread
from fleetridge_server.verdicts.evaluation_shapes import UpgradeShown

_WORKLOADS = (
    Column("workload"), Column("FLOP/B"), Column("bound by", align="left"), Column("typical", "TFLOP/s"),
    Column("quartiles"), Column("slowest", "TFLOP/s"),
)  # fmt: skip
_SHAPES = (
    Column("weights"), Column("K"), Column("N"), Column("T*", "tokens"), Column("quartiles"),
    Column("slowest", "tokens"),
)  # fmt: skip


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
    slowest = ridge.slowest
    head = (
        f"{ridge_words(ridge)}{conditions}: {counted(ridge.gpus, 'gpu')}, "
        f"pi {significant(ridge.pi_tflops.median)} TFLOP/s, beta {significant(ridge.beta_gbps.median)} GB/s, "
        f"I* {significant(ridge.ridge_flop_per_byte.median)} FLOP/B; "
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


_PAIRED = (Column("before"), Column("after", align="left"), Column("gpus"), Column("change"), Column("interval"))
_GROUPS = (
    Column("group"), Column("gpus"), Column("median"), Column("quartiles"), Column("differs by"),
    Column("95 % interval"),
)  # fmt: skip


def comparison(answer: Comparison) -> str:
    """Each roof: what the change did to the gpus that met it, and the groups of now."""
    conditions = differing_conditions(answer.roofs)
    return blocks(
        lines([f"{answer.device.name} by {_factor(answer.by)}, as of {at(answer.as_of)}"]),
        *(_roof(roof, words, answer.by) for roof, words in zip(answer.roofs, conditions, strict=True)),
        "" if answer.roofs else "nothing to compare: no valid report has a judged roof here",
        lines([*_explained(answer.roofs), *([answer.evaluation_note] if answer.evaluation_note else [])]),
    )


def _factor(by: str) -> str:
    """What gpus are grouped by, in words; a label or a place keeps its name."""
    return by if ":" in by else reading_words(by)


def _roof(roof: RoofComparison, conditions: str, by: str) -> str:
    are = "is" if roof.left_out == 1 else "are"
    more = f"{counted(roof.left_out, 'smaller group')} {are} left out" if roof.left_out else ""
    return blocks(
        lines([f"{roof_words(roof.roof)}{conditions}, {roof.unit}"]),
        text_table(_PAIRED, [_paired(effect, by) for effect in roof.paired], title="paired: each gpu with itself")
        if roof.paired
        else "",
        text_table(_GROUPS, [_group(group, roof, by) for group in roof.groups], title="between groups: other gpus"),
        more,
    )


def _paired(effect: UpgradeShown, by: str) -> list[str]:
    interval = f"{signed_percent(effect.low)} to {signed_percent(effect.high)} ({percent(effect.confidence)})"
    before, after = (value_words(by, value) for value in (effect.before, effect.after))
    return [before, after, str(effect.n), signed_percent(effect.effect), interval]


def _group(group: GroupShown, roof: RoofComparison, by: str) -> list[str]:
    if group.effect is None:
        differs = "reference" if group.level == roof.reference else MISSING
        interval = "" if group.note is None else "too few"
    else:
        differs = signed_percent(group.effect)
        interval = f"{signed_percent(group.low)} to {signed_percent(group.high)}"
    values = group.values
    return [value_words(by, group.level), str(values.n), significant(values.median), spread(values), differs, interval]


def _explained(roofs: Sequence[RoofComparison]) -> list[str]:
    if not roofs:
        return []
    if any(roof.kind == "paired" for roof in roofs):
        return ["paired effects are those of the change alone; groups differ in their gpus and nodes as well"]
    return ["groups differ in their gpus and nodes as well: no gpu is known to have met a change itself"]

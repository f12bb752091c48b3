"""Everything that a sweep of one gpu prints, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from fleetridge.report import Report
from fleetridge.terminal_text import visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH
from fleetridge_agent.output.achieved import Achieved, achieved, memory_roofs
from fleetridge_agent.output.chart import chart
from fleetridge_agent.output.environment_block import environment_block
from fleetridge_agent.output.placement import ModelTraits, shape_table, t_star_sentence, workload_table
from fleetridge_agent.output.point_groups import products_in
from fleetridge_agent.output.roofline_block import memory_block, roofline_block
from fleetridge_agent.output.tables import reference_table, square_table, stream_table, weight_shape_table
from fleetridge_agent.output.yardstick import GivenPeaks

_NEEDS_BOTH = "The ridge point needs both compute and memory; measure them with --mode all."


@dataclass(frozen=True, slots=True)
class View:
    """
    How a report is shown.

    Attributes:
        given: peaks that the user gave instead of the published ones.
        width: columns of the terminal.
        ascii_only: whether the chart may use ASCII alone.
    """

    traits: ModelTraits = field(default_factory=ModelTraits)
    given: GivenPeaks = field(default_factory=GivenPeaks)
    width: int = DEFAULT_WIDTH
    ascii_only: bool = False


def sweep_page(report: Report, view: View) -> str:
    """Page of one report as text, without a newline at the end."""
    return "\n\n".join(part for part in _parts(report, view) if part)


def _parts(report: Report, view: View) -> Iterator[str]:
    width = view.width
    found = [achieved(report, product) for product in products_in(report)]
    yield environment_block(report, width=width)
    for sentence in _cautions(report):
        yield "\n".join(wrapped(visible(sentence), width))
    for roofs in found:
        yield square_table(report, roofs, width=width)
        yield weight_shape_table(report, roofs, width=width)
        yield reference_table(report, roofs, width=width)
    yield stream_table(report, width=width)
    for roofs in found:
        yield from _roofline(report, roofs, view)
    memory = memory_roofs(report)
    if memory is not None and not found:
        yield memory_block(report, memory, view.given, width=width)
    if report.points and not (memory and found):
        yield "\n".join(wrapped(_NEEDS_BOTH, width))


def _roofline(report: Report, roofs: Achieved, view: View) -> Iterator[str]:
    yield roofline_block(report, roofs, view.given, width=view.width)
    yield chart(report, roofs, view.traits, width=view.width, ascii_only=view.ascii_only)
    yield workload_table(roofs, view.traits, width=view.width)
    yield t_star_sentence(roofs, view.traits, width=view.width)
    yield shape_table(report, roofs, width=view.width)


def _cautions(report: Report) -> Iterator[str]:
    """What a reader must know before believing the numbers."""
    if report.outcome != "measured":
        kept = "; what follows was measured before that" if report.points else ""
        yield f"Outcome: {report.outcome} ({report.reason}): {report.detail or 'nothing more is known'}{kept}."
    elif report.detail:
        yield f"Note: {report.detail}."
    if report.evidence.contended:
        yield "Somebody else used this gpu meanwhile: these rates are not what it can do alone."
    if report.evidence.unstable:
        yield "The device measured otherwise at the end than before: do not rely on these rates, measure again."
    if report.agent.method == "custom":
        yield "Method custom: an option changed how pi or beta is measured, so compare these with no other report."

"""One line a gpu: what a run of the whole node found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleetridge.quantities import MISSING, significant
from fleetridge.report import Report
from fleetridge.text_table import DEFAULT_WIDTH, Column, text_table
from fleetridge_agent.output.achieved import achieved, memory_roofs
from fleetridge_agent.output.point_groups import products_in

_COLUMNS = (
    Column("gpu"),
    Column("device", align="left"),
    Column("dtype", align="left"),
    Column("pi", "TFLOP/s"),
    Column("beta", "GB/s"),
    Column("ridge", "FLOP/byte"),
    Column("outcome", align="left"),
)


def run_table(reports: Sequence[Report], *, width: int = DEFAULT_WIDTH) -> str:
    """Table of the reports of one run, a row for each way to multiply."""
    return text_table(_COLUMNS, [row for report in reports for row in _rows(report)], width=width)


def _rows(report: Report) -> Iterator[list[str]]:
    outcome = _outcome(report)
    memory = memory_roofs(report)
    beta = significant(None if memory is None else memory.beta.value)
    found = [achieved(report, product) for product in products_in(report)]
    for roofs in found:
        pi, ridge = significant(roofs.pi.value), significant(roofs.ridge)
        yield [*_named(report), roofs.product.title, pi, beta, ridge, outcome]
    if not found:
        yield [*_named(report), MISSING, MISSING, beta, MISSING, outcome]


def _outcome(report: Report) -> str:
    if report.reason is not None:
        return f"{report.outcome}: {report.reason}"
    is_together = report.sweep is not None and report.sweep.gpus_at_once is not None
    return f"{report.outcome} at once" if is_together else report.outcome


def _named(report: Report) -> list[str]:
    if report.gpu is None:
        return [f"node {report.node.name}", MISSING]
    return [report.gpu.uuid or report.gpu.pci_bus_id or MISSING, report.gpu.device or MISSING]

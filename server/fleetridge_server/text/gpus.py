"""One gpu as text."""

from __future__ import annotations

from fleetridge.quantities import MISSING, binary_size, signed_percent, significant
from fleetridge.terminal_text import shortened
from fleetridge.text_table import Column, key_values, text_table
from fleetridge_server.answer.gpu_schemas import GpuAnswer
from fleetridge_server.answer.schemas import GpuBandwidth, GpuRidge, ReportSummary, ShownRoof
from fleetridge_server.compare.roof_words import variant
from fleetridge_server.text.gpu_verdicts import gpu_verdict
from fleetridge_server.text.words import at, blocks, lines, old

_RIDGES = (
    Column("ridge"),
    Column("pi", "TFLOP/s"),
    Column("by"),
    Column("beta", "GB/s"),
    Column("by"),
    Column("I*", "FLOP/B"),
    Column("peers"),
    Column("reports"),
)
_BANDWIDTHS = (Column("memory"), Column("beta", "GB/s"), Column("by"), Column("peers"), Column("reports"))
_OTHERS = (Column("shown, not compared"), Column("value"), Column("unit", align="left"), Column("age"))
_REPORTS = (Column("report"), *(Column(name, align="left") for name in ("time", "outcome", "why")))

# What is left of 80 columns beside the id of a report, its time and its outcome.
_WHY = 14


def gpu(answer: GpuAnswer) -> str:
    """Who and where the gpu is, what it reaches, and its newest reports."""
    return blocks(
        key_values(_identity(answer), title=f"gpu {answer.gpu_id}"),
        gpu_verdict(answer),
        text_table(
            _RIDGES,
            [_ridge(ridge) for ridge in answer.ridges],
            title="by: deviation from the peers' median; reports: how many the value rests on",
        )
        if answer.ridges
        else "",
        text_table(_BANDWIDTHS, [_bandwidth(beta) for beta in answer.bandwidths]) if answer.bandwidths else "",
        lines(_too_few(answer)),
        text_table(_OTHERS, [_other(roof) for roof in answer.other_roofs]) if answer.other_roofs else "",
        text_table(_REPORTS, [_report(report) for report in answer.reports], title="newest reports"),
    )


def _identity(answer: GpuAnswer) -> list[tuple[str, str]]:
    index = "" if answer.index is None else f", index {answer.index}"
    slices = [part for part in (answer.mig_profile, answer.partition) if part is not None]
    return [
        ("device", ", ".join([answer.device.name, *slices])),
        ("node", f"{answer.node or MISSING} in cluster {answer.cluster}{index}"),
        ("PCI bus id", answer.pci_bus_id or MISSING),
        ("memory", binary_size(answer.memory_bytes)),
        ("SMs", MISSING if answer.sm_count is None else str(answer.sm_count)),
        ("last seen", at(answer.last_seen)),
        ("newest report", _latest(answer.latest) + (", not judged yet" if answer.not_judged_yet else "")),
        ("flags", ", ".join(answer.flags) or "none"),
    ]


def _latest(latest: ReportSummary | None) -> str:
    if latest is None:
        return MISSING
    why = [word for word in (latest.reason, latest.detail) if word is not None]
    contended = ", somebody else used the gpu meanwhile" if latest.contended else ""
    return ": ".join([latest.outcome, *why]) + contended


def _ridge(ridge: GpuRidge) -> list[str]:
    return [
        variant(ridge.dtype, ridge.regime, ridge.out_dtype, fast_accumulation=ridge.fast_accumulation),
        significant(ridge.pi_tflops),
        signed_percent(ridge.pi_deviation),
        significant(ridge.beta_gbps),
        signed_percent(ridge.beta_deviation),
        significant(ridge.ridge_flop_per_byte),
        str(ridge.peers),
        str(ridge.reports),
    ]


def _bandwidth(beta: GpuBandwidth) -> list[str]:
    return [
        f"beta {variant(beta.dtype, beta.regime)}",
        significant(beta.beta_gbps),
        signed_percent(beta.beta_deviation),
        str(beta.peers),
        str(beta.reports),
    ]


def _other(roof: ShownRoof) -> list[str]:
    level = "" if roof.level == "device" else f"{roof.level} "
    name = f"{level}{roof.kernel or roof.kind} {variant(roof.dtype, roof.regime, roof.out_dtype)}"
    return [name, significant(roof.value), roof.unit, old(roof.age_s)]


def _report(report: ReportSummary) -> list[str]:
    why = "contended" if report.contended else report.reason or ""
    return [str(report.report_id), at(report.ordered_at).removesuffix(" UTC"), report.outcome, shortened(why, _WHY)]


def _too_few(answer: GpuAnswer) -> list[str]:
    notes = [ridge.note for ridge in answer.ridges] + [beta.note for beta in answer.bandwidths]
    return sorted({note for note in notes if note is not None})

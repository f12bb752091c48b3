"""The arithmetic of a verdict, and all evidence of a gpu as one file."""

import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetridge.quantities import percent, quantity, significant
from fleetridge.terminal_text import visible
from fleetridge_server.api.gpus import GpuRead
from fleetridge_server.engine.rule import BEYOND_SCALES
from fleetridge_server.engine.wording import roof_words
from fleetridge_server.responses.gpu import GpuHistoryAnswer
from fleetridge_server.text import gpu as gpu_text
from fleetridge_server.text.gpu import roof_verdict
from fleetridge_server.verdicts.sentence import compared_words, onset_words
from fleetridge_server.verdicts.verdict_shapes import JudgedRoof, RunShown
from fleetridge_server.web.charts.history import history_svg
from fleetridge_server.web.charts.roofline import roofline_svg
from fleetridge_server.web.charts.svg import standalone_svg
from fleetridge_server.web.gpu_charts import gpu_history, gpu_roofline, points_of


@dataclass(frozen=True, slots=True)
class RoofSum:
    """One judged roof with its sum in words, a line for each step."""

    roof: JudgedRoof
    name: str
    verdict: str
    steps: tuple[str, ...]


def roof_sum(own: JudgedRoof) -> RoofSum:
    """The sum of one roof."""
    return RoofSum(own, roof_words(own.roof), roof_verdict(own), tuple(_steps(own)))


def _steps(own: JudgedRoof) -> Iterator[str]:
    band, unit = own.band, own.unit
    used = own.runs[: own.value_runs]
    values = ", ".join(_run(run) for run in used)
    runs = "run" if len(used) == 1 else "runs"
    yield f"value: {quantity(own.value, unit)}, the median of its newest {len(used)} {runs} ({values} {unit})"
    half = " (of its faster half, as the slower lies apart)" if band.of_faster_half else ""
    counted = "counted" if own.counted else "not counted"
    yield f"median: {quantity(band.median, unit)} over {compared_words(band)}{half}, this gpu {counted}"
    yield f"loss: 1 − {significant(own.value)} / {significant(band.median)} = {percent(own.loss)}"
    if band.note is not None:
        yield f"no verdict: {band.note}"
        return
    part = percent(band.scale / band.median)
    source = "from the spread of the peers (MAD)" if band.scale_source == "mad" else "the least that is assumed"
    yield f"scale: {quantity(band.scale, unit)}, {source}, which is {part} of the median"
    wide = "" if band.wide else ", but at most 10 %"
    yield (
        f"limit: the larger of {percent(band.gate)} and {BEYOND_SCALES:g} × {part}{wide} = "
        f"{percent(band.limit)}, so that less than {quantity(band.lowest, unit)} is beyond it"
    )
    if own.z is not None:
        away = f"({significant(own.value)} − {significant(band.median)}) / {significant(band.scale)}"
        yield f"z: {away} = {significant(own.z)}"
    if own.q is not None:
        chance = "t distribution" if band.degrees is not None else "normal distribution"
        yield (
            f"q: {significant(own.q)}, the share of false alarms to expect among all gpus that are as far off "
            f"(p = {significant(own.p)}, {chance})"
        )
    if own.runs_beyond:
        yield f"runs: {own.runs_beyond} of its newest {len(own.runs)} lie beyond the limit; {onset_words(own)}"


def _run(run: RunShown) -> str:
    """A run's value, and by what an upgrade since then is allowed for."""
    return significant(run.value) if run.carried == 1 else f"{significant(run.value)} × {run.carried:.3f}"


_ROOT = "fleetridge-evidence"


def bundle(read: GpuRead, history: GpuHistoryAnswer, documents: Mapping[str, bytes], *, made_at: datetime) -> bytes:
    """
    A ZIP file with the verdict in words and numbers, charts, history and the reports as they were sent.

    `documents` are reports by id, newest first; those that are no longer kept are missing.
    """
    files = {
        "verdict.txt": _verdict_text(read).encode(),
        "history.txt": f"{gpu_text.gpu_history(history)}\n".encode(),
        "gpu.json": read.answer.model_dump_json(indent=1).encode(),
        "history.json": history.model_dump_json(indent=1).encode(),
        **_charts(read, history, documents),
        **{f"reports/{report_id}.json": document for report_id, document in documents.items()},
    }
    files["README.txt"] = _readme(read, documents, files, made_at).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{_ROOT}/{name}", made_at.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return out.getvalue()


def _verdict_text(read: GpuRead) -> str:
    answer = read.answer
    judged = () if answer.verdict is None else (*answer.verdict.roofs, *answer.verdict.links)
    sums = [roof_sum(own) for own in judged]
    steps = [f"{own.name} ({own.verdict})\n" + "\n".join(f"  {step}" for step in own.steps) for own in sums]
    arithmetic = "\n\nhow each figure comes about\n\n" + "\n\n".join(map(visible_lines, steps)) if steps else ""
    return f"{gpu_text.gpu(answer)}{arithmetic}\n"


def visible_lines(words: str) -> str:
    """Text whose lines stay lines and whose other control characters are spelled out."""
    return "\n".join(visible(line) for line in words.split("\n"))


def _charts(read: GpuRead, history: GpuHistoryAnswer, documents: Mapping[str, bytes]) -> dict[str, bytes]:
    found = {}
    newest = next(iter(documents.values()), None)
    roofline = gpu_roofline(read.answer, read.roofs, () if newest is None else points_of(newest))
    if roofline is not None:
        found["roofline.svg"] = standalone_svg(roofline_svg(roofline)).encode()
    chart = gpu_history(read.answer, history, read.roofs)
    if chart is not None:
        found["history.svg"] = standalone_svg(history_svg(chart)).encode()
    return found


def _readme(read: GpuRead, documents: Mapping[str, bytes], files: Mapping[str, bytes], made_at: datetime) -> str:
    answer = read.answer
    sums = "\n".join(f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in sorted(files.items()))
    where = visible(
        f"{answer.node or 'unknown node'}, cluster {answer.cluster}, PCI bus id {answer.pci_bus_id or 'unknown'}"
    )
    kept = f"{len(documents)} of the newest {len(answer.reports)} reports are enclosed as they were sent."
    return f"""Evidence on one gpu, made by fleetridge on {made_at:%Y-%m-%d %H:%M} UTC

gpu     {visible(answer.gpu_id)}
device  {visible(answer.device.name)}
place   {where}

verdict.txt   what is said of it, why, and how each figure comes about
history.txt   its runs, what changed on the way, and what was said of it
gpu.json, history.json   the same for programs
roofline.svg, history.svg   charts; any browser shows them
reports/      measurements as the agent sent them

A roof is a rate: pi is how fast the gpu multiplies matrices (TFLOP/s, 1e12), beta how fast it reads its own memory
(GB/s, 1e9). It is compared with the median of gpus of the same model, measured by the same method.
{kept}

SHA-256 of the files
{sums}
"""

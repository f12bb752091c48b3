"""All that is known of a gpu in one file, to be read by whoever gets the card, years later and without this server."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from datetime import datetime

from fleetridge.terminal_text import visible
from fleetridge_server import text
from fleetridge_server.answer.gpu_schemas import GpuHistoryAnswer
from fleetridge_server.api.gpus import GpuRead
from fleetridge_server.drawing.history import history_svg
from fleetridge_server.drawing.roofline import roofline_svg
from fleetridge_server.drawing.style import standalone_svg
from fleetridge_server.pages.arithmetic import roof_sum
from fleetridge_server.pages.gpu_charts import gpu_history, gpu_roofline
from fleetridge_server.pages.sweep import points_of

_ROOT = "fleetridge-evidence"


def bundle(read: GpuRead, history: GpuHistoryAnswer, documents: Mapping[str, bytes], *, made_at: datetime) -> bytes:
    """
    A ZIP file with the verdict in words and numbers, charts, history and the reports as they were sent.

    Args:
        read: answer about the gpu.
        history: of it.
        documents: reports by id, as they were sent, newest first; those that are no longer kept are missing.
        made_at: now.
    """
    files = {
        "verdict.txt": _verdict_text(read).encode(),
        "history.txt": f"{text.gpu_history(history)}\n".encode(),
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
    steps = [f"{own.name} ({own.standing})\n" + "\n".join(f"  {step}" for step in own.steps) for own in sums]
    arithmetic = "\n\nhow each figure comes about\n\n" + "\n\n".join(map(visible_lines, steps)) if steps else ""
    return f"{text.gpu(answer)}{arithmetic}\n"


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

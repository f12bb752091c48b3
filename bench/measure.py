"""
Compares the agent with two scripts that measure the same, in turn on one gpu, each in processes of its own.

    python bench/measure.py [--processes N] [--reference PATH] [--mamf-finder PATH] [--every-dtype] [--json FILE]

Prints what the gpu gave each of them, how far the processes lie apart, and the agent over the others. A process of the
agent takes half a minute; --every-dtype adds one of two minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetridge.quantities import significant
from fleetridge.report import GemmPoint, Roof
from fleetridge.text_table import Column, text_table
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES
from fleetridge_agent.errors import AgentError
from fleetridge_agent.gpus.discovery import visible_gpus
from fleetridge_agent.progress import Progress
from fleetridge_agent.sweep.device_sweep import open_device, run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.results import SweepResult

# The quick form of mamf-finder: 19 shapes around those that large cards like.
_MAMF_SHAPES = ("--m_range", "1024", "20480", "1024", "--n", "4096", "--k", "4096", "--dtype", "bfloat16")

_AGENT = "fleetridge"

_PI_BEST, _PI_JUDGED, _BETA = "pi burst best", "pi burst judged", "beta read"

Figures = dict[str, float]
Found = dict[str, dict[str, list[float]]]


def main() -> int:
    """Run everybody in turn and print what they found."""
    options = _options()
    try:
        visible_gpus()
    except AgentError as error:
        sys.exit(str(error))
    if options.here is not None:
        chosen: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in options.here.items()
        }
        print(json.dumps(_swept_here(SweepOptions(**chosen))))
        return 0
    found: Found = {}
    # In turn, so that a gpu that warms up or is disturbed meets them all alike.
    for number in range(options.processes):
        for name, run in _contenders(options).items():
            if name == _AGENT or number < options.other_processes:
                print(f"process {number + 1}: {name}", file=sys.stderr, flush=True)
                _add(found.setdefault(name, {}), run())
    if options.every_dtype:
        every = {"dtypes": MEASURED_DTYPES, "m_sweep": (), "mode": "gemm"}
        _add(found.setdefault(f"{_AGENT}, every dtype", {}), _agent(every))
    for name, figures in found.items():
        print(f"\n{_table(name, figures)}")
    print(f"\n{_ratios(found)}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare the agent with scripts that measure the same.")
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="processes of the agent (default: 5)")
    parser.add_argument("--other-processes", type=int, default=5, metavar="N", help="and of each other (default: 5)")
    parser.add_argument("--reference", type=Path, metavar="PATH", help="the script that fleetridge grew from")
    parser.add_argument("--mamf-finder", type=Path, metavar="PATH", help="mamf-finder.py of ml-engineering")
    parser.add_argument("--every-dtype", action="store_true", help="also let the agent measure every dtype, once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    parser.add_argument("--here", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def _contenders(options: argparse.Namespace) -> Mapping[str, Callable[[], Figures]]:
    contenders: dict[str, Callable[[], Figures]] = {_AGENT: lambda: _agent({})}
    if options.reference is not None:
        contenders["reference script"] = lambda: _reference(options.reference)
    if options.mamf_finder is not None:
        contenders["mamf-finder"] = lambda: _mamf(options.mamf_finder)
    return contenders


def _agent(options: Mapping[str, object]) -> Figures:
    """Figures of one sweep in a process of its own."""
    output, took_s = _output(__file__, "--here", json.dumps(options))
    figures: Figures = json.loads(output.splitlines()[-1])
    return {**figures, "whole process, s": took_s}


def _reference(script: Path) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        _, took_s = _output(str(script), "--json", str(path))
        found = json.loads(path.read_text())
    figures = {_PI_BEST: found["achieved_tflops"], _BETA: found["achieved_gbps"], "whole process, s": took_s}
    rows = [row for row in found["skinny"] if row["M"] == 1]
    return figures | {f"{row['label']} M=1, us": row["ms"] * 1e3 for row in rows}


def _mamf(script: Path) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        output, took_s = _output(str(script), *_MAMF_SHAPES, "--output_file", f"{folder}/mm.out")
    found = re.search(r"^median:\s+([0-9.]+) TFLOPS", output, re.MULTILINE)
    if found is None:
        raise ValueError(f"{script} printed no best median; its last words: {output[-500:]}")
    return {_PI_BEST: float(found[1]), "whole process, s": took_s}


def _output(script: str, *arguments: str) -> tuple[str, float]:
    """Standard output of a Python script, and how many seconds it took."""
    start = time.perf_counter()
    done = subprocess.run(  # noqa: S603 # scripts that the user named
        [sys.executable, script, *arguments], check=True, text=True, stdout=subprocess.PIPE
    )
    return done.stdout, time.perf_counter() - start


def _swept_here(options: SweepOptions) -> Figures:
    """Figures of one sweep in this process, by name; torch is imported before the clock starts."""
    __import__("torch")
    start = time.perf_counter()
    reached_s: dict[str, float] = {}

    def on_progress(progress: Progress) -> None:
        reached_s.setdefault(progress.text.split()[0], time.perf_counter() - start)

    result = run_sweep(open_device("cuda"), options, on_progress)
    if result.failure is not None:
        raise SystemExit(f"the sweep failed: {result.failure.reason}: {result.failure.detail}")
    times_s = {"sweep after import of torch, s": time.perf_counter() - start}
    if "link" in reached_s:
        # What follows the search begins when the best shape is confirmed.
        times_s |= {"time to judged pi, s": reached_s["streams"], "time to best pi, s": reached_s["link"]}
    return {**{_name_of(roof): roof.value for roof in result.roofs}, **_decode(result), **times_s}


def _name_of(roof: Roof) -> str:
    if roof.kind == "memory":
        return f"beta {roof.kernel}"
    fast = " fast" if roof.fast_accumulation else ""
    dtype = "" if roof.dtype == "bfloat16" else f" {roof.dtype}{fast}"
    kernel = "best" if roof.kernel == "gemm_best" else "judged"
    return f"pi {roof.regime} {kernel}{dtype}"


def _decode(result: SweepResult) -> Figures:
    points = [point for point in result.points if isinstance(point, GemmPoint) and point.regime == "unspecified"]
    return {f"{point.label} M={point.M} {point.l2}, us": point.ms * 1e3 for point in points if point.label}


def _add(kept: dict[str, list[float]], figures: Figures) -> None:
    for name, value in figures.items():
        kept.setdefault(name, []).append(value)


def _table(name: str, figures: Mapping[str, Sequence[float]]) -> str:
    columns = (Column(name, align="left"), Column("median"), Column("spread", "%"), Column("each", align="left"))
    rows = [
        [figure, _exact(statistics.median(values)), f"{_spread(values):.2%}", " ".join(map(_exact, values))]
        for figure, values in figures.items()
    ]
    return text_table(columns, rows, width=160)


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) / min(values)


def _exact(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"  # noqa: PLR2004 # four digits and more


def _ratios(found: Found) -> str:
    """The agent's figures over those of the others."""
    own = found[_AGENT]
    rows = [
        [f"{figure} over {name}", significant(statistics.median(own[figure]) / statistics.median(others[theirs]))]
        for name, others in found.items()
        if not name.startswith(_AGENT)
        for figure, theirs in ((_PI_BEST, _PI_BEST), (_PI_JUDGED, _PI_BEST), (_BETA, _BETA))
        if theirs in others
    ]
    return text_table((Column("ratio of medians", align="left"), Column("ratio")), rows, width=100)


if __name__ == "__main__":
    sys.exit(main())

"""`fleetridge-agent sweep`: measures here, prints, and writes the files that were asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleetridge.text_table import DEFAULT_WIDTH
from fleetridge_agent.commands.context import Context
from fleetridge_agent.commands.node_listing import listing_of
from fleetridge_agent.config import options, resolved
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.errors import AgentError, ExitCode, UsageError
from fleetridge_agent.gpus.targets import Target, targets
from fleetridge_agent.output.export import csv_text, json_text
from fleetridge_agent.output.roof_selection import GivenPeaks
from fleetridge_agent.output.roofline import ModelTraits
from fleetridge_agent.output.sweep_page import View, sweep_page
from fleetridge_agent.sweep.device_sweep import Callbacks, measure
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import Assignment, Measured, combined, start_run

log = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"

# One gpu unless more are asked for: a person at a terminal wants an answer within a minute.
_DEFAULT_GPUS = ("0",)

# Tables gain nothing from more columns, and charts become unreadable with less.
_WIDEST, _NARROWEST = 110, 60


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Where CSV and JSON go; None for nowhere, `-` for standard output."""

    csv: str | None
    json: str | None

    @property
    def take_standard_output(self) -> bool:
        """Whether one of them wants standard output for itself."""
        return STANDARD_OUTPUT in (self.csv, self.json)

    def write(self, emit: Callable[[str], None], *, csv: Callable[[], str], json: Callable[[], str]) -> None:
        """
        Write what was asked for; a place that fails keeps nothing from the other.

        Raises:
            AgentError: a file cannot be written.
        """
        failures: list[str] = []
        for path, text in ((self.csv, csv), (self.json, json)):
            if path == STANDARD_OUTPUT:
                emit(text())
            elif path is not None:
                failures += _written(Path(path), text())
        if failures:
            raise AgentError(f"cannot write {'; '.join(failures)}; free some space or give another path")


def result_files(csv: str | None, json: str | None) -> ResultFiles:
    """
    Check the places before anything is measured for them.

    Raises:
        UsageError: a place cannot be written, or both want standard output.
    """
    if csv == json == STANDARD_OUTPUT:
        raise UsageError("--csv, --json: only one of them can go to standard output; give a path for the other")
    for option, path in (("--csv", csv), ("--json", json)):
        if path not in (None, STANDARD_OUTPUT):
            _require_place(option, Path(path))
    return ResultFiles(csv, json)


def _require_place(option: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {path.parent}; create it first")


def _written(path: Path, text: str) -> list[str]:
    """Write a file; what went wrong, if anything."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    log.info("wrote %s", path)
    return []


@dataclass(frozen=True, slots=True)
class _Choices:
    """What the command was asked for."""

    assignment: Assignment
    targets: tuple[Target, ...]
    view: View
    files: ResultFiles


def sweep(context: Context) -> ExitCode:
    """
    Measure, print, and write the files that were asked for; also when a signal ends it early.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    chosen = _choices(context)
    found: list[Measured] = []
    try:
        for measured in _sweeps(context, chosen):
            found.append(measured)
            if not chosen.files.take_standard_output:
                rule = "\n\n" if len(found) > 1 else ""
                context.emit(f"{rule}{sweep_page(measured.report, chosen.view)}\n")
    finally:
        reports = [measured.report for measured in found]
        chosen.files.write(
            context.emit, csv=partial(csv_text, reports), json=partial(json_text, reports, chosen.view.given)
        )
    return combined([measured.code for measured in found])


def _choices(context: Context) -> _Choices:
    """Everything that can be wrong is found out before anything is measured."""
    source = context.source
    kind, sweep_options = resolved.device_kind(source), resolved.sweep_options(source, shows_shapes=True)
    view = _view(context, given=_given_peaks(source, sweep_options))
    files = result_files(options.CSV.value(source), options.JSON.value(source))
    node = resolved.node_of(source)
    chosen = targets(kind, _DEFAULT_GPUS if options.GPUS.given(source) is None else resolved.chosen_gpus(source))
    assignment = Assignment(
        run=start_run("manual", listing_of(context).roster),
        node=node,
        options=sweep_options,
        arguments=resolved.arguments_of("sweep", source),
        state_dir=context.state_dir,
    )
    return _Choices(assignment, chosen, view, files)


def _sweeps(context: Context, chosen: _Choices) -> Iterator[Measured]:
    count = len(chosen.targets)
    for number, target in enumerate(chosen.targets, start=1):
        prefix = f"gpu {number} of {count}, " if count > 1 else ""
        yield measure(target, chosen.assignment, Callbacks(context.on_progress(prefix), context.stop.check))
        if context.stop.is_asked:
            return


def _view(context: Context, *, given: GivenPeaks) -> View:
    encoding = (context.stdout.encoding or "").lower().replace("-", "")
    columns = DEFAULT_WIDTH if context.columns is None else context.columns
    return View(
        traits=_model_traits(context.source),
        given=given,
        width=min(max(columns, _NARROWEST), _WIDEST),
        ascii_only=not encoding.startswith("utf"),
    )


def _given_peaks(source: Source, sweep: SweepOptions) -> GivenPeaks:
    """
    Figures to hold rates against instead of the published ones.

    Raises:
        UsageError: one figure is given for several dtypes.
    """
    pi_tflops = options.PEAK_TFLOPS.value(source)
    if pi_tflops is not None and (len(sweep.dtypes) > 1 or (sweep.profile == "full" and not sweep.dtypes)):
        raise UsageError("--peak-tflops: a peak holds for one dtype and several are measured; give one --dtype")
    return GivenPeaks(pi_tflops, options.PEAK_GBPS.value(source))


def _model_traits(source: Source) -> ModelTraits:
    """What the reference workloads are worked out for."""
    return ModelTraits(options.HIDDEN_SIZE.required(source), options.GQA_GROUP.required(source))

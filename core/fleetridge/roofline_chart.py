"""A roofline drawn in characters: the memory slope, the compute roofs, the ridge, and what was measured below them."""

from __future__ import annotations

import math
import sys
from itertools import cycle
from typing import TYPE_CHECKING

from fleetridge.log_canvas import LogCanvas, LogScale, placed_labels, power_of_ten
from fleetridge.quantities import MINUS, MISSING, quantity, significant
from fleetridge.roofline_canvas import ASCII, LETTERS, UNICODE, ComputeRoof, Glyphs, MemoryRoof, Roofline, Series, drawn
from fleetridge.terminal_text import ELLIPSIS, display_width, padded, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fleetridge.workloads import Workload

__all__ = ["NARROWEST", "ComputeRoof", "MemoryRoof", "Series", "roofline_chart"]

# Below this nothing readable is left beside the axis labels.
NARROWEST = 40

# Room for "1e+100" or "1979" and the axis itself.
_LABEL_COLUMNS = 7

# Ticks this far apart keep their labels from touching.
_X_TICK_COLUMNS = 9
_Y_TICK_ROWS = 2

# Names beyond this would push the numbers of the legend off the line.
_LONGEST_NAME = 32

# Spellings for terminals that show ASCII only, of the typographic signs that this project itself writes.
_ASCII_ELLIPSIS = "..."
_IN_ASCII = str.maketrans({ELLIPSIS: _ASCII_ELLIPSIS, MINUS: "-", MISSING: "-", "×": "x"})


def roofline_chart(
    compute: Sequence[ComputeRoof],
    memory: MemoryRoof | None,
    *,
    series: Sequence[Series] = (),
    workloads: Sequence[Workload] = (),
    title: str = "",
    width: int = 80,
    ascii_only: bool = False,
) -> str:
    """
    Draw a roofline on logarithmic axes as lines of at most `width` columns, without a newline at the end.

    Args:
        compute: flat roofs; the highest is what workloads are held against.
        memory: the slope, or None where bandwidth was not measured.
        series: measured points.
        workloads: intensities of interest, lettered on the roof that limits them.
        title: line above the chart.
        width: columns of the terminal.
        ascii_only: draw with ASCII characters, for terminals that show nothing else.

    Raises:
        ValueError: there is no roof at all, a number is not positive and finite, or `width` is too small to draw in.
    """
    _require_drawable(compute, memory, series, workloads, width)
    roofline = Roofline(tuple(compute), memory, tuple(series), tuple(workloads))
    glyphs = ASCII if ascii_only else UNICODE
    canvas = drawn(roofline, glyphs, width - _LABEL_COLUMNS - 2)
    lines = [title] if title else []
    lines += _framed(canvas, roofline, glyphs)
    lines += _legend(roofline, glyphs)
    return "\n".join(_bounded(line, width, ascii_only=ascii_only) for line in lines)


def _require_drawable(
    compute: Sequence[ComputeRoof],
    memory: MemoryRoof | None,
    series: Sequence[Series],
    workloads: Sequence[Workload],
    width: int,
) -> None:
    if width < NARROWEST:
        raise ValueError(f"a roofline needs at least {NARROWEST} columns, not {width}")
    if not compute and memory is None:
        raise ValueError("a roofline needs a compute roof or a memory roof; give at least one")
    numbers = [(f"pi of {roof.label!r}", roof.pi_tflops) for roof in compute]
    numbers += [(f"beta of {memory.label!r}", memory.beta_gbps)] if memory else []
    numbers += [(f"intensity of {workload.name!r}", workload.intensity) for workload in workloads]
    for one in series:
        numbers += [(f"a point of {one.label!r}", coordinate) for point in one.points for coordinate in point]
    for name, value in numbers:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(
                f"{name} must be a positive, finite number, not {value!r}: leave out what was not measured"
            )


def _framed(canvas: LogCanvas, roofline: Roofline, glyphs: Glyphs) -> list[str]:
    """The plot with its axes: TFLOP/s upwards, FLOP/byte to the right, ridges pointed out below."""
    labels = _y_labels(canvas, roofline)
    lines = [f"{'TFLOP/s':>{_LABEL_COLUMNS}}"]
    for row, cells in enumerate(canvas.rows):
        axis = glyphs.tick_y if row in labels else glyphs.axis_y
        lines.append(f"{labels.get(row, ''):>{_LABEL_COLUMNS}} {axis}{''.join(cells)}")
    return [*lines, *_x_axis(canvas, roofline, glyphs)]


def _y_labels(canvas: LogCanvas, roofline: Roofline) -> dict[int, str]:
    """Powers of ten, and the value of each roof at its row, which wins where both want one."""
    labels = {canvas.row(tick): power_of_ten(tick) for tick in canvas.y.ticks(cells_apart=_Y_TICK_ROWS)}
    for roof, log_pi in sorted(zip(roofline.compute, roofline.log_pis, strict=True), key=lambda pair: pair[1]):
        digits = significant(roof.pi_tflops)
        labels[canvas.row(log_pi)] = digits if len(digits) <= _LABEL_COLUMNS else f"{roof.pi_tflops:.0e}"
    return labels


def _x_axis(canvas: LogCanvas, roofline: Roofline, glyphs: Glyphs) -> list[str]:
    ticks = {canvas.x.cell(tick): power_of_ten(tick) for tick in canvas.x.ticks(cells_apart=_X_TICK_COLUMNS)}
    ridges = sorted(ridge for pi in roofline.log_pis if math.isfinite(ridge := roofline.log_ridge(pi)))
    axis = [glyphs.tick_x if column in ticks else glyphs.axis_x for column in range(canvas.x.cells)]
    for ridge in ridges:
        axis[canvas.x.cell(ridge)] = glyphs.pointer
    indent = " " * (_LABEL_COLUMNS + 2)
    return [
        f"{' ' * (_LABEL_COLUMNS + 1)}{glyphs.origin}{''.join(axis)}",
        indent + placed_labels(list(ticks.items()), canvas.x.cells),
        indent + _ridge_line(ridges, canvas.x),
    ]


def _ridge_line(log_ridges: list[float], x: LogScale) -> str:
    """Values of the ridges below their pointers, and the unit of the axis at its end."""
    unit = "FLOP/byte"
    if not log_ridges:
        return unit.rjust(x.cells)
    room = x.cells - len(unit) - 1
    values = " / ".join(dict.fromkeys(significant(_linear(ridge)) for ridge in log_ridges))
    label = shortened(f"ridge {values}", room)
    start = min(max(0, x.cell(log_ridges[0]) - len(label) // 2), room - len(label))
    return f"{' ' * start}{label}".ljust(x.cells - len(unit)) + unit


def _legend(roofline: Roofline, glyphs: Glyphs) -> list[str]:
    """What each mark stands for, with the numbers that a chart of this size cannot show."""
    entries = [*_roof_entries(roofline, glyphs)]
    for series, glyph in zip(roofline.series, cycle(glyphs.points)):
        entries.append((glyph, series.label, f"{len(series.points)} measured"))
    for workload, letter in zip(roofline.workloads, cycle(LETTERS)):
        entries.append((letter, workload.name, _workload_detail(roofline, workload, glyphs)))
    names = [shortened(visible(name), _LONGEST_NAME) for _, name, _ in entries]
    column = max(map(display_width, names))
    return [
        "",
        *(
            f"  {glyph} {padded(name, column)}   {detail}"
            for (glyph, _, detail), name in zip(entries, names, strict=True)
        ),
    ]


def _roof_entries(roofline: Roofline, glyphs: Glyphs) -> Iterator[tuple[str, str, str]]:
    for roof, log_pi, glyph in zip(roofline.compute, roofline.log_pis, cycle(glyphs.roofs)):
        log_ridge = roofline.log_ridge(log_pi)
        ridge = f"   ridge {quantity(_linear(log_ridge), 'FLOP/byte')}" if math.isfinite(log_ridge) else ""
        yield glyph, roof.label, quantity(roof.pi_tflops, "TFLOP/s") + ridge
    if roofline.memory:
        yield glyphs.steep, roofline.memory.label, quantity(roofline.memory.beta_gbps, "GB/s")


def _workload_detail(roofline: Roofline, workload: Workload, glyphs: Glyphs) -> str:
    log_x = math.log10(workload.intensity)
    log_attainable = roofline.log_attainable(log_x)
    bound = "memory" if roofline.log_slope(log_x) < max(roofline.log_pis, default=math.inf) else "compute"
    attainable = f"{glyphs.at_most} {quantity(_linear(log_attainable), 'TFLOP/s')}"
    return f"{quantity(workload.intensity, 'FLOP/byte'):>14}   {attainable:>14}   {bound}"


def _linear(log10_value: float) -> float:
    """The number itself; infinite, which prints as a dash, where it is too large for a float."""
    return 10.0**log10_value if log10_value < sys.float_info.max_10_exp else math.inf


def _bounded(line: str, width: int, *, ascii_only: bool) -> str:
    text = visible(line)
    if ascii_only:
        text = text.translate(_IN_ASCII).encode("ascii", "backslashreplace").decode("ascii")
    return shortened(text, width, ellipsis=_ASCII_ELLIPSIS if ascii_only else ELLIPSIS).rstrip()

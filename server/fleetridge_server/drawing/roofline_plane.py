"""The plane of a roofline: two logarithmic axes that hold all that is drawn, and lines under a pair of roofs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fleetridge.roofline import attainable_tflops
from fleetridge_server.drawing.roofline_chart import RooflineChart
from fleetridge_server.drawing.scales import LogAxis
from fleetridge_server.drawing.svg import coordinate

# Air around the outermost values, in decades.
_AIR_DECADES = 0.2
_AIR_ABOVE_DECADES = 0.1
_FEWEST_X_DECADES = 2.0
_FEWEST_Y_DECADES = 1.0

# 1 TFLOP/s is 1000 times 1 GB/s × 1 FLOP/byte.
_LOG_GBPS_TO_TFLOPS = -3.0

# Where nothing has an intensity, the range in which kernels lie.
_INTENSITIES_ALONE = (1.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Plane:
    """Axes of a plot, y upwards."""

    x: LogAxis
    y: LogAxis

    @property
    def left(self) -> float:
        """Left edge in user units."""
        return self.x.start

    @property
    def right(self) -> float:
        """Right edge."""
        return self.x.end

    @property
    def top(self) -> float:
        """Upper edge."""
        return self.y.end

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.y.start

    def foot(self, beta_gbps: float) -> tuple[float, float]:
        """Where the slope of a bandwidth enters the plane: at its left edge, or at its lower one."""
        log_x = max(self.x.low, self.y.low - math.log10(beta_gbps) - _LOG_GBPS_TO_TFLOPS)
        return self.x.at_log(log_x), self.y.at_log(math.log10(beta_gbps) + log_x + _LOG_GBPS_TO_TFLOPS)

    def ridge(self, pi_tflops: float, beta_gbps: float | None) -> tuple[float, float]:
        """Where both roofs meet; without a bandwidth the left end of the flat one."""
        y = self.y.at(pi_tflops)
        if beta_gbps is None:
            return self.left, y
        return self.x.at_log(math.log10(pi_tflops) - math.log10(beta_gbps) - _LOG_GBPS_TO_TFLOPS), y

    def flat(self, pi_tflops: float, beta_gbps: float | None) -> str:
        """Commands of a compute roof, from its ridge to the right."""
        x, y = self.ridge(pi_tflops, beta_gbps)
        return f"M{coordinate(x)} {coordinate(y)}H{coordinate(self.right)}"

    def slope(self, pi_tflops: float, beta_gbps: float) -> str:
        """Commands of a memory roof, up to its ridge with a compute roof."""
        (x, y), (ridge_x, ridge_y) = self.foot(beta_gbps), self.ridge(pi_tflops, beta_gbps)
        return f"M{coordinate(x)} {coordinate(y)}L{coordinate(ridge_x)} {coordinate(ridge_y)}"


def plane_of(chart: RooflineChart, left: float, right: float, top: float, bottom: float) -> Plane:
    """Axes that hold every roof, ridge, workload and point of a chart with at least one roof."""
    xs = [roof.ridge for roof in chart.roofs if roof.ridge is not None]
    xs += [own.intensity for own in chart.workloads] + [own.intensity for own in chart.points]
    x_low, x_high = _widened(xs or list(_INTENSITIES_ALONE), _FEWEST_X_DECADES, _AIR_DECADES, _AIR_DECADES)
    ys = [roof.pi_tflops for roof in chart.roofs] + [peak.pi_tflops for peak in chart.published_pi]
    ys += [own.pi_tflops for roof in chart.roofs for own in roof.gpus]
    ys += [own.attainable_tflops for own in chart.workloads] + [own.tflops for own in chart.points]
    ys += [
        attainable_tflops(10**x_low, pi_tflops=roof.pi_tflops, beta_gbps=roof.beta_gbps)
        for roof in chart.roofs
        if roof.beta_gbps is not None
    ]
    y_low, y_high = _widened(ys, _FEWEST_Y_DECADES, 0.0, _AIR_ABOVE_DECADES)
    return Plane(LogAxis(x_low, x_high, left, right), LogAxis(y_low, y_high, bottom, top))


def _widened(values: list[float], fewest_decades: float, below: float, above: float) -> tuple[float, float]:
    low, high = math.log10(min(values)) - below, math.log10(max(values)) + above
    lacking = max(0.0, fewest_decades - (high - low))
    return low - lacking / 2, high + lacking / 2

"""Numbers for people: three significant digits and a unit, deviations with a sign, ages, sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

# What stands where a reading is missing; never 0.
MISSING = "–"

# The true minus sign lines up with "+" where the hyphen does not.
MINUS = "−"
_SIGNIFICANT_DIGITS = 3

# Outside this range plain digits are harder to read than a power of ten.
_LARGEST_PLAIN = 1e7
_SMALLEST_PLAIN = 1e-4

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_MINUTE_S = 60
_HOUR_S = 60 * _MINUTE_S
_DAY_S = 24 * _HOUR_S
# From here on the smaller of two units adds nothing: "45 d", not "45 d 3 h".
_LONG_AGO_D = 10

_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BINARY_STEP = KIB


def significant(value: float | None) -> str:
    """
    A number with three significant digits; digits before the decimal point are never rounded away (1978.9 is "1979").

    None gives a dash, and so do numbers that are not finite: neither is a reading.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size == 0:
        return "0"
    if size >= _LARGEST_PLAIN or size < _SMALLEST_PLAIN:
        return f"{value:.{_SIGNIFICANT_DIGITS - 1}e}".replace("-", MINUS)
    # Rounded first: 99.96 has three digits before and after only as "100".
    magnitude = math.floor(math.log10(float(f"{size:.{_SIGNIFICANT_DIGITS - 1}e}")))
    decimals = max(0, _SIGNIFICANT_DIGITS - 1 - magnitude)
    return f"{value:.{decimals}f}".replace("-", MINUS)


def quantity(value: float | None, unit: str) -> str:
    """A number of three significant digits with its unit ("989 TFLOP/s"); a dash alone where there is none."""
    digits = significant(value)
    return digits if digits == MISSING else f"{digits} {unit}"


def deviation(value: float, reference: float) -> float:
    """Relative deviation of a value from its reference: 0.83 against 1 gives -0.17."""
    return value / reference - 1


def percent(fraction: float | None) -> str:
    """A share of a whole, without a sign: 0.691 gives "69.1 %"."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    return f"{100 * fraction:.1f} %".replace("-", MINUS)


def signed_percent(fraction: float | None) -> str:
    """A deviation with its sign: -0.169 gives "−16.9 %"; what rounds to zero has none."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    digits = f"{100 * fraction:+.1f}"
    if float(digits) == 0:
        digits = "0.0"
    return f"{digits} %".replace("-", MINUS)


def age(elapsed: timedelta) -> str:
    """
    How long ago in at most two units: "41 s", "5 min", "3 h 12 min", "2 d 5 h", "45 d".

    A negative age comes from a clock that runs ahead, and says so.
    """
    seconds = int(elapsed.total_seconds())
    if seconds < 0:
        return f"{_duration(-seconds)} ahead"
    return _duration(seconds)


def since(elapsed: timedelta) -> str:
    """When something was: "5 min ago"; "2 d ahead" where the clock of then runs ahead of the one of now."""
    return age(elapsed) if int(elapsed.total_seconds()) < 0 else f"{age(elapsed)} ago"


def binary_size(size_bytes: float | None) -> str:
    """A size in the binary unit that keeps it readable: 1073741824 gives "1.00 GiB"."""
    if size_bytes is None:
        return MISSING
    size = float(size_bytes)
    for unit in _BINARY_UNITS[:-1]:
        if abs(size) < _BINARY_STEP:
            return quantity(size, unit)
        size /= _BINARY_STEP
    return quantity(size, _BINARY_UNITS[-1])


def _duration(seconds: int) -> str:
    days, in_day = divmod(seconds, _DAY_S)
    hours, in_hour = divmod(in_day, _HOUR_S)
    minutes = in_hour // _MINUTE_S
    if days >= _LONG_AGO_D:
        return f"{days} d"
    if days:
        return _two_units(days, "d", hours, "h")
    if hours:
        return _two_units(hours, "h", minutes, "min")
    return f"{minutes} min" if minutes else f"{seconds} s"


def _two_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"

"""Roofs, readings and facts in words."""

from collections.abc import Mapping
from typing import Literal, Protocol

from fleetridge.dtypes import DTYPES
from fleetridge.judged_kernels import JUDGED_KERNEL, JUDGED_LEVEL
from fleetridge.quantities import percent, signed_percent, significant
from fleetridge_server.engine.fast_dataclass import json_dataclass

RateName = Literal["pi", "beta"]

# By which the judged roofs are measured; their name goes without saying.
_JUDGED_KERNELS = (*JUDGED_KERNEL.values(), None)


class NamedRoof(Protocol):
    """The key of a roof, as reports and as answers have it."""

    @property
    def kind(self) -> str: ...  # noqa: D102 # said above

    @property
    def dtype(self) -> str: ...  # noqa: D102 # said above

    @property
    def out_dtype(self) -> str | None: ...  # noqa: D102 # said above

    @property
    def fast_accumulation(self) -> bool | None: ...  # noqa: D102 # said above

    @property
    def regime(self) -> str: ...  # noqa: D102 # said above

    @property
    def level(self) -> str: ...  # noqa: D102 # said above

    @property
    def kernel(self) -> str | None: ...  # noqa: D102 # said above


def counted(number: int, what: str) -> str:
    """A number of things: "1 gpu", "8 gpus"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def beside_words(loss: float) -> str:
    """How far a rate lies from another: "12.4 % below", "0.3 % above"."""
    return f"{percent(abs(loss))} {'below' if loss >= 0 else 'above'}"


def others_like_it(place: str, compared: int) -> str:
    """What a node or rack is held against: "the 7 other nodes like it"; one alone is held against its gpus' peers."""
    return f"the {counted(compared - 1, f'other {place}')} like it" if compared > 1 else "the peers of its gpus"


def rate_of(kind: str) -> RateName:
    """Pi for arithmetic, beta for memory."""
    return "pi" if kind == "compute" else "beta"


def roof_words(roof: NamedRoof) -> str:
    """A roof in words; one that is not judged by its kernel and level, "pcie h2d uint8"."""
    if roof.level == JUDGED_LEVEL and roof.kernel in _JUDGED_KERNELS:
        what: str = rate_of(roof.kind)
    else:
        level = "" if roof.level == JUDGED_LEVEL else f"{roof.level} "
        what = f"{level}{roof.kernel or roof.kind}"
    return f"{what} {variant(roof.dtype, roof.regime, roof.out_dtype, fast_accumulation=roof.fast_accumulation)}"


def variant(dtype: str, regime: str, out_dtype: str | None = None, *, fast_accumulation: bool | None = None) -> str:
    """What tells a roof from others of its kind: "float8_e4m3fn→float16 burst"; a dtype's usual output is left out."""
    usual = DTYPES[dtype].output if dtype in DTYPES else dtype
    output = "" if out_dtype in (None, usual) else f"→{out_dtype}"
    fast = " fast-acc" if fast_accumulation else ""
    known_regime = "" if regime == "unspecified" else f" {regime}"
    return f"{dtype}{output}{fast}{known_regime}"


_READINGS: Mapping[str, str] = {
    "power_limit_w": "power limit",
    "power_w": "power draw",
    "sm_clock_mhz": "SM clock",
    "memory_clock_mhz": "memory clock",
    "application_sm_clock_mhz": "application clock",
    "temperature_c": "temperature",
    "trend": "trend within the run",
    "per_ghz": "rate",
    "pcie_generation": "PCIe generation",
    "pcie_width": "PCIe lanes",
    "ecc_enabled": "ECC",
    "cublas": "cuBLAS",
    "vbios": "VBIOS",
    "remapped_rows_pending": "memory repair pending",
}

# Throttle counters as `nvidia-smi -q` spells them.
_ABBREVIATIONS = {"sw": "SW", "hw": "HW"}

# Values of settings are kept without their unit.
_UNITS = {"power_limit_w": "W"}
_UNKNOWN = "unknown"


def reading_words(name: str) -> str:
    """A reading by its name in reports: "temperature", "SW thermal slowdown"."""
    return _READINGS.get(name) or " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def setting_words(factor: str, value: str) -> str:
    """A setting with its value: "driver 580.95.05", "power limit 500 W", "ECC on"."""
    return f"{reading_words(factor)} {value_words(factor, value)}"


def value_words(factor: str, value: str) -> str:
    """Value of a setting with its unit."""
    return f"{value} {_UNITS[factor]}" if factor in _UNITS and value != _UNKNOWN else value


_FACT_UNITS = {
    "power_limit_w": "W",
    "power_w": "W",
    "sm_clock_mhz": "MHz",
    "memory_clock_mhz": "MHz",
    "application_sm_clock_mhz": "MHz",
    "temperature_c": "°C",
    "per_ghz": "TFLOP/s per GHz",
}

# Readings that a driver gives as whole numbers, or nearly so; of rates every digit counts.
_WHOLE = frozenset({"W", "MHz", "°C", "ms"})
_COUNTS = frozenset({"pcie_generation", "pcie_width"})


@json_dataclass
class Fact:
    """
    A reading beside that of the peers.

    Attributes:
        reading: its name in reports.
        own, peers: as people write them; `peers` is empty where there is nothing beside it.
        own_value, peers_value: as numbers in `unit`; null where they are words.
    """

    reading: str
    own: str
    peers: str
    own_value: float | None = None
    peers_value: float | None = None
    unit: str = ""


def number_fact(reading: str, own: float, peers: float | None, unit: str | None = None) -> Fact:
    """A reading that is a number, in the unit that its name says unless another is given."""
    used = _FACT_UNITS.get(reading, "") if unit is None else unit
    beside = "" if peers is None else _written(peers, reading, used)
    return Fact(reading, _written(own, reading, used), beside, own, peers, used)


def fact_words(reading: str, own: str, peers: str) -> str:
    """A fact in words: "temperature 89 °C, peers 65 °C"; without the peers where nothing is known of them."""
    return f"{reading_words(reading)} {own}, peers {peers}" if peers else f"{reading_words(reading)} {own}"


def _written(value: float, reading: str, unit: str) -> str:
    if reading == "trend":
        return signed_percent(value)
    if reading in _COUNTS:
        return f"{value:g}"
    return f"{value:.0f} {unit}" if unit in _WHOLE else f"{significant(value)} {unit}".rstrip()

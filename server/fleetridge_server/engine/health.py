"""
What is wrong with a gpu beside its rates: repairs that wait, errors, a narrow or slow link, clocks that are held down.

A gpu may be fast and ill. Nothing here calls a gpu slow or moves a number; it is told as what needs somebody's action.
Each gpu is described by the newest of its reports that has any such reading. A setting that most gpus of the device
share is how they are run, and nobody's fault.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from fleetridge.quantities import percent
from fleetridge_server.engine.evidence import GpuHealth, JudgedReport
from fleetridge_server.engine.remedies import REMEDIES
from fleetridge_server.engine.rule import CLOCK_LOWER, FEWEST_PEERS
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import is_link
from fleetridge_server.engine.verdict import Verdict
from fleetridge_server.engine.wording import counted, reading_words, roof_words, setting_words

# In the order in which they are told.
HealthCode = Literal[
    "repair_failed", "repair_pending", "implausible_rate", "ecc_uncorrected", "rows_remapped", "slow_link",
    "narrow_link", "application_clocks", "clocks_held",
]  # fmt: skip
HEALTH_CODES: tuple[HealthCode, ...] = get_args(HealthCode)

# What no gpu may go on with: memory that is not repaired corrupts what is computed.
ALERTING: frozenset[HealthCode] = frozenset({"repair_failed", "repair_pending"})

HEALTH_STEPS: Mapping[HealthCode, str] = {
    "repair_failed": "take the gpu out of use and return the card: its memory cannot be repaired",
    "repair_pending": REMEDIES["remapped_rows_pending"].next_step,
    "implausible_rate": "do not trust its measurements: see what was measured, and by which version of the agent",
    "ecc_uncorrected": "drain the node and reset the gpu; run the vendor's diagnostics if errors come back",
    "rows_remapped": "watch whether the number grows; return the card if it does",
    "slow_link": REMEDIES["pcie_slower"].next_step,
    "narrow_link": REMEDIES["pcie_slower"].next_step,
    "application_clocks": "reset application clocks (`nvidia-smi -rac`) unless they are set on purpose",
    "clocks_held": "check the power supply, cooling and cables of the node: something holds its clocks down at times",
}

# Bits by which a driver says that heat or power holds a clock down; a software power cap is how gpus work.
_HOLDING = frozenset(
    {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown", "board_limit"}
)


class HealthFault(NamedTuple):
    """One thing that somebody has to look after, in words."""

    code: HealthCode
    text: str

    @property
    def next_step(self) -> str:
        """What to do about it."""
        return HEALTH_STEPS[self.code]


def health_faults(
    histories: Mapping[str, Sequence[JudgedReport]], verdicts: Mapping[str, Sequence[Verdict]]
) -> dict[str, tuple[HealthFault, ...]]:
    """
    What is wrong with each gpu of a device; gpus with nothing wrong are left out.

    Args:
        histories: reports of each gpu, newest first.
        verdicts: on each gpu, among them those on its links.
    """
    newest = {gpu_id: own for gpu_id, reports in histories.items() if (own := _newest(reports)) is not None}
    usual = _Usual(newest.values())
    found: dict[str, tuple[HealthFault, ...]] = {}
    for gpu_id in histories:
        links = [own for own in verdicts.get(gpu_id, ()) if own.is_accused and is_link(own.cohort.roof)]
        faults = [*_slow_links(links)]
        if gpu_id in newest:
            faults += _of_readings(newest[gpu_id], usual, has_slow_link=bool(links))
        if faults:
            found[gpu_id] = tuple(sorted(faults, key=lambda own: HEALTH_CODES.index(own.code)))
    return found


class _Usual:
    """What most gpus of a device have."""

    def __init__(self, known: Iterable[GpuHealth]) -> None:
        numbers: dict[str, list[float]] = defaultdict(list)
        bits: Counter[str] = Counter()
        gpus = list(known)
        for own in gpus:
            for name in ("pcie_generation", "pcie_width", "application_sm_clock_mhz"):
                if (value := getattr(own, name)) is not None:
                    numbers[name].append(value)
            bits.update(own.throttle_reasons or ())
        self.numbers = {name: median(values) for name, values in numbers.items() if len(values) >= FEWEST_PEERS}
        self.bits = frozenset(
            name for name, count in bits.items() if len(gpus) >= FEWEST_PEERS and 2 * count > len(gpus)
        )


def _newest(reports: Iterable[JudgedReport]) -> GpuHealth | None:
    return next((own.health for own in reports if own.health != _NOTHING_READ), None)


_NOTHING_READ = GpuHealth()


def _slow_links(links: Iterable[Verdict]) -> Iterator[HealthFault]:
    for own in links:
        levels = " and ".join(setting_words(*level) for level in own.limits.levels)
        gpus = counted(own.limits.n, "gpu") + (f" with {levels}" if levels else "")
        yield HealthFault("slow_link", f"{roof_words(own.cohort.roof)} {percent(own.loss)} below the median of {gpus}")


def _of_readings(own: GpuHealth, usual: _Usual, *, has_slow_link: bool) -> Iterator[HealthFault]:
    if own.remapped_rows_failure:
        yield HealthFault("repair_failed", "a memory repair failed")
    if own.remapped_rows_pending:
        yield HealthFault("repair_pending", "a memory repair waits for a reset")
    for words in own.implausible or ():
        yield HealthFault("implausible_rate", words)
    if own.ecc_uncorrected:
        errors = counted(own.ecc_uncorrected, "memory error")
        yield HealthFault("ecc_uncorrected", f"{errors} since the driver was loaded that ECC could not correct")
    if own.remapped_rows_uncorrectable:
        rows = counted(own.remapped_rows_uncorrectable, "memory row")
        yield HealthFault("rows_remapped", f"{rows} remapped after errors that ECC could not correct")
    narrow = [] if has_slow_link else list(_narrow(own, usual))
    if narrow:
        yield HealthFault("narrow_link", f"link under load: {' and '.join(narrow)}")
    clock, most = own.application_sm_clock_mhz, usual.numbers.get("application_sm_clock_mhz")
    if clock is not None and most is not None and clock < (1 - CLOCK_LOWER) * most:
        yield HealthFault("application_clocks", f"application clock set to {clock:.0f} MHz, peers {most:.0f} MHz")
    held = sorted((_HOLDING & set(own.throttle_reasons or ())) - usual.bits)
    if held:
        yield HealthFault("clocks_held", f"its driver says that {' and '.join(map(reading_words, held))} held it back")


def _narrow(own: GpuHealth, usual: _Usual) -> Iterator[str]:
    """
    What of the link is less than it should be: than most gpus' or, of few gpus, than device and slot can do.

    A link that carries nothing falls back by itself to an older generation, never to fewer lanes; so of the generation
    only peers tell.
    """
    for name, highest in (("pcie_generation", None), ("pcie_width", own.pcie_width_max)):
        value, most = getattr(own, name), usual.numbers.get(name)
        if value is None:
            continue
        if most is not None and value < most:
            yield f"{reading_words(name)} {value:g} (peers {most:g})"
        elif most is None and highest is not None and value < highest:
            yield f"{reading_words(name)} {value:g} (of {highest:g})"

"""
Reasons why a gpu is slow: its readings beside those of its peers, what explains most first.

Each reason names the readings that it rests on. A reading that peers share explains nothing: a software power cap on
every gpu is how they work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fleetridge.quantities import percent
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.groups import level_name
from fleetridge_server.engine.remedies import (
    RANK,
    SLOWS,
    Circumstances,
    Reason,
    ReasonCode,
    RoofClass,
    SharedCause,
    SharedLoss,
)
from fleetridge_server.engine.rule import (
    CLOCK_LOWER,
    EXPLAINED_PART,
    EXPLAINING_READINGS,
    FALLING_PART,
    FEWEST_PEERS,
    HOTTER_C,
    MEMORY_CLOCK_LOWER,
    POWER_LIMIT_LOWER,
    POWER_LOWER,
    THROTTLE_MS,
)
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import Member, Run, is_link
from fleetridge_server.engine.verdict import PlaceWord, Verdict
from fleetridge_server.engine.wording import Fact, number_fact, reading_words, setting_words

_MHZ_PER_GHZ = 1000

Reader = Callable[[Run], float | None]


def _per_ghz(run: Run) -> float | None:
    clock_mhz = run.reading.sm_clock_mhz
    return run.reading.value / clock_mhz * _MHZ_PER_GHZ if clock_mhz else None


NUMBERS: Mapping[str, Reader] = {
    "power_limit_w": lambda run: run.report.factors.power_limit_w,
    "power_w": lambda run: run.reading.power_w,
    "sm_clock_mhz": lambda run: run.reading.sm_clock_mhz,
    "memory_clock_mhz": lambda run: run.reading.memory_clock_mhz,
    "temperature_c": lambda run: run.reading.temperature_c,
    "trend": lambda run: run.reading.trend,
    "per_ghz": _per_ghz,
    "pcie_generation": lambda run: run.report.health.pcie_generation,
    "pcie_width": lambda run: run.report.health.pcie_width,
}


@dataclass(frozen=True, slots=True)
class Peers:
    """
    Medians and majorities over the newest runs of a group.

    Attributes:
        numbers: median of every reading that at least four gpus have.
        factors: most common level of every factor that more than half of the gpus share.
        throttle_ms: median of each throttle counter over the gpus that have counters.
    """

    numbers: Mapping[str, float]
    factors: Mapping[str, str]
    throttle_ms: Mapping[str, float]


def peers_of(members: Sequence[Member]) -> Peers:
    """Readings of a group's members."""
    runs = [member.newest for member in members]
    numbers: dict[str, float] = {}
    for name, read in NUMBERS.items():
        values = [value for run in runs if (value := read(run)) is not None]
        if len(values) >= FEWEST_PEERS:
            numbers[name] = median(values)
    return Peers(numbers, _majorities(runs), _throttle_medians(runs))


def _majorities(runs: Sequence[Run]) -> dict[str, str]:
    found: dict[str, str] = {}
    # A fleet has few settings, each of them many times.
    settings = Counter(run.report.factors for run in runs)
    for position, factor in enumerate(Factors._fields):
        counts: Counter[str] = Counter()
        for setting, count in settings.items():
            counts[level_name(setting[position])] += count
        name, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        if 2 * count > len(runs):
            found[factor] = name
    return found


def _throttle_medians(runs: Iterable[Run]) -> dict[str, float]:
    counters = [run.reading.throttle_ms for run in runs if run.reading.throttle_ms is not None]
    names = sorted({name for counter in counters for name in counter})
    return {name: median(counter.get(name, 0.0) for counter in counters) for name in names}


_THERMAL = ("thermal", "sw_thermal_slowdown", "hw_thermal_slowdown")
_BRAKES = ("hw_power_brake_slowdown", "hw_slowdown", "board_limit", "reliability")

_SOFTWARE = ("driver", "torch", "cublas", "vbios")


_NO_CIRCUMSTANCES = Circumstances()


def reasons(verdict: Verdict, peers: Peers, around: Circumstances = _NO_CIRCUMSTANCES) -> list[Reason]:
    """
    Reasons for one verdict, the strongest first.

    For a gpu that is not accused they are information; one that is accused and has no cause among them is
    "not explained by the evidence". A loss that a whole node or rack shares comes first: no single card explains it.
    """
    shared = [own.cause for own in (around.slow_rack, around.slow_node) if own is not None]
    found = [_as_shared(reason, shared) for reason in own_reasons(verdict, peers)]
    found += _where_and_when(verdict, around)
    if (verdict.is_accused or _has_drifted(around)) and not any(reason.is_cause for reason in found):
        found.append(Reason("not_explained", f"not explained by the evidence: {_what_is_lacking(verdict, peers)}"))
    return sorted(found, key=_order)


def _what_is_lacking(verdict: Verdict, peers: Peers) -> str:
    """Why no cause is named: nothing differs, or there are no readings to compare."""
    evidence = [name for name in EXPLAINING_READINGS if name in peers.numbers]
    if not any(NUMBERS[name](verdict.member.newest) is not None for name in evidence):
        return "its newest report and its peers' have no clock, power or temperature in common to tell it by"
    return "no reading that could explain it differs from its peers'"


def own_reasons(verdict: Verdict, peers: Peers) -> list[Reason]:
    """What a gpu's own readings say, whatever its neighbours do; in no order."""
    rules: tuple[Callable[[Verdict, Peers], Iterable[Reason]], ...] = (
        _settings,
        _throttling,
        _clocks,
        _memory,
        _link,
        _within_run,
        _software,
    )
    subject = _subject(verdict)
    return [_beside(subject, reason) for rule in rules for reason in rule(verdict, peers)]


def _order(reason: Reason) -> tuple[bool, bool, int]:
    return reason.is_information, reason.place is None, RANK[reason.code]


def _as_shared(reason: Reason, shared: Iterable[SharedCause | None]) -> Reason:
    """A cause that the gpu's place shares is dealt with there."""
    step = next((cause.next_step for cause in shared if cause is not None and cause.code == reason.code), None)
    return reason if step is None else replace(reason, step=step)


def _subject(verdict: Verdict) -> RoofClass:
    return "link" if is_link(verdict.cohort.roof) else verdict.cohort.roof.kind


def _beside(subject: RoofClass, reason: Reason) -> Reason:
    """The reason, as information where it cannot slow what was measured."""
    slowed = SLOWS.get(reason.code)
    return reason if slowed is None or subject in slowed else replace(reason, is_information=True)


def _settings(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    if _part_below(verdict, peers, "power_limit_w") >= POWER_LIMIT_LOWER:
        yield _numeric("power_limit_lower", "power limit", verdict, peers, ("power_limit_w", "power_w"))
    own = level_name(verdict.member.newest.report.factors.ecc_enabled)
    usual = peers.factors.get("ecc_enabled")
    if usual is not None and {own, usual} == {"on", "off"}:
        yield Reason("ecc_differs", f"ECC {own}, peers {usual}", (Fact("ecc_enabled", own, usual),))


def _throttling(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    own_ms = verdict.member.newest.reading.throttle_ms or {}
    held = {name: grown for name, grown in own_ms.items() if grown - peers.throttle_ms.get(name, 0.0) > THROTTLE_MS}
    brakes = [name for name in _BRAKES if name in held]
    thermal = [name for name in _THERMAL if name in held]
    is_slower = _part_below(verdict, peers, "sm_clock_mhz") >= CLOCK_LOWER
    hotter_c = -_difference(verdict, peers, "temperature_c")
    if brakes:
        yield Reason("power_brake", f"held back by {_names(brakes)}", _counters(held, brakes, peers))
    if thermal or (is_slower and hotter_c >= HOTTER_C):
        facts = (*_facts(verdict, peers, ("temperature_c", "sm_clock_mhz")), *_counters(held, thermal, peers))
        words = f"held back by {_names(thermal)}" if thermal else "hotter than peers, with a lower clock"
        yield Reason("thermal", words, facts)


def _clocks(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    clock_part = _part_below(verdict, peers, "sm_clock_mhz")
    if clock_part >= CLOCK_LOWER:
        clock = _numeric("clock_lower", "SM clock", verdict, peers, ("sm_clock_mhz", "power_w"))
        yield replace(clock, is_information=clock_part < EXPLAINED_PART * verdict.loss)
    power_part = _part_below(verdict, peers, "power_w")
    if power_part >= POWER_LOWER:
        power = _numeric("power_draw_lower", "power draw", verdict, peers, ("power_w", "sm_clock_mhz"))
        # A gpu that does less draws less, though not in proportion: that follows from the loss and explains nothing.
        yield replace(power, is_information=power_part < verdict.loss)
    per_ghz = _part_below(verdict, peers, "per_ghz")
    if verdict.cohort.roof.kind != "compute" or "per_ghz" not in peers.numbers or not verdict.is_accused:
        return
    facts = _facts(verdict, peers, ("per_ghz", "sm_clock_mhz"))
    if per_ghz <= verdict.limits.gate / 2:
        if clock_part >= CLOCK_LOWER:
            yield Reason("clocks_explain", "its rate per GHz is that of its peers: the clock explains the loss", facts)
    elif facts:
        text = f"its rate per GHz is {percent(per_ghz)} below its peers': clocks do not explain the loss"
        yield Reason("clocks_do_not_explain", text, facts)


def _memory(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    part = _part_below(verdict, peers, "memory_clock_mhz")
    if part >= MEMORY_CLOCK_LOWER:
        clock = _numeric("memory_clock_lower", "memory clock", verdict, peers, ("memory_clock_mhz",))
        yield replace(clock, is_information=part < EXPLAINED_PART * verdict.loss)
    if verdict.member.newest.report.health.remapped_rows_pending:
        fact = Fact("remapped_rows_pending", "yes", "")
        yield Reason("remapped_rows_pending", "a memory repair waits for a reset", (fact,))


def _link(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    slower = [name for name in ("pcie_generation", "pcie_width") if _part_below(verdict, peers, name) > 0]
    if slower:
        facts = _facts(verdict, peers, slower)
        words = " and ".join(f"{reading_words(fact.reading)} {fact.own} (peers {fact.peers})" for fact in facts)
        yield Reason("pcie_slower", f"link under load: {words}", facts)


def _within_run(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    trend = verdict.member.newest.reading.trend
    if trend is not None and trend - peers.numbers.get("trend", 0.0) <= -FALLING_PART:
        text = f"its rate falls by {percent(-trend)} within the run"
        yield Reason("falling_within_run", text, (number_fact("trend", trend, peers.numbers.get("trend")),))


def _software(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    # A gpu that is judged among its own level is not slow because of that level.
    settled = {level.factor for level in verdict.limits.levels}
    factors = verdict.member.newest.report.factors
    facts: list[Fact] = []
    for factor in _SOFTWARE:
        own = level_name(factors[Factors._fields.index(factor)])
        usual = peers.factors.get(factor)
        if factor not in settled and usual not in (None, "unknown", own) and own != "unknown":
            facts.append(Fact(factor, own, usual))
    if facts:
        words = ", ".join(f"{reading_words(fact.reading)} {fact.own} (most peers {fact.peers})" for fact in facts)
        yield Reason("software_differs", words, tuple(facts))


def _where_and_when(verdict: Verdict, around: Circumstances) -> Iterator[Reason]:
    if verdict.finding.intermittent:
        yield _intermittent(verdict)
    drift = around.drift
    if drift is not None and _has_drifted(around) and drift.change is not None:
        since = "" if drift.onset is None else f" since {drift.onset:%Y-%m-%d %H:%M} UTC"
        yield Reason("drifted", f"{percent(-drift.change)} below its own baseline{since}")
    if not verdict.is_accused:
        return
    if around.setting is not None:
        words = setting_words(*around.setting.setting)
        yield Reason("shared_setting", f"{len(around.setting.gpu_ids)} gpus share {words} and are slow together")
    if around.slow_rack is not None:
        yield _of_place("whole_rack", "rack", around.slow_rack)
    if around.slow_node is not None:
        yield _of_place("whole_node", "node", around.slow_node)
    elif around.neighbours and not any(other.is_accused for other in around.neighbours):
        yield Reason("alone", f"the other {len(around.neighbours)} gpus of its node are not slow")
    if around.other_dtypes and not any(other.is_accused for other in around.other_dtypes):
        words = ", ".join(sorted({other.cohort.roof.dtype for other in around.other_dtypes}))
        yield Reason("only_one_dtype", f"slow in {verdict.cohort.roof.dtype} only, not in {words}")


def _intermittent(verdict: Verdict) -> Reason:
    runs = verdict.member.runs
    times = [run.report.ordered_at for run in runs if verdict.limits.is_beyond(run.value)]
    text = (
        f"comes and goes: {len(times)} of its newest {len(runs)} runs lie beyond the limit, the first of "
        f"{times[-1]:%Y-%m-%d %H:%M} UTC, the last of {times[0]:%Y-%m-%d %H:%M} UTC"
    )
    return Reason("intermittent", text)


def _of_place(code: ReasonCode, word: PlaceWord, loss: SharedLoss) -> Reason:
    """What a gpu shares with its whole node or rack."""
    cause = loss.cause
    if cause is None:
        text = f"its whole {word} is slow, and no reading that most of its gpus share says why"
        return Reason(code, text, place=loss.slow.place)
    text = f"its whole {word} is slow: {cause.text}"
    return Reason(code, text, cause.facts, place=loss.slow.place, shared=cause, step=cause.next_step)


def _has_drifted(around: Circumstances) -> bool:
    return around.drift is not None and around.drift.status == "drifted"


def _difference(verdict: Verdict, peers: Peers, name: str) -> float:
    """Peers' reading less the gpu's own; 0 where either is missing."""
    own, usual = NUMBERS[name](verdict.member.newest), peers.numbers.get(name)
    return 0.0 if own is None or usual is None else usual - own


def _part_below(verdict: Verdict, peers: Peers, name: str) -> float:
    """Part by which a gpu's reading lies below its peers'; 0 where either is missing."""
    usual = peers.numbers.get(name)
    return _difference(verdict, peers, name) / usual if usual else 0.0


def _facts(verdict: Verdict, peers: Peers, names: Iterable[str]) -> tuple[Fact, ...]:
    found: list[Fact] = []
    for name in names:
        own, usual = NUMBERS[name](verdict.member.newest), peers.numbers.get(name)
        if own is not None and usual is not None:
            found.append(number_fact(name, own, usual))
    return tuple(found)


def _counters(held: dict[str, float], names: Iterable[str], peers: Peers) -> tuple[Fact, ...]:
    return tuple(number_fact(name, held[name], peers.throttle_ms.get(name, 0.0), "ms") for name in names)


def _numeric(code: ReasonCode, noun: str, verdict: Verdict, peers: Peers, names: Sequence[str]) -> Reason:
    facts = _facts(verdict, peers, names)
    return Reason(code, f"{noun} {facts[0].own}, peers {facts[0].peers}", facts, noun=noun)


def _names(counters: Iterable[str]) -> str:
    return " and ".join(map(reading_words, counters))

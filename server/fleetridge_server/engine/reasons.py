"""
Reasons why a gpu is slow: its readings beside those of its peers, what explains most first.

A rate is a clock times a rate per GHz. So a lower clock takes the part by which it is lower, whatever holds it down
(limit, brake, heat), a lower memory clock that of reads, and the rate per GHz what is left; of a setting or a library
nobody knows the part. Power is what clock and work make of it: lower at a lower clock it is a cap, at a full clock the
gpu waits. Each reason names the readings that it rests on. A reading that peers share explains nothing: a software
power cap on every gpu is how they work.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fleetridge.quantities import percent
from fleetridge_server.engine.evidence import Factors
from fleetridge_server.engine.groups import level_name
from fleetridge_server.engine.peer_readings import NUMBERS, Peers, difference, facts_of, is_known, part_below
from fleetridge_server.engine.remedies import (
    RANK,
    REMEDIES,
    SLOWS,
    Circumstances,
    Reason,
    ReasonCode,
    RoofClass,
    SharedCause,
    SharedLoss,
    explained_words,
    may_be_shared,
    waiting_words,
)
from fleetridge_server.engine.rule import (
    CLOCK_LOWER,
    EXPLAINED_PART,
    EXPLAINING_READINGS,
    FALLING_PART,
    HOTTER_C,
    MEMORY_CLOCK_LOWER,
    POWER_LIMIT_LOWER,
    POWER_LOWER,
    THROTTLE_MS,
)
from fleetridge_server.engine.values import is_link
from fleetridge_server.engine.verdict import PlaceWord, Verdict
from fleetridge_server.engine.wording import Fact, number_fact, reading_words, setting_words

_THERMAL = ("thermal", "sw_thermal_slowdown", "hw_thermal_slowdown")
_BRAKES = ("hw_power_brake_slowdown", "hw_slowdown", "board_limit", "reliability")

_OF_A_CLOCK = ("sm_clock_mhz", "application_sm_clock_mhz", "power_w")
_OF_A_LINK = ("pcie_generation", "pcie_width")
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
    is_told = any(may_be_shared(reason) for reason in found if not reason.is_information)
    if (verdict.is_accused or _has_drifted(around)) and not is_told:
        lacks = f"not explained by the evidence: {_what_is_lacking(verdict, peers, found)}"
        step = REMEDIES["pcie_slower"].next_step if is_link(verdict.cohort.roof) else None
        found.append(Reason("not_explained", lacks, step=step))
    return sorted(found, key=_order)


def _what_is_lacking(verdict: Verdict, peers: Peers, found: Iterable[Reason]) -> str:
    """Why no cause is named: nothing differs, or by too little, or there are no readings to compare."""
    too_little = [reason for reason in found if reason.explains is not None and REMEDIES[reason.code].is_cause]
    if too_little:
        most = max(too_little, key=lambda reason: reason.explains or 0.0)
        words = explained_words(most.explains, most.loss).removeprefix(", explains ")
        return f"the most that a reading explains is {words}"
    if is_link(verdict.cohort.roof):
        known = [name for name in _OF_A_LINK if is_known(verdict, peers, name)]
        words = " and ".join(map(reading_words, known))
        return (
            f"its {words} {'are' if known[1:] else 'is'} as its peers'"
            if known
            else "its lanes and those of its peers are not both known"
        )
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


def _order(reason: Reason) -> tuple[bool, bool, int, int]:
    return reason.is_information, reason.place is None, -reason.strength, RANK[reason.code]


def _as_shared(reason: Reason, shared: Iterable[SharedCause | None]) -> Reason:
    """A cause that the gpu's place shares is dealt with there."""
    step = next((cause.next_step for cause in shared if cause is not None and cause.code == reason.code), None)
    return reason if step is None else replace(reason, step=step)


def _subject(verdict: Verdict) -> RoofClass:
    return "link" if is_link(verdict.cohort.roof) else verdict.cohort.roof.kind


def _beside(subject: RoofClass, reason: Reason) -> Reason:
    """The reason, as information where it cannot slow what was measured."""
    slowed = SLOWS.get(reason.code)
    if slowed is None or subject in slowed:
        return reason
    return replace(reason, is_information=True, explains=None, loss=None)


def _explaining(reason: Reason, verdict: Verdict, part: float | None) -> Reason:
    """
    The reason with how much of the loss it explains; as information where that leaves most of it unexplained.

    Args:
        reason: a cause.
        verdict: whose loss it is about; one that accuses nobody has none to explain.
        part: of the peers' rate that the cause takes; None where nobody knows.
    """
    if not verdict.is_accused or verdict.loss <= 0:
        return reason
    if part is None:
        return replace(reason, loss=verdict.loss)
    explains = min(1.0, max(0.0, part / verdict.loss))
    return replace(reason, explains=explains, loss=verdict.loss, is_information=explains < EXPLAINED_PART)


def _clock_part(verdict: Verdict, peers: Peers) -> float | None:
    """Part by which the clock is lower, 0 where it is no lower than readings scatter; None where nobody knows."""
    if not is_known(verdict, peers, "sm_clock_mhz"):
        return None
    part = part_below(verdict, peers, "sm_clock_mhz")
    return part if part >= CLOCK_LOWER else 0.0


def _settings(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    if part_below(verdict, peers, "power_limit_w") >= POWER_LIMIT_LOWER:
        limit = _numeric("power_limit_lower", "power limit", verdict, peers, ("power_limit_w", "power_w"))
        yield _explaining(limit, verdict, _clock_part(verdict, peers))
    own = level_name(verdict.member.newest.report.factors.ecc_enabled)
    usual = peers.factors.get("ecc_enabled")
    if usual is not None and {own, usual} == {"on", "off"}:
        ecc = Reason("ecc_differs", f"ECC {own}, peers {usual}", (Fact("ecc_enabled", own, usual),))
        yield _explaining(ecc, verdict, None)


def _throttling(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    held = _held_back(verdict, peers)
    brakes = [name for name in _BRAKES if name in held]
    thermal = [name for name in _THERMAL if name in held]
    # A brake that bites now and then leaves the middle of the clock's readings where it is.
    part = _clock_part(verdict, peers) or None
    hotter_c = -difference(verdict, peers, "temperature_c")
    if brakes:
        brake = Reason("power_brake", f"held back by {_names(brakes)}", _counters(held, brakes, peers))
        yield _explaining(brake, verdict, part)
    if thermal or (part is not None and hotter_c >= HOTTER_C):
        facts = (*facts_of(verdict, peers, ("temperature_c", "sm_clock_mhz")), *_counters(held, thermal, peers))
        words = f"held back by {_names(thermal)}" if thermal else "hotter than peers, with a lower clock"
        yield _explaining(Reason("thermal", words, facts), verdict, part)


def _held_back(verdict: Verdict, peers: Peers) -> dict[str, float | None]:
    """Throttle counters that grew by more than the peers' did; None for what the driver showed without counting it."""
    newest = verdict.member.newest
    seen = dict.fromkeys(sorted({*(newest.report.health.throttle_reasons or ())} - peers.throttle_bits))
    own_ms = newest.reading.throttle_ms or {}
    grown = {name: ms for name, ms in own_ms.items() if ms - peers.throttle_ms.get(name, 0.0) > THROTTLE_MS}
    return {**seen, **grown}


def _clocks(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    part = _clock_part(verdict, peers)
    if part:
        clock = _numeric("clock_lower", "SM clock", verdict, peers, _OF_A_CLOCK)
        yield _explaining(clock, verdict, part)
    power_part = part_below(verdict, peers, "power_w")
    if power_part >= POWER_LOWER:
        yield from _power_draw(verdict, peers, power_part, part)
    if verdict.is_accused and verdict.cohort.roof.kind == "compute":
        yield from _per_clock(verdict, peers, part)


def _power_draw(verdict: Verdict, peers: Peers, power_part: float, clock_part: float | None) -> Iterator[Reason]:
    """
    What a lower power draw means: a cap lowers the clock, and a gpu at full clock that draws less has less to do.

    Where nobody knows the clock, a gpu that does less draws less, though not in proportion: only what goes beyond the
    loss may be a cap.
    """
    power = _numeric("power_draw_lower", "power draw", verdict, peers, ("power_w", "sm_clock_mhz"))
    is_stream = verdict.cohort.roof.kind == "memory"
    if clock_part:
        yield _explaining(power, verdict, clock_part)
    elif clock_part is None or (is_stream and not is_known(verdict, peers, "memory_clock_mhz")):
        yield replace(_explaining(power, verdict, None), is_information=power_part < verdict.loss)
    elif not (_is_at_its_limit(verdict) or part_below(verdict, peers, "memory_clock_mhz") >= MEMORY_CLOCK_LOWER):
        yield Reason("waits_for_work", waiting_words(power.facts, "draws", "its", "it waits"), power.facts)


def _is_at_its_limit(verdict: Verdict) -> bool:
    newest = verdict.member.newest
    limit_w, drawn_w = newest.report.factors.power_limit_w, newest.reading.power_w
    return limit_w is not None and drawn_w is not None and drawn_w > (1 - POWER_LOWER) * limit_w


def _per_clock(verdict: Verdict, peers: Peers, clock_part: float | None) -> Iterator[Reason]:
    """What the rate per GHz tells: whether the clock explains the loss, or how much it leaves."""
    facts = facts_of(verdict, peers, ("per_ghz", "sm_clock_mhz"))
    if clock_part is None or not facts or verdict.loss <= 0:
        return
    below = part_below(verdict, peers, "per_ghz")
    if below <= verdict.limits.gate / 2:
        if clock_part and clock_part >= EXPLAINED_PART * verdict.loss:
            yield Reason("clocks_explain", "its rate per GHz is that of its peers: the clock explains the loss", facts)
        return
    # The median of a clock that a brake holds down now and then does not show it.
    if clock_part == 0 and _held_back(verdict, peers).keys() & {*_BRAKES, *_THERMAL}:
        return
    left = max(0.0, 1 - clock_part / verdict.loss)
    what = f"its rate per GHz is {percent(below)} below its peers'"
    if not clock_part:
        text = f"{what}: clocks do not explain the loss"
    else:
        text = f"{what}: clocks leave {percent(left * verdict.loss).removesuffix(' %')} of {percent(verdict.loss)}"
    yield Reason("clocks_do_not_explain", text, facts, explains=left)


def _memory(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    part = part_below(verdict, peers, "memory_clock_mhz")
    if part >= MEMORY_CLOCK_LOWER:
        clock = _numeric("memory_clock_lower", "memory clock", verdict, peers, ("memory_clock_mhz",))
        yield _explaining(clock, verdict, part)
    if verdict.member.newest.report.health.remapped_rows_pending:
        fact = Fact("remapped_rows_pending", "yes", "")
        repair = Reason("remapped_rows_pending", "a memory repair waits for a reset", (fact,))
        yield _explaining(repair, verdict, None)


def _link(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    slower = [name for name in _OF_A_LINK if part_below(verdict, peers, name) > 0]
    if slower:
        facts = facts_of(verdict, peers, slower)
        words = " and ".join(f"{reading_words(fact.reading)} {fact.own} (peers {fact.peers})" for fact in facts)
        link = Reason("pcie_slower", f"link under load: {words}", facts)
        yield _explaining(link, verdict, _link_part(verdict, peers))


def _link_part(verdict: Verdict, peers: Peers) -> float:
    """Part of the peers' rate that lanes and generation take: each generation doubles the rate of a lane, or nearly."""
    generations = difference(verdict, peers, "pcie_generation")
    lanes = part_below(verdict, peers, "pcie_width")
    return 1 - (1 - lanes) / 2**generations


def _within_run(verdict: Verdict, peers: Peers) -> Iterator[Reason]:
    trend = verdict.member.newest.reading.trend
    if trend is not None and trend - peers.numbers.get("trend", 0.0) <= -FALLING_PART:
        text = f"its rate falls by {percent(-trend)} within the run"
        falling = Reason("falling_within_run", text, (number_fact("trend", trend, peers.numbers.get("trend")),))
        # Of a steady fall the middle of the run has lost half.
        yield _explaining(falling, verdict, (peers.numbers.get("trend", 0.0) - trend) / 2)


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
        yield _explaining(Reason("software_differs", words, tuple(facts)), verdict, None)


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
        others = len(around.neighbours)
        words = "the other gpu of its node is" if others == 1 else f"the other {others} gpus of its node are"
        yield Reason("alone", f"{words} not slow")
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


def _counters(held: Mapping[str, float | None], names: Iterable[str], peers: Peers) -> tuple[Fact, ...]:
    return tuple(
        Fact(name, "seen", "")
        if (grown := held[name]) is None
        else number_fact(name, grown, peers.throttle_ms.get(name, 0.0), "ms")
        for name in names
    )


def _numeric(code: ReasonCode, noun: str, verdict: Verdict, peers: Peers, names: Sequence[str]) -> Reason:
    facts = facts_of(verdict, peers, names)
    return Reason(code, f"{noun} {facts[0].own}, peers {facts[0].peers}", facts, noun=noun)


def _names(counters: Iterable[str]) -> str:
    return " and ".join(map(reading_words, counters))

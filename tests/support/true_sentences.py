"""
What verdicts, reasons, alerts and notices say in words, phrase by phrase, each held against the numbers beside it.

A sentence is read from its beginning: the first phrase of the table that fits is checked and taken off, until nothing
is left. A phrase that no table knows is an error, so that whoever words a new sentence says here what makes it true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import median

from fleetridge_server.engine.evaluation import Evaluation
from fleetridge_server.engine.evidence import GpuHealth
from fleetridge_server.engine.remedies import Reason
from fleetridge_server.engine.rule import CLOCK_LOWER, EXPLAINED_PART, FEWEST_PEERS
from fleetridge_server.engine.values import Run
from fleetridge_server.engine.verdict import Verdict
from fleetridge_server.engine.wording import reading_words, roof_words
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, JudgedRoof
from support.said import Number
from support.said_in_words import written

Found = re.Match[str]

PERCENT = r"−?\d+\.\d %"
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"


@dataclass
class Words:
    """One sentence on a gpu, the verdicts that it may be about, and the roof that it has named last."""

    evaluation: Evaluation
    verdict: GpuVerdict
    own: JudgedRoof | None = None
    judged: Verdict | None = None
    reason: Reason | None = None
    health: GpuHealth = field(default_factory=GpuHealth)
    roofs: dict[str, JudgedRoof] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roofs = {roof_words(own.roof): own for own in (*self.verdict.roofs, *self.verdict.links)}

    @property
    def roof(self) -> JudgedRoof:
        """The roof named last."""
        assert self.own is not None
        return self.own

    @property
    def engine(self) -> Verdict:
        """What a reason is about."""
        assert self.judged is not None
        return self.judged

    @property
    def peers(self) -> list[Run]:
        """Newest runs of the group that the gpu is judged in."""
        return [
            other.member.newest
            for verdicts in self.evaluation.verdicts.values()
            for other in verdicts
            if other.cohort == self.engine.cohort and other.limits.levels == self.engine.limits.levels
        ]

    def own_and_peers(self, read: Callable[[Run], float | None]) -> tuple[float, float]:
        """A reading of the gpu, and the median of its group."""
        own = read(self.engine.member.newest)
        values = [value for run in self.peers if (value := read(run)) is not None]
        assert own is not None
        return own, median(values)

    def part_below(self, read: Callable[[Run], float | None]) -> float:
        """Part by which a reading lies below the peers'; 0 where the gpu has none."""
        if read(self.engine.member.newest) is None or all(read(run) is None for run in self.peers):
            return 0.0
        own, usual = self.own_and_peers(read)
        return 1 - own / usual


Check = Callable[[Found, Words], bool]
Phrases = Sequence[tuple[str, Check]]


def is_number(cell: str, value: float) -> bool:
    """Whether a number as it is written is this one, rounded."""
    return written(cell).agrees(Number(value))


def sm_clock(run: Run) -> float | None:
    """SM clock of a run."""
    return run.reading.sm_clock_mhz


def per_ghz(run: Run) -> float | None:
    """Rate of a run per GHz."""
    return run.reading.value / run.reading.sm_clock_mhz if run.reading.sm_clock_mhz else None


READ: Mapping[str, Callable[[Run], float | None]] = {
    "power limit": lambda run: run.report.factors.power_limit_w,
    "power draw": lambda run: run.reading.power_w,
    "SM clock": sm_clock,
    "memory clock": lambda run: run.reading.memory_clock_mhz,
    "PCIe lanes": lambda run: run.report.health.pcie_width,
    "PCIe generation": lambda run: run.report.health.pcie_generation,
}


def at(text: str) -> datetime:
    """A time as sentences write it."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M UTC").replace(tzinfo=timezone.utc)


def _beside(found: Found, words: Words) -> bool:
    own = words.own = words.roofs[found["roof"]]
    band = own.band
    is_side = found["side"] == ("below" if own.loss >= 0 else "above")
    is_half = bool(found["half"]) == band.of_faster_half
    levels = all(level.name in (found["levels"] or "") for level in band.levels)
    return is_side and is_half and levels and int(found["n"]) == band.n and is_number(found["loss"], abs(own.loss))


def _beyond_limit(found: Found, words: Words) -> bool:
    own = words.roof
    return own.value < own.band.lowest and is_number(found["limit"], own.band.limit)


def _within_limit(found: Found, words: Words) -> bool:
    own = words.roof
    return own.loss <= own.band.limit and is_number(found["limit"], own.band.limit)


def _beyond(words: Words) -> list[bool]:
    return [run.beyond for run in words.roof.runs]


def _in_each(found: Found, words: Words) -> bool:
    beyond, count = _beyond(words), int(found["n"] or 1)
    return all(beyond[:count]) and not any(beyond[count : count + 1])


def _in_some(found: Found, words: Words) -> bool:
    beyond = _beyond(words)
    return (sum(beyond), len(beyond)) == (int(found["k"]), int(found["n"]))


def _in_older(found: Found, words: Words) -> bool:
    beyond, inside = _beyond(words), int(found["inside"] or 1)
    return _in_some(found, words) and not any(beyond[:inside]) and beyond[inside]


def _since(found: Found, words: Words) -> bool:
    own = words.roof
    beyond = _beyond(words)
    start = beyond.index(True)
    end = next((place for place in range(start, len(beyond)) if not beyond[place]), len(beyond))
    oldest, said = own.runs[end - 1].ordered_at, at(found["time"])
    is_exact = oldest.replace(second=0, microsecond=0) == said
    # Where all runs lie beyond, the gpu's drift may know of older ones.
    return (is_exact or (end == len(beyond) and said < oldest)) and (end == len(beyond) or not found["bound"])


def _changed(_: Found, words: Words) -> bool:
    return bool(words.roof.slow_with)


def _retested(found: Found, words: Words) -> bool:
    own = words.own = words.roofs[found["roof"]]
    beyond = _beyond(words)
    is_counted = len(beyond) == int(found["n"]) and sum(beyond) == 1 + int(found["k"] or 0)
    return own.retest and beyond[0] and is_counted and is_number(found["limit"], own.band.limit)


def _sound(_: Found, words: Words) -> bool:
    compared = [own for own in words.verdict.roofs if own.band.note is None]
    return bool(compared) and not any(own.value < own.band.lowest or own.runs[0].beyond for own in compared)


def _own_past(found: Found, words: Words) -> bool:
    changes = {roof_words(own.roof): own for own in words.verdict.drifts}
    own = changes[found["roof"]]
    return own.change is not None and own.status == "drifted" and is_number(found["loss"], -own.change)


def _is(state: str) -> Check:
    return lambda _, words: words.verdict.state == state


def _nobody_of_late(_: Found, words: Words) -> bool:
    return not any(own.recent for own in words.verdict.roofs)


_BESIDE = (
    rf"(?P<loss>{PERCENT}) (?P<side>below|above) the median of (?P<half>the faster half of )?(?P<n>\d+) gpus?"
    r"(?: with (?P<levels>[^,;]+))?"
)


def _behind(found: Found, words: Words) -> bool:
    own = words.own = words.roofs[found["roof"]]
    return own.behind is not None and is_number(found["behind"], own.behind)


OF_A_VERDICT: Phrases = (
    (rf"(?:its link )?(?P<roof>ROOF) {_BESIDE}", _beside),
    (rf", beyond the limit of (?P<limit>{PERCENT}) ", _beyond_limit),
    (rf", which is within the limit of (?P<limit>{PERCENT}), but beyond it ", _within_limit),
    (r"; accused with its (node|rack), which is slow as a whole", lambda found, own: own.roof.with_group == found[1]),
    (r"in each of its newest (?P<n>\d+) runs", _in_each),
    (r"in its newest run(?P<n>)(?=[, ]|$)", _in_each),
    (r" \((?P<k>\d+) of its newest (?P<n>\d+) in all\)", _in_some),
    (
        (
            r"in (?P<k>\d+) of its newest (?P<n>\d+) runs, though not in the newest(?: (?P<inside>\d+))?, "
            r"slow before (?:that|those)(?= )"
        ),
        _in_older,
    ),
    (rf"[, ]+since (?P<time>{TIME})(?P<bound> or before)?", _since),
    (r", with the change of [^;]+", _changed),
    (
        (
            rf"(?P<roof>ROOF): the newest (?:alone|and (?P<k>\d+) more) of its newest (?P<n>\d+) runs? lies? "
            rf"beyond the limit of (?P<limit>{PERCENT}); measure it again"
        ),
        _retested,
    ),
    (r"within the limits of its peers", _sound),
    (rf"(?P<roof>ROOF) (?P<loss>{PERCENT}) below its own baseline(?: since {TIME})?", _own_past),
    (
        r"too few peers to compare: (\d+) of at least 4",
        lambda found, own: any(roof.band.n == int(found[1]) for roof in own.verdict.roofs),
    ),
    (r"no judged roof to compare", lambda _, own: not own.verdict.roofs),
    (r"nobody was measured in the last 30 days; old values stand beside one another", _nobody_of_late),
    (r"(?P<kind>accepted|false positive), [^;]+", lambda _, own: bool(own.verdict.excuses)),
    (
        r"it should be there and is not: its driver, the newest complete roster or the inventory says so",
        _is("missing"),
    ),
    (r"nothing of use was measured: see the outcome of its newest reports", _is("unmeasured")),
    (rf"nothing was measured(?: lately| since {TIME})", _is("stale")),
    (r"somebody else used the gpu during every recent measurement", _is("contended")),
    (r"; when last measured ([a-z_]+): ", lambda found, own: own.verdict.last_state == found[1]),
    (
        r"; accused with all gpus that share its setting and are slow together",
        lambda _, own: own.roof.with_group == "setting",
    ),
    (
        (
            rf"of these (?:two|3) gpus this one is (?P<behind>{PERCENT}) slower than the (?:other|fastest) in "
            r"(?P<roof>ROOF)"
        ),
        _behind,
    ),
    (r", so that nobody can say which of them is as it should be", lambda _, own: "differs" in own.verdict.flags),
    (
        rf"(?:known, being repaired|accepted|false positive)(?: until {TIME})?: [^;]+",
        lambda _, own: bool(own.verdict.excuses),
    ),
    (r"; without that ([a-z_]+): ", lambda found, own: own.verdict.last_state == found[1]),
    (r"; (?=too few peers to compare)", lambda _, own: own.verdict.state in ("insufficient_peers", "known")),
    (r"; (?=its link )", lambda _, own: any(link.standing != "clear" for link in own.verdict.links)),
)


def _pair(found: Found, words: Words) -> bool:
    own, usual = words.own_and_peers(READ[found["noun"]])
    return own < usual and is_number(found["own"], own) and is_number(found["peers"], usual)


def _counters(found: Found, words: Words) -> bool:
    newest = words.engine.member.newest
    grown = [name for name, ms in (newest.reading.throttle_ms or {}).items() if ms > 0]
    seen = {reading_words(name) for name in (*grown, *(newest.report.health.throttle_reasons or ()))}
    return seen >= set(found[1].split(" and "))


def _clock_part(words: Words) -> float:
    return words.part_below(sm_clock)


def _clock_explains(_: Found, words: Words) -> bool:
    is_like = words.part_below(per_ghz) <= words.engine.limits.gate / 2
    return is_like and _clock_part(words) >= EXPLAINED_PART * words.engine.loss


def _clock_does_not_explain(found: Found, words: Words) -> bool:
    return is_number(found["below"], words.part_below(per_ghz)) and _clock_part(words) < CLOCK_LOWER


def _clock_leaves(found: Found, words: Words) -> bool:
    left = max(0.0, words.engine.loss - _clock_part(words))
    is_right = is_number(f"{found['left']} %", left) and is_number(found["loss"], words.engine.loss)
    return is_right and is_number(found["below"], words.part_below(per_ghz)) and _clock_part(words) >= CLOCK_LOWER


def _waits(found: Found, words: Words) -> bool:
    own, usual = words.own_and_peers(READ["power draw"])
    return is_number(found[1], own / usual) and _clock_part(words) < CLOCK_LOWER


def _falls(found: Found, words: Words) -> bool:
    return is_number(found[1], -(words.engine.member.newest.reading.trend or 0.0))


def _software(found: Found, words: Words) -> bool:
    names = {"driver": "driver", "cuBLAS": "cublas", "torch": "torch", "VBIOS": "vbios"}

    def value(run: Run) -> str:
        return str(getattr(run.report.factors, names[found[1]]))

    usual = [value(run) for run in words.peers]
    return value(words.engine.member.newest) == found[2] and 2 * usual.count(found[3]) > len(usual)


def _comes_and_goes(found: Found, words: Words) -> bool:
    engine = words.engine
    beyond = [run.report.ordered_at for run in engine.member.runs if engine.limits.is_beyond(run.value)]
    is_counted = (len(beyond), len(engine.member.runs)) == (int(found[1]), int(found[2]))
    return is_counted and [at(found[3]), at(found[4])] == [beyond[-1], beyond[0]]


def _neighbours(found: Found, words: Words) -> bool:
    node = words.engine.member.newest.report.node
    others = [
        other
        for verdicts in words.evaluation.verdicts.values()
        for other in verdicts
        if other.cohort == words.engine.cohort and other.member.newest.report.node == node
    ]
    accused = [other for other in others if other.is_accused]
    return len(others) - 1 == int(found[1] or 1) and len(accused) == 1


def _explains(found: Found, words: Words) -> bool:
    reason = words.reason
    if reason is None or reason.explains is None:
        return False
    part = reason.explains * words.engine.loss
    return is_number(f"{found[1]} %", part) and is_number(found[2], words.engine.loss) and part <= words.engine.loss


def _explains_something(found: Found, words: Words) -> bool:
    is_unknown = words.reason is not None and words.reason.explains is None
    return is_unknown and is_number(found[1], words.engine.loss)


def _not_most(found: Found, words: Words) -> bool:
    return written(f"{found[1]} %").value < EXPLAINED_PART * words.engine.loss + 0.0005  # type: ignore[operator] # a number


def _only_dtype(found: Found, words: Words) -> bool:
    accused = {own.cohort.roof.dtype for own in words.evaluation.verdicts[words.verdict.gpu_id] if own.is_accused}
    return found[1] in accused and not accused & set(found[2].split(", "))


def _lanes(words: Words) -> list[str]:
    """What is known of a link that is not what its peers have less of."""
    nouns = [
        noun
        for noun in ("PCIe lanes", "PCIe generation")
        if READ[noun](words.engine.member.newest) is not None
        and sum(READ[noun](run) is not None for run in words.peers) >= FEWEST_PEERS
    ]
    assert all(words.part_below(READ[noun]) <= 0 for noun in nouns)
    return nouns


def _always(_: Found, __: Words) -> bool:
    """What a reading says as a word, which the engine's own tests hold against it."""
    return True


_SHARED = (
    r"(?P<k>\d+) of (?P<of>\d+) gpus(?:: | )(?:held back by [A-Za-z ]+|hotter than peers, with a lower clock|"
    rf"draw {PERCENT} of their peers' power at the same clock: they wait for work \(input, host, link\), not capped|"
    r"[A-Za-z ]+ [\d.]+ [A-Z]\w*, peers [\d.]+ [A-Z]\w*|ECC \w+, peers \w+|[A-Za-z]+ [\d.]+ \(most peers [\d.]+\)|"
    rf"its rate falls by {PERCENT} within the run|a memory repair waits for a reset)"
    rf"(?:, explains (?:[\d.]+ of|an unknown part of) {PERCENT})?"
)


def is_shared(found: Found, words: Words) -> bool:
    """Whether more than half of a place's gpus show what they are said to share, and the place has so many."""
    reason = words.reason
    if reason is None or reason.shared is None:
        return False
    counts = int(found["k"]), int(found["of"])
    return counts == (reason.shared.gpus, reason.shared.of) and 2 * counts[0] > counts[1]


_PER_GHZ = rf"its rate per GHz is (?P<below>{PERCENT}) below its peers'"


def _shares_a_setting(found: Found, words: Words) -> bool:
    own = words.engine
    return any(
        slow.cohort == own.cohort and own.gpu_id in slow.gpu_ids and len(slow.gpu_ids) == int(found[1])
        for slow in words.evaluation.settings
    )


OF_A_REASON: Phrases = (
    (r"(\d+) gpus share [^;]+ and are slow together", _shares_a_setting),
    (r"(?P<noun>[A-Za-z ]+) (?P<own>[\d.]+) (?:W|MHz), peers (?P<peers>[\d.]+) (?:W|MHz)", _pair),
    (r"ECC (on|off), peers (on|off)", lambda found, _: found[1] != found[2]),
    (r"held back by ([A-Za-z ]+)", _counters),
    (r"hotter than peers, with a lower clock", lambda _, own: _clock_part(own) >= CLOCK_LOWER),
    (r"its rate per GHz is that of its peers: the clock explains the loss", _clock_explains),
    (rf"{_PER_GHZ}: clocks do not explain the loss", _clock_does_not_explain),
    (rf"{_PER_GHZ}: clocks leave (?P<left>[\d.]+) of (?P<loss>{PERCENT})", _clock_leaves),
    (
        (
            rf"draws ({PERCENT}) of its peers' power at the same clock: it waits for work \(input, host, link\), "
            r"not capped"
        ),
        _waits,
    ),
    (
        r"a memory repair waits for a reset",
        lambda _, own: bool(own.engine.member.newest.report.health.remapped_rows_pending),
    ),
    (r"(?:link under load: | and )(?P<noun>PCIe \w+) (?P<own>\d+) \(peers (?P<peers>\d+)\)", _pair),
    (rf"its rate falls by ({PERCENT}) within the run", _falls),
    (r"(?:, )?(driver|cuBLAS|torch|VBIOS) (\S+) \(most peers (\S+)\)", _software),
    (
        (
            rf"comes and goes: (\d+) of its newest (\d+) runs lie beyond the limit, the first of ({TIME}), "
            rf"the last of ({TIME})"
        ),
        _comes_and_goes,
    ),
    (rf"{PERCENT} below its own baseline(?: since {TIME})?", _always),
    (rf"its whole (?:node|rack) is slow: {_SHARED}", is_shared),
    (
        r"its whole (?:node|rack) is slow, and no reading that most of its gpus share says why",
        lambda _, own: own.reason is not None and own.reason.shared is None,
    ),
    (r"the other (?:(\d+) gpus|gpu) of its node (?:is|are) not slow", _neighbours),
    (r"slow in (\S+) only, not in (.+)", _only_dtype),
    (rf"not explained by the evidence: the most that a reading explains is ([\d.]+) of {PERCENT}", _not_most),
    (r"not explained by the evidence: no reading that could explain it differs from its peers'", _always),
    (
        (
            r"not explained by the evidence: its newest report and its peers' have no clock, power or temperature "
            r"in common to tell it by"
        ),
        _always,
    ),
    (
        r"not explained by the evidence: its lanes and those of its peers are not both known",
        lambda _, own: not _lanes(own),
    ),
    (r"not explained by the evidence: its PCIe [\w ]+ (?:is|are) as its peers'", lambda _, own: bool(_lanes(own))),
    (rf", explains ([\d.]+) of ({PERCENT})", _explains),
    (rf", explains an unknown part of ({PERCENT})", _explains_something),
)

_ALERTED_ROOF = rf"(?P<loss>{PERCENT}) (?P<side>below|above) its peers in (?P<roof>ROOF)"


def _alerted(found: Found, words: Words) -> bool:
    own = words.own = words.roofs[found["roof"]]
    return is_number(found["loss"], abs(own.loss)) and found["side"] == ("below" if own.loss >= 0 else "above")


def _needs_action(found: Found, words: Words) -> bool:
    return any(own.text == found[1] and own.next_step == found[2] for own in words.verdict.health)


OF_AN_ALERT: Phrases = (
    (r"gpu \S+(?: on \S+)? needs action: ([^;]+); (.+)", _needs_action),
    (r"gpu (\S+)(?: on \S+)? is ", lambda found, own: found[1] == own.verdict.gpu_id),
    (_ALERTED_ROOF, _alerted),
    (r", with its (node|rack|setting), which is slow as a whole", lambda found, own: own.roof.with_group == found[1]),
    (r", beyond the limit ", lambda _, own: any(run.beyond for run in own.roof.runs)),
    (r"below its own baseline in (?:ROOF(?:, )?)+", lambda _, own: any(drift.counts for drift in own.verdict.drifts)),
    *OF_A_VERDICT[4:10],
    (r": ", _always),
    *OF_A_REASON,
)


OF_HEALTH: Phrases = (
    (r"a memory repair failed", lambda _, own: bool(own.health.remapped_rows_failure)),
    (r"a memory repair waits for a reset", lambda _, own: bool(own.health.remapped_rows_pending)),
    (
        r"(\d+) memory errors? since the driver was loaded that ECC could not correct",
        lambda found, own: own.health.ecc_uncorrected == int(found[1]),
    ),
    (
        r"(\d+) memory rows? remapped after errors that ECC could not correct",
        lambda found, own: own.health.remapped_rows_uncorrectable == int(found[1]),
    ),
    (
        r"link under load: PCIe lanes (\d+) \((?:peers|of) (\d+)\)",
        lambda found, own: own.health.pcie_width == int(found[1]) < int(found[2]),
    ),
    (
        r"application clock set to (\d+) MHz, peers (\d+) MHz",
        lambda found, own: own.health.application_sm_clock_mhz == int(found[1]) < int(found[2]),
    ),
    (
        r"its driver says that ([A-Za-z ]+) held it back",
        lambda found, own: set(found[1].split(" and ")) <= set(map(reading_words, own.health.throttle_reasons or ())),
    ),
    (rf"(?P<roof>ROOF) {_BESIDE}", _beside),
)


def read(sentence: str, phrases: Phrases, words: Words) -> None:
    """
    Check a sentence phrase by phrase.

    Raises:
        AssertionError: a phrase is not true, or no table knows it.
    """
    names = "|".join(re.escape(name) for name in sorted(words.roofs, key=len, reverse=True)) or "(?!)"
    left = sentence
    while left:
        for pattern, holds in phrases:
            found = re.match(pattern.replace("ROOF", f"(?:{names})"), left)
            if found is not None and found.end():
                assert holds(found, words), f"{found[0]!r} is not true: {sentence!r}"
                left = left[found.end() :]
                break
        else:
            raise AssertionError(f"no phrase of the table begins {left!r}, of {sentence!r}")

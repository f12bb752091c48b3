"""Reasons by code, what to do about each, and causes that several gpus share."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge.quantities import percent
from fleetridge_server.engine.drift import Drift
from fleetridge_server.engine.evidence import NodeName
from fleetridge_server.engine.rule import EXPLAINED_STEP, SHARED_CAUSE_PART
from fleetridge_server.engine.slow_places import PlaceVerdict, RackName
from fleetridge_server.engine.slow_settings import SlowSetting
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.verdict import PlaceWord, Verdict
from fleetridge_server.engine.wording import Fact, fact_words, number_fact

# What a roof is a rate of: products, the device's own memory, or a link.
RoofClass = Literal["compute", "memory", "link"]

ReasonCode = Literal[
    "power_limit_lower",
    "power_brake",
    "thermal",
    "remapped_rows_pending",
    "memory_clock_lower",
    "ecc_differs",
    "clock_lower",
    "power_draw_lower",
    "falling_within_run",
    "software_differs",
    "pcie_slower",
    "shared_setting",
    "whole_rack",
    "whole_node",
    "waits_for_work",
    "drifted",
    "intermittent",
    "only_one_dtype",
    "not_explained",
    "clocks_explain",
    "clocks_do_not_explain",
    "alone",
]


@dataclass(frozen=True, slots=True)
class Remedy:
    """What an operator does about a kind of reason; one that is no cause says where or when, and explains no loss."""

    is_cause: bool
    next_step: str


# In the order in which reasons are shown: settings that somebody made before wear, causes before circumstances, and
# that nothing explains a loss before what is then left to say of it.
REMEDIES: Mapping[ReasonCode, Remedy] = {
    "power_limit_lower": Remedy(
        True,
        "compare `nvidia-smi -q -d POWER` with a neighbour; restore the default limit, or mark the cap as accepted",
    ),
    "power_brake": Remedy(
        True, "check power supplies, cables and the node's power budget; return the card if it keeps braking elsewhere"
    ),
    "thermal": Remedy(
        True, "check fans, filters, heat sink and air flow; return the card if it stays hot in a cool slot"
    ),
    "remapped_rows_pending": Remedy(
        True, "drain the node and reset the gpu; return the card if repairs keep coming or fail"
    ),
    "memory_clock_lower": Remedy(
        True, "compare `nvidia-smi -q -d CLOCK` with a neighbour; reset memory clocks; return the card if they stay low"
    ),
    "ecc_differs": Remedy(True, "set ECC as on the other gpus (`nvidia-smi -e`) and reboot, or judge them apart"),
    "clock_lower": Remedy(
        True, "look for locked or application clocks (`nvidia-smi -rgc`, `-rac`); then reseat; then return the card"
    ),
    "power_draw_lower": Remedy(
        True, "look for a cap outside the driver (BMC, rack) and check power cables; then return the card"
    ),
    "falling_within_run": Remedy(
        True, "watch clocks, power and temperature over a longer run: something limits it once it is warm"
    ),
    "software_differs": Remedy(True, "bring it to the version that most peers run and measure again"),
    "pcie_slower": Remedy(
        True, "reseat card and riser, check the slot's settings; a narrow link does not slow pi or beta"
    ),
    "shared_setting": Remedy(False, "undo the setting on all gpus that share it, or mark it as accepted"),
    "whole_rack": Remedy(False, "look at the rack's cooling and power before any single gpu"),
    "whole_node": Remedy(False, "look at the node (power, cooling, firmware settings, driver) before any single gpu"),
    "waits_for_work": Remedy(
        False, "look at what feeds it: load, swap and jobs of the host, the job that ran beside it, the PCIe link"
    ),
    "drifted": Remedy(False, "look for what changed on the node at the onset"),
    "intermittent": Remedy(False, "measure it more often, with its clocks and throttle counters, until it shows again"),
    "only_one_dtype": Remedy(False, "compare libraries and kernels for this dtype with a neighbour before the card"),
    "not_explained": Remedy(
        False, "measure again at another hour, then run the vendor's diagnostics; return the card if the loss stays"
    ),
    "clocks_explain": Remedy(False, "find what holds the clock down; the units themselves work as they should"),
    "clocks_do_not_explain": Remedy(
        False, "clocks are not the cause: run the vendor's diagnostics, return the card if it fails"
    ),
    "alone": Remedy(False, "swap it with a neighbour: if the loss moves with the card, return the card"),
}

# What to do for a cause that the gpus of a node or a rack share; {place} is one of the two words.
SHARED_STEPS: Mapping[ReasonCode, str] = {
    "power_limit_lower": (
        "compare the {place}'s power limits (`nvidia-smi -q -d POWER`) with another's; restore the default, or mark "
        "the cap of the whole {place} as accepted"
    ),
    "power_brake": "check the {place}'s power supplies, cables and power budget before any single gpu",
    "thermal": "check the {place}'s fans, filters, inlet temperature and air flow before any single gpu",
    "remapped_rows_pending": "drain the {place} and reset its gpus",
    "memory_clock_lower": "compare the {place}'s memory clocks (`nvidia-smi -q -d CLOCK`) with another's, reset them",
    "ecc_differs": "set ECC on the {place} as everywhere else (`nvidia-smi -e`) and reboot, or judge it apart",
    "clock_lower": "look for locked or application clocks on the whole {place}, then at its power and cooling",
    "power_draw_lower": "look for a cap on the whole {place} outside the driver (BMC, power budget) and at its cables",
    "falling_within_run": "watch the {place}'s temperature and power over a longer run: something limits it once warm",
    "software_differs": "bring the {place} to the version that most peers run and measure again",
    "waits_for_work": "look at what feeds the {place}'s gpus: load, swap and jobs of its hosts, and their PCIe links",
}

RANK: Mapping[ReasonCode, int] = {code: rank for rank, code in enumerate(REMEDIES)}

# They say that a gpu shares its loss with its place, so that the place is looked at first.
OF_PLACE: frozenset[ReasonCode] = frozenset({"shared_setting", "whole_rack", "whole_node"})

_OWN_RATES: frozenset[RoofClass] = frozenset({"compute", "memory"})
_OWN_MEMORY: frozenset[RoofClass] = frozenset({"memory"})
_LINKS: frozenset[RoofClass] = frozenset({"link"})

# Which rates a cause can slow; in any other roof it is only worth knowing. A cause that is not here can slow all.
SLOWS: Mapping[ReasonCode, frozenset[RoofClass]] = {
    "power_limit_lower": _OWN_RATES,
    "power_brake": _OWN_RATES,
    "thermal": _OWN_RATES,
    "remapped_rows_pending": _OWN_MEMORY,
    "memory_clock_lower": _OWN_MEMORY,
    "ecc_differs": _OWN_MEMORY,
    "clock_lower": _OWN_RATES,
    "power_draw_lower": _OWN_RATES,
    "waits_for_work": _OWN_RATES,
    "pcie_slower": _LINKS,
}


@dataclass(frozen=True, slots=True)
class SharedCause:
    """
    A cause that more than half of the gpus of a slow place show.

    Attributes:
        gpus: that show it; of: gpus of the place.
        text: "8 of 8 gpus held back by SW thermal slowdown", and how much of the loss that explains.
        facts: medians over the gpus that show it, beside the peers' medians.
        next_step: for the place.
        explains: part of the loss, the median over the gpus that show it; None where nobody knows.
    """

    code: ReasonCode
    gpus: int
    of: int
    text: str
    facts: tuple[Fact, ...]
    next_step: str
    explains: float | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """
    One reason.

    Attributes:
        text: a sentence, without how much of the loss it explains; `said` has that too.
        next_step: for an operator.
        facts: readings that it rests on.
        is_information: worth knowing, but it cannot slow this roof, or not by so much.
        noun: of the first fact, where the sentence is made of that.
        place: that shares the loss, where the reason says so; shared: what its gpus have in common.
        step: what an operator does next, where it is not what the kind of reason says.
        explains: part of the loss, from 0 to 1; None where nobody knows, and for what is no cause.
        loss: of which it explains a part; None where it is about no loss.
    """

    code: ReasonCode
    text: str
    facts: tuple[Fact, ...] = ()
    is_information: bool = False
    noun: str = ""
    place: NodeName | RackName | None = None
    shared: SharedCause | None = None
    step: str | None = None
    explains: float | None = None
    loss: float | None = None

    @property
    def said(self) -> str:
        """The sentence, with how much of the loss it explains."""
        return f"{self.text}{explained_words(self.explains, self.loss)}"

    @property
    def strength(self) -> int:
        """By which causes are ranked: how much of the loss one explains, in steps; 0 where nobody knows."""
        return round((self.explains or 0.0) / EXPLAINED_STEP) if self.is_cause else 0

    @property
    def is_cause(self) -> bool:
        """Whether it explains the loss by itself."""
        return REMEDIES[self.code].is_cause and not self.is_information

    @property
    def next_step(self) -> str:
        """What an operator does next."""
        return REMEDIES[self.code].next_step if self.step is None else self.step


@dataclass(frozen=True, slots=True)
class SharedLoss:
    """A node or rack that is slow as a whole in one roof, and what its gpus have in common, if anything."""

    slow: PlaceVerdict
    cause: SharedCause | None = None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """
    What is known beside the readings of one verdict.

    Attributes:
        setting: that the gpu shares with others, where they are slow together in this roof.
        slow_node, slow_rack: where all gpus of the node, or the rack, are slow in this roof.
        other_dtypes: verdicts of the gpu in other dtypes of the same kind.
        neighbours: verdicts of the node's other gpus in this roof.
        drift: of the gpu in this roof.
    """

    setting: SlowSetting | None = None
    slow_node: SharedLoss | None = None
    slow_rack: SharedLoss | None = None
    other_dtypes: Sequence[Verdict] = ()
    neighbours: Sequence[Verdict] = ()
    drift: Drift | None = None


def explained_words(explains: float | None, loss: float | None) -> str:
    """How much of a loss a cause explains: ", explains 4.0 of 17.0 %"; nothing where it is about no loss."""
    if loss is None:
        return ""
    if explains is None:
        return f", explains an unknown part of {percent(loss)}"
    return f", explains {percent(explains * loss).removesuffix(' %')} of {percent(loss)}"


# Causes whose words go on behind "8 of 8 gpus".
_PARTICIPLES: frozenset[ReasonCode] = frozenset({"thermal", "power_brake", "waits_for_work"})


def may_be_shared(reason: Reason) -> bool:
    """Whether a reason can be what a place has in common: it explains something of a loss, or what its gpus do."""
    explains_something = reason.is_cause or bool(reason.explains and REMEDIES[reason.code].is_cause)
    return explains_something or (reason.code == "waits_for_work" and not reason.is_information)


def shared_cause(place: PlaceWord, gpus: Sequence[Sequence[Reason]]) -> SharedCause | None:
    """
    The first cause, in the order in which causes are shown, that more than half of the gpus show; None where none is.

    Args:
        place: what they are all of.
        gpus: causes that each shows (`may_be_shared`), worst gpu first.
    """
    counts = Counter(code for own in gpus for code in {shown.code for shown in own})
    common = [code for code, count in counts.items() if count > SHARED_CAUSE_PART * len(gpus)]
    if not common:
        return None
    by_code = {code: [own for causes in gpus for own in causes if own.code == code] for code in common}
    code = min(common, key=lambda code: _order_among_shared(by_code[code]))
    shown = by_code[code]
    facts = _merged(shown)
    words = _words(shown, facts)
    link = " " if code in _PARTICIPLES else ": "
    step = SHARED_STEPS.get(code, REMEDIES["whole_node"].next_step)
    explains = _median_of(own.explains for own in shown)
    part = explained_words(explains, _median_of(own.loss for own in shown))
    return SharedCause(
        code,
        len(shown),
        len(gpus),
        f"{len(shown)} of {len(gpus)} gpus{link}{words}{part}",
        facts,
        step.format(place=place),
        explains,
    )


def _order_among_shared(shown: Sequence[Reason]) -> tuple[bool, float, int]:
    causes = [own for own in shown if own.is_cause]
    is_partial = 2 * len(causes) <= len(shown)
    return is_partial, -median(own.strength for own in shown), RANK[shown[0].code]


def _median_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def facts_words(facts: Sequence[Fact]) -> str:
    """Readings in parentheses, with a blank before them; nothing where there are none."""
    return f" ({'; '.join(fact_words(fact.reading, fact.own, fact.peers) for fact in facts)})" if facts else ""


def _merged(shown: Sequence[Reason]) -> tuple[Fact, ...]:
    """Each reading once: the median of the gpus' numbers, the most common of their words."""
    by_reading: dict[str, list[Fact]] = defaultdict(list)
    for own in shown:
        for fact in own.facts:
            by_reading[fact.reading].append(fact)
    return tuple(_middle(reading, facts) for reading, facts in by_reading.items())


def _middle(reading: str, facts: Sequence[Fact]) -> Fact:
    own = [fact.own_value for fact in facts if fact.own_value is not None]
    peers = [fact.peers_value for fact in facts if fact.peers_value is not None]
    if own and peers:
        return number_fact(reading, median(own), median(peers), facts[0].unit)
    return Counter(facts).most_common(1)[0][0]


def _words(shown: Sequence[Reason], facts: Sequence[Fact]) -> str:
    first = shown[0]
    if first.code == "waits_for_work":
        return waiting_words(facts, "draw", "their", "they wait")
    if first.noun:
        return f"{first.noun} {facts[0].own}, peers {facts[0].peers}"
    return Counter(own.text for own in shown).most_common(1)[0][0]


def waiting_words(facts: Sequence[Fact], draws: str, whose: str, waits: str) -> str:
    """That gpus draw less power though nothing holds their clocks down; the first fact is the power, in numbers."""
    own, usual = facts[0].own_value or 0.0, facts[0].peers_value or 0.0
    part = percent(own / usual if usual else None)
    return f"{draws} {part} of {whose} peers' power at the same clock: {waits} for work (input, host, link), not capped"

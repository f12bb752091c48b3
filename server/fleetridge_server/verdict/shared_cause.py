"""What the gpus of a slow node or rack have in common: the cause that most of them show, with their readings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.facts import Fact, fact_words, number_fact
from fleetridge_server.verdict.reason import PlaceWord, Reason, SharedCause
from fleetridge_server.verdict.remedies import RANK, REMEDIES, SHARED_STEPS, ReasonCode

# A cause that half of the gpus do not show is not what the place shares.
_MOST = 0.5

# Causes whose words go on behind "8 of 8 gpus".
_PARTICIPLES: frozenset[ReasonCode] = frozenset({"thermal", "power_brake"})


def shared_cause(place: PlaceWord, gpus: Sequence[Sequence[Reason]]) -> SharedCause | None:
    """
    The first cause, in the order in which causes are told, that more than half of the gpus show; None where none is.

    Args:
        place: what they are all of.
        gpus: causes that each shows, worst gpu first.
    """
    counts = Counter(code for own in gpus for code in {shown.code for shown in own})
    common = [code for code, count in counts.items() if count > _MOST * len(gpus)]
    if not common:
        return None
    code = min(common, key=RANK.__getitem__)
    shown = [own for causes in gpus for own in causes if own.code == code]
    facts = _merged(shown)
    words = _words(shown, facts)
    link = " " if code in _PARTICIPLES else ": "
    step = SHARED_STEPS.get(code, REMEDIES["whole_node"].next_step)
    return SharedCause(
        code, len(shown), len(gpus), f"{len(shown)} of {len(gpus)} gpus{link}{words}", facts, step.format(place=place)
    )


def facts_words(facts: Sequence[Fact]) -> str:
    """Readings in parentheses, with a blank before them; nothing where there are none."""
    return f" ({'; '.join(fact_words(*fact[:3]) for fact in facts)})" if facts else ""


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
    if first.noun:
        return f"{first.noun} {facts[0].own}, peers {facts[0].peers}"
    return Counter(own.text for own in shown).most_common(1)[0][0]

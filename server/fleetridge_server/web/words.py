"""Words and signs that pages share."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from fleetridge.quantities import MISSING, age, signed_percent
from fleetridge.terminal_text import visible
from fleetridge_server.engine.gpu_state import STATES, State
from fleetridge_server.engine.rule import FEWEST_PEERS
from fleetridge_server.engine.wording import reading_words

# One shape for each state, so that none is known by its colour alone.
SIGNS: Mapping[State, str] = {
    "known": "◇",
    "missing": "○",
    "unmeasured": "∅",
    "stale": "◷",
    "contended": "≈",
    "implausible": "!",
    "outlier": "▼",
    "drifted": "↘",
    "suspect": "▽",
    "insufficient_peers": "·",
    "ok": "✓",
}

MEANINGS: Mapping[State, str] = {
    "known": "slow, and somebody said so: being repaired, accepted, or marked as a false positive",
    "missing": "it should be there and is not: the newest complete roster or the inventory lists it",
    "unmeasured": "nothing of use was measured, so that nothing can be said of its rates",
    "stale": "nothing was measured lately; what was said before is kept",
    "contended": "somebody else used the gpu during every recent measurement",
    "implausible": "it reports more than its silicon can do: it was measured wrongly",
    "outlier": "slower than its peers beyond the limit, in repeated measurements",
    "drifted": "slower than it was itself, with the same software and settings",
    "suspect": "slower than its peers, not yet confirmed by another measurement",
    "insufficient_peers": "too few gpus of its kind to compare it with",
    "ok": "within the limits of its peers",
}


@dataclass(frozen=True, slots=True)
class StateShown:
    """A state with its words; `said` is what was said before, where it is about missing measurements."""

    state: State
    said: State | None = None

    @property
    def word(self) -> str:
        """What it is called."""
        return state_word(self.state)

    @property
    def sign(self) -> str:
        """Its shape."""
        return SIGNS[self.state]

    @property
    def meaning(self) -> str:
        """What it means."""
        return MEANINGS[self.state]


@dataclass(frozen=True, slots=True)
class Tile:
    """How many gpus are in a state; `href` lists them, and `current` says that they are listed now."""

    shown: StateShown
    gpus: int
    href: str | None
    current: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A time and how long ago it was; empty words where there is none."""

    at: datetime | None
    as_of: datetime

    @property
    def machine(self) -> str:
        """For programs."""
        return "" if self.at is None else self.at.isoformat()

    @property
    def written(self) -> str:
        """To the minute, in UTC."""
        return MISSING if self.at is None else f"{self.at:%Y-%m-%d %H:%M} UTC"

    @property
    def ago(self) -> str:
        """How long before."""
        return "" if self.at is None else age(self.as_of - self.at)


def state_word(state: str) -> str:
    """A state, or another word of the API with underscores, as people write it."""
    return "few peers" if state == "insufficient_peers" else state.replace("_", " ")


def factor_words(by: str) -> str:
    """What gpus are compared by, as people write it."""
    return f"label {by.removeprefix('label:')}" if by.startswith("label:") else state_word(reading_words(by))


def tiles(
    counts: Mapping[State, int], href_of: Callable[[State], str | None], current: str | None = None
) -> tuple[Tile, ...]:
    """A tile for each state that occurs, in the order of the states; `current` is the one that is listed now."""
    found = [state for state in STATES if counts.get(state)]
    return tuple(Tile(StateShown(state), counts[state], href_of(state), state == current) for state in found)


def loss_words(loss: float | None) -> str:
    """A loss as a deviation: 0.12 gives "−12.0 %"."""
    return MISSING if loss is None else signed_percent(-loss)


def few_peers_words(peers: int) -> str:
    """What so few gpus of a kind can be compared with; empty where they are enough, or none was measured."""
    if peers == 1:
        return (
            "There is only one gpu of this kind here, and nothing to compare it with but what its maker publishes. "
            f"From {FEWEST_PEERS} gpus on they are compared with each other."
        )
    if 0 < peers < FEWEST_PEERS:
        return f"Only {peers} gpus of this kind reported; from {FEWEST_PEERS} on they are compared with each other."
    return ""


def gpu_label(node: str | None, index: int | None, gpu_id: str) -> str:
    """Short name of a gpu: its place where that is known, else its id."""
    if node is None or index is None:
        return visible(gpu_id)
    return f"{visible(node)} gpu {index}"


def capital(sentence: str) -> str:
    """A sentence with a capital first letter, unless it begins with the name of a field such as `query.limit`."""
    first = sentence.partition(" ")[0]
    return sentence if "." in first or "_" in first else sentence[:1].upper() + sentence[1:]


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of a form."""

    value: str
    word: str
    chosen: bool


Filters = Mapping[str, tuple[Choice, ...]]
"""What forms of filters offer, by the name of the parameter."""


def choices(
    values: Iterable[str], chosen: str | None, *, any_word: str | None = "any", word: Callable[[str], str] = visible
) -> tuple[Choice, ...]:
    """Options of a form; `any_word` is the one that does not filter. What is chosen is always there."""
    known = list(values)
    if chosen is not None and chosen not in known:
        known.append(chosen)
    first = [] if any_word is None else [Choice("", any_word, chosen is None)]
    return (*first, *(Choice(value, word(value), value == chosen) for value in known))

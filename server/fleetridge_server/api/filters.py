"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from fleetridge_server.verdict.state import STATES

_STATES: frozenset[str] = frozenset(STATES)
_ONE = f"({'|'.join(STATES)})"
_LONGEST = 200


def states_of(words: str | None) -> frozenset[str] | None:
    """States of a filter, None where all are wanted."""
    return None if words is None else frozenset(words.split(","))


def _known(words: str | None) -> str | None:
    """
    Words of a filter, checked.

    Raises:
        ValueError: one is no state.
    """
    if words is not None and not _STATES.issuperset(words.split(",")):
        raise ValueError(f"not states with commas between them; choose from {', '.join(STATES)}")
    return words


VerdictFilter = Annotated[
    str | None,
    AfterValidator(_known),
    Field(
        max_length=_LONGEST,
        description="Only gpus in one of these states (`outlier,suspect`), now or when they were last measured.",
        json_schema_extra={"pattern": f"^{_ONE}(,{_ONE})*$"},  # described only: our own words say what is wrong
    ),
]
"""States with commas between them."""

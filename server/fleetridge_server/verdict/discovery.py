"""
How many of many small probabilities to believe: the procedure of Benjamini and Hochberg (1995).

Among a thousand healthy gpus one has p = 0.1 % by chance. q is the share of false ones to expect among all pairs that
are accused with the same q or a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence

# Of twenty gpus called outliers at most one is to be healthy.
FALSE_DISCOVERIES = 0.05


def q_values(probabilities: Sequence[float]) -> list[float]:
    """
    Adjusted probabilities, in the order of the given ones.

    q of the k-th smallest of N is the smallest p(j)·N/j over j ≥ k.
    """
    count = len(probabilities)
    adjusted = [1.0] * count
    smallest = 1.0
    rank = count
    for position in sorted(range(count), key=probabilities.__getitem__, reverse=True):
        smallest = min(smallest, probabilities[position] * count / rank)
        adjusted[position] = smallest
        rank -= 1
    return adjusted


def largest_believed(probabilities: Sequence[float], rate: float = FALSE_DISCOVERIES) -> float:
    """
    Largest p that is believed among these: one has q at most `rate` exactly where it does not exceed this.

    At least rate/N, which is small enough for any one of N whatever the others are; 0 of none.
    """
    count = len(probabilities)
    believed = rate / count if count else 0.0
    for rank, probability in enumerate(sorted(probabilities), start=1):
        if probability <= rate * rank / count:
            believed = max(believed, probability)
    return believed

"""What was done for the data, in words."""

from __future__ import annotations

from fleetridge_server.keeping.retention import Dropped


def told_dropped(dropped: Dropped) -> str:
    """A round of retention in one line."""
    if dropped.before is None:
        return "nothing is stored yet, so that nothing is old"
    parts = [
        _documents(dropped),
        f"{dropped.notifications} messages to the webhook",
        f"{dropped.evaluations} evaluations that were not the last of their day",
    ]
    ended = "" if dropped.is_whole else "; stopped early, the next round goes on"
    return f"dropped {', '.join(parts)}{ended}"


def _documents(dropped: Dropped) -> str:
    until = f"{dropped.before:%Y-%m-%d %H:%M} UTC"
    if dropped.documents is not None:
        return f"{dropped.documents} documents that arrived before {until}"
    if dropped.months:
        return f"the documents of {', '.join(map(str, dropped.months))}"
    return f"no documents, since no month of them was over by {until}"

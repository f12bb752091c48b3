"""
How long to wait before the next try.

Full jitter (a random share of an interval that doubles) keeps a fleet that failed together from coming back together.
"""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

# Tries of one call within one run. What then is still undelivered waits in the spool for the next run, so that a
# server that is down costs a node about half a minute.
MAX_TRIES = 4

# The first pause is up to this long; it doubles with each try up to the cap.
BASE_S = 1.0
CAP_S = 30.0

# A server that asks for more patience than this gets it by way of the spool: the run ends, the next one tries.
RETRY_AFTER_MAX_S = 60.0


def jittered_s(tries: int, *, share: float) -> float:
    """
    Pause after `tries` failed tries, in seconds.

    Args:
        tries: failed so far, at least 1.
        share: random number between 0 and 1.
    """
    return share * min(CAP_S, BASE_S * 2.0 ** (tries - 1))


def retry_after_s(header: str | None, *, date: str | None, now: datetime) -> float | None:
    """
    Pause in seconds that a Retry-After header asks for (RFC 9110, 10.2.3: seconds or an HTTP date).

    A date is counted from the server's own Date header where there is one, as the node's clock may be wrong.

    Returns:
        The pause, at least 0; None without a header that can be read.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _http_date(text)
    if until is None:
        return None
    sent = _http_date(date) or now
    return max(0.0, (until - sent).total_seconds())


def _http_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)

"""Types of arguments: each takes a word as it is given, and says what is wrong with one that is none."""

import argparse
import re
from datetime import datetime, timedelta, timezone

from fleetridge.strict_json import printable_problem
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.simulate.faults import FaultError, Order, order_of
from fleetridge_server.simulate.plan import PRODUCTS, Product, product_named

# Ids are 64-bit rows on both databases.
_LARGEST_ID = 2**63 - 1

_LONGEST_NAME = 100

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([hd])")

# A full scale of noise between honest runs; beyond it no fault shows.
_MOST_NOISE = 0.1


def moment(text: str) -> datetime:
    """A time in ISO 8601, in UTC where no zone is given."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as in 2026-11-20T02:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def past_moment(text: str) -> datetime:
    """A time up to which an evaluation can look."""
    from fleetridge_server.http.parameters import EARLIEST

    as_of = moment(text)
    # Whatever is reported until a time that is yet to come, an evaluation of now does not know.
    if as_of > datetime.now(timezone.utc):
        raise argparse.ArgumentTypeError(f"{text!r} is later than now; leave --as-of out to judge as of now")
    if as_of < EARLIEST:
        raise argparse.ArgumentTypeError(f"give a time from {EARLIEST:%Y} on; no report is older than {text!r}")
    return as_of


def cluster(name: str) -> str:
    """Name of a cluster, as reports may have it."""
    from pydantic import ValidationError

    from fleetridge.report.origin import Node
    from fleetridge_server.problems import problem_of

    try:
        return Node(cluster=name).cluster
    except ValidationError as error:
        raise argparse.ArgumentTypeError(problem_of(error.errors()[0])) from error


def token_id(text: str) -> int:
    """Row of a token."""
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= _LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a token; `fleetridge-server token list` shows them")
    return int(text)


def short_name(text: str) -> str:
    """A name that people read in a list."""
    problem = printable_problem(text)
    if problem is not None or not text.strip() or len(text) > _LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"a name has 1 to {_LONGEST_NAME} printable characters")
    return text


def duration(text: str) -> timedelta:
    """A time that something holds for."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write hours or days, such as 12h or 90d")
    return int(found[1]) * _UNITS[found[2]]


def whole_number(word: str, *, most: int) -> int:
    """A whole number from 1 on."""
    if not word.isdecimal() or not 1 <= int(word) <= most:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number from 1 to {most}")
    return int(word)


def product(name: str) -> Product:
    """A device that can be made up."""
    silicon = product_named(name)
    if silicon is None:
        raise argparse.ArgumentTypeError(f"{name!r} is not known well enough to make one up; {', '.join(PRODUCTS)} are")
    return silicon


def fault(text: str) -> Order:
    """A fault of a made-up fleet, on how many gpus, and what it costs."""
    try:
        return order_of(text)
    except FaultError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def noise(word: str) -> float:
    """Noise as a part of a rate."""
    try:
        noise = float(word)
    except ValueError:
        noise = -1.0
    if not 0 <= noise <= _MOST_NOISE:
        raise argparse.ArgumentTypeError(f"{word!r} is no part from 0 to {_MOST_NOISE}, such as 0.005")
    return noise


def end_of_history(word: str) -> datetime:
    """A time, in any form that reports may have it in."""
    from pydantic import TypeAdapter, ValidationError

    from fleetridge.report.field_types import UtcTime

    try:
        return TypeAdapter(UtcTime).validate_python(word)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is no time; write it as 2026-01-31T00:00:00Z") from error


def simulated_cluster(name: str) -> str:
    """The one cluster of made-up gpus."""
    if name != SIMULATED:
        raise argparse.ArgumentTypeError(
            f"made-up gpus live in the cluster `{SIMULATED}` alone, so that they never mix with real ones; leave it out"
        )
    return name

"""Whether this node's reports can reach the server, and be taken there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from fleetridge.quantities import age
from fleetridge.terminal_text import shortened, visible
from fleetridge_agent.deliver.client import Server
from fleetridge_agent.doctor.finding import Finding, not_checked, ok, problem, warning
from fleetridge_agent.doctor.server_look import FailureKind, ServerFacts, Unreachable
from fleetridge_agent.doctor.surroundings import Surroundings
from fleetridge_agent.errors import UsageError

_OK = 200
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _UNPROCESSABLE = 401, 403, 404, 422
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = range(500, 600)

# Clocks that are kept by NTP agree within a fraction of a second; from a minute on reports lie about their time.
_CLOCK_GAP = timedelta(minutes=1)

_LONGEST_ADDRESS = 200

_REMEDY_OF_FAILURE: Mapping[FailureKind, str] = {
    "name": "check the name in --server, and the name service of this node",
    "tls": "where the server's certificate is from an authority of your own, name its file with --ca-file; else renew "
    "the certificate, and check the clock",
    "proxy": "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or take the server out with NO_PROXY",
    "timeout": "check routes and firewalls between this node and the server",
    "connection": "check --server, and whether the server runs and a firewall lets this node in",
}


def server(around: Surroundings) -> Iterator[Finding]:
    """Whether the server is there and takes reports from here."""
    named, fault, facts = around.settings.server, around.settings.server_fault, None
    if named is not None:
        try:
            facts = around.server(named)
        except UsageError as error:
            fault = str(error)
    if named is None and fault is None:
        yield problem("server", "none is named", "give --server or set FLEETRIDGE_SERVER; `sweep` needs none")
    if named is None or facts is None:
        yield from _faulty(fault)
        return
    if facts.unreachable is not None:
        yield _unreachable(around, named, facts.unreachable)
        return
    yield from _there(named, facts)
    yield from _clock(facts)


def _faulty(sentence: str | None) -> Iterator[Finding]:
    """What is wrong with the settings of the server, if anything."""
    if sentence is not None:
        seen, _, remedy = sentence.partition("; ")
        yield problem("server", seen, remedy or "correct it")


def _unreachable(around: Surroundings, named: Server, trouble: Unreachable) -> Finding:
    proxies = ", ".join(f"{proxy.name}={proxy.value}" for proxy in around.settings.foreign)
    by_way = f"; in force: {proxies}" if proxies and not named.is_loopback else ""
    seen = f"{named.url} cannot be reached: {trouble.cause}{by_way}"
    return problem("server", seen, _REMEDY_OF_FAILURE[trouble.kind])


def _there(named: Server, facts: ServerFacts) -> Iterator[Finding]:
    if facts.ready in _REDIRECTS:
        target = shortened(visible(facts.location or "an address that it does not name"), _LONGEST_ADDRESS)
        yield problem("server", f"it sends us on to {target}, which is not followed", "give the final address")
    elif facts.ready in _SERVER_ERRORS:
        yield problem("server", f"{named.url} is not ready (status {facts.ready})", "see the server's log")
    elif facts.ready != _OK:
        yield problem(
            "server", f"what answers at {named.url} is no fleetridge server (status {facts.ready})", "check --server"
        )
    else:
        yield ok("server", f"{named.url} is ready")
        yield from _accepted(named, facts)


def _accepted(named: Server, facts: ServerFacts) -> Iterator[Finding]:
    """Whether it takes reports: an empty list is refused for being empty, once its sender is accepted."""
    who = "with the token" if named.token else "without a token"
    if facts.ingest == _UNPROCESSABLE:
        yield ok("reports", f"the server takes them {who}")
    elif facts.ingest == _UNAUTHORIZED:
        remedy = "make one with `fleetridge-server token` and name its file with --token-file"
        seen = "it refuses the token: wrong, expired or revoked" if named.token else "it wants a token"
        yield problem("reports", seen, remedy)
    elif facts.ingest == _FORBIDDEN:
        yield problem(
            "reports",
            "the token may not report for this cluster and node",
            "check --cluster and --node, and that the token has the scope `ingest`",
        )
    else:
        yield problem("reports", f"posting ends with status {facts.ingest}", "see the server's log, or a proxy's")
    yield from _readable(facts)


def _readable(facts: ServerFacts) -> Iterator[Finding]:
    if facts.read == _OK:
        yield ok("band", "`check` may ask for it")
    elif facts.ingest == _UNPROCESSABLE:
        yield warning(
            "band",
            f"`check` may not ask for the fleet's band (status {facts.read})",
            "give the token the scope `read` beside `ingest`, or use `check --baseline`",
        )


def _clock(facts: ServerFacts) -> Iterator[Finding]:
    if facts.date is None or facts.asked_at is None or facts.answered_at is None:
        yield not_checked("clock", "the server's answer has no date")
        return
    ahead = facts.asked_at + (facts.answered_at - facts.asked_at) / 2 - facts.date
    if abs(ahead) <= _CLOCK_GAP:
        yield ok("clock", "agrees with the server's within a minute")
    else:
        way = "ahead of" if ahead > timedelta() else "behind"
        yield warning(
            "clock",
            f"{age(abs(ahead))} {way} the server's",
            "set it (`chronyc tracking`, `timedatectl`): reports carry wrong times, and certificates may not hold",
        )

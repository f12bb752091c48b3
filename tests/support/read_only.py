"""Fleets that many tests look at: posted and evaluated once, and never changed by any of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.app_client import AppClient, app_client
from support.evaluated import evaluate, expect
from support.fleet import post

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import httpx

    from fleetridge_server.fleet.expected import ExpectedGpu
    from support.databases import Databases

_READS = {"GET", "HEAD", "OPTIONS"}


class ReadingClient(AppClient):
    """Sends requests that change nothing, so that no test meets what another has done."""

    def request(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        """Answer to a request that changes nothing."""
        assert method.upper() in _READS, f"{method} {url}: a test that writes needs the fixture `client`"
        return super().request(method, url, **arguments)


@contextmanager
def fleet_to_read(
    databases: Databases,
    *calls: Iterable[dict[str, Any]],
    expected: Sequence[ExpectedGpu] = (),
    is_evaluated: bool = True,
) -> Iterator[ReadingClient]:
    """
    A server during the block with what was posted, call by call.

    Args:
        databases: of the kind that it is on.
        calls: reports of each.
        expected: gpus of the inventory.
        is_evaluated: whether all devices are evaluated, once all has arrived.
    """
    url = databases.create(migrated=True)
    with app_client(url) as client:
        for reports in calls:
            post(client, reports)
        if expected:
            expect(url, *expected)
        if is_evaluated and calls:
            evaluate(url)
            evaluate(url, simulated=True)
        yield ReadingClient(client.portal, client.client, url)
    databases.drop(url)

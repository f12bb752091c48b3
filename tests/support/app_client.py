"""The web application as its callers meet it, without a network: start-up, routes and errors are the real ones."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from fleetridge_server.app import create_app
from fleetridge_server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


class AppClient:
    """
    Sends requests to one application; any number of threads may share it.

    Attributes:
        portal: into the loop that the application runs in.
        client: to use there.
        database_url: of the database that it answers from.
    """

    def __init__(self, portal: BlockingPortal, client: httpx.AsyncClient, database_url: str) -> None:
        self.portal = portal
        self.client = client
        self.database_url = database_url

    def request(self, method: str, url: str, **arguments: Any) -> httpx.Response:
        """Answer to any request; arguments as those of `httpx.request`."""
        return self.portal.call(partial(self.client.request, method, url, **arguments))

    def get(self, url: str, **arguments: Any) -> httpx.Response:
        """Answer to a GET."""
        return self.request("GET", url, **arguments)

    def post(self, url: str, **arguments: Any) -> httpx.Response:
        """Answer to a POST."""
        return self.request("POST", url, **arguments)


@contextmanager
def app_client(database_url: str, **settings: Any) -> Iterator[AppClient]:
    """
    Start the application on a database, and stop it after the block; an error of its own is an answer 500.

    It evaluates nothing by itself, since that would hang on the clock; a test that wants it says when. It trusts the
    network, since its callers have no host, and has no processes of its own, so that a test can reach what takes
    reports in and evaluates; `settings` are others.
    """
    usual = {
        "database_url": database_url,
        "evaluate": False,
        "evaluation_process": False,
        "trust_network": True,
        "intake_processes": 0,
    }
    app = create_app(Settings(**{**usual, **settings}))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        client = httpx.AsyncClient(transport=transport, base_url="http://server")
        with portal.wrap_async_context_manager(client):
            yield AppClient(portal, client, database_url)

"""How long tests wait for what must come, and calls over HTTP that wait so long."""

from __future__ import annotations

from typing import Any

import httpx

# Of anything that a test waits for: an answer, a thread, a process that starts or ends. Each takes a second at most on
# a machine that has nothing else to do; one that has twenty things to do besides is no fault of the code.
PATIENCE_S = 120


def patient_client(address: str = "", **arguments: Any) -> httpx.Client:
    """A client of a server of this machine, which no proxy of the user's stands before."""
    return httpx.Client(base_url=address, timeout=PATIENCE_S, trust_env=False, **arguments)


def patient_get(url: str, **arguments: Any) -> httpx.Response:
    """Answer to a GET; arguments as those of `httpx.get`."""
    with patient_client() as client:
        return client.get(url, **arguments)


def patient_post(url: str, **arguments: Any) -> httpx.Response:
    """Answer to a POST; arguments as those of `httpx.post`."""
    with patient_client() as client:
        return client.post(url, **arguments)

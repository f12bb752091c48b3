"""Asking the server for a device's ridge."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from fleetridge_agent.check.fleet_client import NoAnswerError, UnknownDeviceError, ridge_answer
from fleetridge_agent.deliver.server_address import Server
from support import ridges

SERVER = Server("https://f.example/base", "made-up")


def asked(reply: Callable[[httpx.Request], httpx.Response], device: str = "NVIDIA H200") -> object:
    return ridge_answer(SERVER, device, transport=httpx.MockTransport(reply))


def test_the_device_is_asked_for_by_its_exact_name() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=ridges.ridge_answer())

    answer = asked(reply, "NVIDIA RTX 3060/PCIe ÿ?#")
    (request,) = seen

    assert request.url.raw_path == b"/base/devices/NVIDIA%20RTX%203060%2FPCIe%20%C3%BF%3F%23/ridge?limit=1"
    assert request.headers["authorization"] == "Bearer made-up"
    assert answer == ridges.ridge_answer()


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "--token-file"), (403, "scope `read`"), (404, "no fleetridge server"), (302, "302"), (503, "503")],
)
def test_a_refusal_names_its_remedy(status: int, words: str) -> None:
    with pytest.raises(NoAnswerError, match=words):
        asked(lambda _: httpx.Response(status, text="<html>"))


def test_redirects_are_not_followed() -> None:
    calls: list[str] = []

    def reply(request: httpx.Request) -> httpx.Response:
        calls.append(request.url.host)
        return httpx.Response(302, headers={"Location": "https://evil.example/"})

    with pytest.raises(NoAnswerError):
        asked(reply)
    assert calls == ["f.example"]


def test_a_device_that_nobody_reported_is_told_apart_from_a_wrong_address() -> None:
    with pytest.raises(UnknownDeviceError, match="NVIDIA H200"):
        asked(lambda _: httpx.Response(404, json={"code": "unknown_device"}))


@pytest.mark.parametrize("body", [b"", b"<html>portal</html>", b"[]", b'{"cohorts": 3}', b'{"cohorts": [], "g'])
def test_what_is_no_answer_of_ours_is_none(body: bytes) -> None:
    with pytest.raises(NoAnswerError, match="not a fleetridge server"):
        asked(lambda _: httpx.Response(200, content=body))


def test_a_server_that_is_not_there_is_said() -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection \x1b[31mrefused", request=request)

    with pytest.raises(NoAnswerError, match=r"cannot be reached \(connection \\x1b\[31mrefused\)"):
        asked(reply)


def test_an_endless_answer_is_cut_off() -> None:
    class Endless(httpx.SyncByteStream):
        def __iter__(self) -> object:  # type: ignore[override] # never ends, as a test wants it
            while True:
                yield b" " * 2**20

    with pytest.raises(NoAnswerError, match="cut off"):
        asked(lambda _: httpx.Response(200, stream=Endless()))

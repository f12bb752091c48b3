"""A fleet that was posted, evaluated by the server's own command and is asked about: all by the public contract."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from typing import Any
from urllib.parse import quote

from fleetridge_server import cli
from support.app_client import AppClient
from support.html_pages import Page, parsed
from support.said import Json
from support.small_fleets import SmallFleet
from support.tokens import bearer

_NUMBERS = count(1)
_MOST_ENTRIES = 1000


def server_command(database_url: str, *arguments: str) -> tuple[str, str]:
    """Standard output and standard error of `fleetridge-server`, which must do what it was asked."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main([*arguments, "--database-url", database_url])
    assert code == 0, err.getvalue()
    return out.getvalue().strip(), err.getvalue().strip()


@dataclass(frozen=True)
class FleetServer:
    """A server that takes calls with a token only, as only reports of a token can be quarantined."""

    client: AppClient
    database_url: str
    token: str

    @classmethod
    def of(cls, client: AppClient, database_url: str) -> FleetServer:
        """The server with its first token."""
        token, _ = server_command(database_url, "token", "create", "everybody", "--scope", "admin")
        return cls(client, database_url, token)

    def request(self, method: str, url: str, *, token: str | None = None, **arguments: Any) -> Any:
        """An answer to a caller with a token."""
        headers = arguments.pop("headers", {}) | bearer(token or self.token)
        return self.client.request(method, url, headers=headers, **arguments)

    def post(self, reports: Iterable[dict[str, Any]], *, token: str | None = None) -> None:
        """Post some reports; all must be taken."""
        own = list(reports)
        if not own:
            return
        answer = self.request("POST", "/reports", json={"reports": own}, token=token)
        assert answer.status_code == 200, answer.text
        outcomes = {result["outcome"] for result in answer.json()["results"]}
        assert outcomes == {"created"}, answer.text

    def with_fleet(self, fleet: SmallFleet, now: datetime) -> AskedFleet:
        """A fleet under a device of its own, posted and evaluated."""
        number = next(_NUMBERS)
        own = fleet.called(f"f{number}")
        asked = AskedFleet(self, f"Small {number}", own)
        self.post(own.reports(asked.raw_name, now))
        distrusted = own.distrusted_reports(asked.raw_name, now)
        if distrusted:
            token, told = server_command(self.database_url, "token", "create", f"other {number}", "--scope", "ingest")
            self.post(distrusted, token=token)
            server_command(self.database_url, "token", "quarantine", told.split()[1])
        for gpu_id in own.retired:
            mark = {"kind": "retired", "reason": "gone", "author": "somebody", "gpu_id": gpu_id}
            answer = self.request("POST", "/marks", json=mark)
            assert answer.status_code == 201, answer.text
        asked.evaluate()
        return asked


@dataclass(frozen=True)
class AskedFleet:
    """One device of a server, and its gpus."""

    server: FleetServer
    device: str
    fleet: SmallFleet

    @property
    def raw_name(self) -> str:
        """Its name as a driver reports it."""
        return f"NVIDIA {self.device}"

    @property
    def slug(self) -> str:
        """Its name as it is easy to type."""
        return self.device.lower().replace(" ", "-")

    def evaluate(self) -> None:
        """Judge the device as of now."""
        server_command(self.server.database_url, "evaluate", "--device", self.slug)

    def read(self, url: str, **params: Any) -> Any:
        """JSON of an answer."""
        return self._answer(url, "application/json", params).json()

    def text(self, url: str, **params: Any) -> str:
        """An answer as text."""
        return str(self._answer(url, "text/plain", params).text)

    def page(self, url: str, **params: Any) -> Page:
        """A page of the dashboard."""
        return parsed(self._answer(url, "text/html", params))

    def ridge(self, **params: Any) -> Any:
        """The main answer, of all gpus unless a limit is given."""
        return self.read(f"/devices/{self.slug}/ridge", **{"limit": _MOST_ENTRIES, **params})

    def pages(self, **params: Any) -> Iterator[Any]:
        """All pages of the main answer."""
        answer = self.ridge(**params)
        yield answer
        while answer["next"] is not None:
            answer = self.ridge(**params, after=answer["next"])
            yield answer

    def band(self) -> Any:
        """What `fleetridge-agent check` asks for on a gpu of this device."""
        return self.read(f"/devices/{quote(self.raw_name, safe='')}/ridge", limit=1)

    def devices(self, **params: Any) -> list[Json]:
        """This device in the list of all, as a list of one."""
        answer = self.read("/devices", limit=_MOST_ENTRIES, **params)
        return [device for device in answer["devices"] if device["slug"] == self.slug]

    def gpu(self, gpu_id: str, **params: Any) -> Any:
        """The answer about one gpu."""
        return self.read(f"/gpus/{gpu_id}", **params)

    def _answer(self, url: str, media_type: str, params: dict[str, Any]) -> Any:
        answer = self.server.request("GET", url, params=params, headers={"accept": media_type})
        assert answer.status_code == 200, f"{url} {params}: {answer.text}"
        return answer


def moment_now() -> str:
    """This moment as a question has it."""
    return datetime.now(timezone.utc).isoformat()

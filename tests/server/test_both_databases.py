"""
Every route answers the same on SQLite and on PostgreSQL, whatever it is asked and in whatever form.

It is why most tests of answers and pages run on SQLite alone. Routes, parameters and forms are those of the
application's own description, so that a new one is asked for here or fails here.
"""

from __future__ import annotations

import base64
import copy
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timezone
from difflib import unified_diff
from functools import cache
from itertools import product
from typing import Any

import httpx
import pytest
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from fleetridge_server.app import PAGE_ROUTERS
from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient, app_client
from support.databases import PostgresDatabases, SqliteDatabases
from support.described_api import described
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, expect, gpu_id, runs
from support.fleet import AS_TEXT, post
from support.reports import compute_roof, make_report, make_skipped_report

REPORT = "0198c0de-0000-7000-8000-0000000000aa"

# What each part of an address names.
NAMES: Mapping[str, Sequence[Any]] = {
    "/devices/{name}": ("h200",),
    "/gpus/{gpu_id}": (gpu_id("n02", 7), gpu_id("n01", 0), "GPU-nowhere"),
    "/nodes/{name}": ("n02", "n09"),
    "/reports/{report_id}": (REPORT,),
    "/ui/static/{name}": ("pages.css", "none"),
}

# What each parameter is asked for, by its name; of an earlier time, that which was evaluated then, and one of between.
VALUES: Mapping[str, Sequence[Any]] = {
    "as_of": ((NOW - 2 * DAY).isoformat(), (NOW - DAY).isoformat(), "yesterday"),
    "since": ((NOW - 4 * DAY).isoformat(),),
    "days": (30,),
    "cluster": ("east", "west", "simulated", "a\x00b"),
    "limit": (3,),
    "after": ("e30",),
    "node": ("n02", "none"),
    "rack": ("r1",),
    "dtype": ("bfloat16", "float32"),
    "regime": ("burst",),
    "driver": ("590.10",),
    "device": ("h200",),
    "verdict": ("outlier,suspect", "ok"),
    "state": ("open", "resolved", "holds", "all"),
    "kind": ("gpu", "node"),
    "format": ("hostlist",),
    "by": ("driver", "label:rack", "cluster"),
    "model": ("all", "meta-llama/Llama-2-70b-hf"),
    "tp": (2,),
    "hidden_size": (8192,),
    "gqa_group": (8,),
    "prefill_tokens": (4096,),
}

# Pages that take no parameter and refuse none.
WITHOUT_PARAMETERS = ("/docs", "/ui/sign-in", "/ui/static/{name}")

# What a parameter has to come with.
BESIDE: Mapping[str, Mapping[str, Any]] = {
    "format": {"cluster": "east"},
    "hidden_size": {"hidden_size": 8192, "gqa_group": 8},
    "gqa_group": {"hidden_size": 8192, "gqa_group": 8},
}

# What no two servers have in common, and each only in the form that it has. Times at which they worked and were asked
# have fractions of a second where senders' have none; those in minutes are later than all of senders. The rest is what
# has gone by since, which is an hour and more of what was sent; the secret of a form; checksums of what has such times;
# and what is said of a process.
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::\d\d(\.\d+)?)?(?:Z|\+00:00)?")
OTHERWISE = re.compile(
    r'(?<="age_s": )[.\d]+|(?<=_age_seconds)(\{.*\})? [.\d]+|(?<=name="form_token" value=")\w{64}'
    r"|\b[\da-f]{64}(?=  (gpu|history)\.json)|\b\d+ (s|min) ago|^(# \w+ )?(fleetridge_server|python|process)_.*",
    re.MULTILINE,
)

# The place at which a list goes on, which has the time in it at which it was begun.
PLACE = re.compile(r"\beyJ[\w-]+")

# It is told to people with what went wrong.
SAME_ID = {"X-Request-ID": "the-same"}

# A clock that goes on between one server and the other makes a difference of its own, but not each time.
MOST_LOOKS = 5


def test_every_parameter_has_a_value_to_be_asked_for() -> None:
    """And none of them is of a parameter that is gone."""
    assert {name for names in parameters().values() for name in names} == VALUES.keys()


@cache
def parameters() -> dict[str, list[str]]:
    """Addresses that can be read, of the API and of pages, with their parameters; a page takes any, or refuses it."""
    pages = [copy.copy(route) for router in PAGE_ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    for page in pages:
        page.include_in_schema = True
    of_pages = get_openapi(title="pages", version="1", routes=pages)["paths"]
    found = {
        path: [own["name"] for own in operations["get"].get("parameters", ()) if own["in"] == "query"]
        for path, operations in (described()["paths"] | of_pages).items()
        if "get" in operations
    }
    return found | {path: list(VALUES) for path in found if path in of_pages and path not in WITHOUT_PARAMETERS}


def addresses(path: str) -> list[str]:
    """A path with each of the names that its part in braces may have."""
    part = re.search(r"\{\w+\}", path)
    if part is None:
        return [path]
    [names] = [names for start, names in NAMES.items() if path.startswith((start, f"/ui{start}"))]
    return [path.replace(part[0], name) for name in names]


def calls_of_senders() -> list[tuple[datetime | None, list[dict[str, Any]]]]:
    """What arrives, call by call, with the time of an evaluation after it: all that an answer has a word for."""
    early = NOW - 2 * DAY
    names = ("n10", "N1", "n_1", "é1", "ß")
    return [
        (None, [*runs("n01", [SOUND + 0.5 * n for n in range(8)], until=early, days=12)]),
        (early, [*runs("n02", [SOUND - 0.25 * n for n in range(8)], until=early, days=12)]),
        (None, runs("n01", [0.97 * SOUND] * 8, days=2, environment__driver="590.10")),
        (None, runs("n02", [SOUND] * 7 + [SLOW], days=2, node__labels={"rack": "r2", "Row": "7"})),
        (None, [run for name in names for run in runs(name, [SOUND + 1], days=1, node__cluster="west")]),
        (None, runs("s01", [SOUND] * 7 + [SLOW], node__cluster="simulated")),
        (None, runs("l01", [60.0] * 3, gpu__device="NVIDIA L4", gpu__memory_bytes=2**34, environment__driver=None)),
        (None, runs("n03", [SOUND] * 2, days=1, evidence__contended=True)),
        (None, runs("n04", [SOUND], gpu__uuid=None, roofs=[compute_roof(SOUND, sm_clock_mhz=1980.0)])),
        (None, [make_report(gpu__uuid=gpu_id("n01", 0), run__kind="import", measured_from=None, measured_to=None)]),
        (NOW, [make_report(report_id=REPORT), make_skipped_report("cuda_not_ready", outcome="failed", gpu=None)]),
    ]


def fill(client: AppClient, database_url: str, calls: Iterable[tuple[datetime | None, list[dict[str, Any]]]]) -> None:
    """Give a server what `calls_of_senders` says, an inventory and two marks."""
    expect(database_url, ExpectedGpu("n09", "GPU-never"), ExpectedGpu("n02", expected_gpus=9))
    mark = {"kind": "accepted", "reason": "capped", "author": "ops", "cluster": "east", "node": "n02"}
    for at, reports in calls:
        post(client, reports)
        if at is not None:
            evaluate(database_url, at=at)
            evaluate(database_url, at=at, simulated=True)
            assert client.post("/marks", json=mark).status_code == 201


@dataclass(frozen=True)
class Servers:
    """
    Two servers of one fleet.

    Attributes:
        clients: of the one on SQLite and of the one on PostgreSQL.
        since: they were filled.
    """

    clients: tuple[AppClient, AppClient]
    since: datetime

    def difference(self, url: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> list[str]:
        """Lines in which their answers differ, however often they are asked."""
        lines: list[str] = []
        for _ in range(MOST_LOOKS):
            one, other = (self._lines(client.get(url, params=params, headers=headers)) for client in self.clients)
            lines = [line for line in unified_diff(one, other, n=0, lineterm="") if one != other]
            if not lines:
                break
        return lines

    def _lines(self, answer: httpx.Response) -> list[str]:
        told = [f"{answer.status_code} {answer.headers.get('content-type')}", *map(self._masked, texts_of(answer))]
        return [line for text in told for line in text.replace(">", ">\n").splitlines()]

    def _masked(self, text: str) -> str:
        """What is said, less what no two servers have in common."""

        def masked(time: re.Match[str]) -> str:
            is_own = time[3] is not None or f"{time[1]} {time[2]}" >= f"{self.since:%Y-%m-%d %H:%M}"
            return "TIME" if is_own else time[0]

        return OTHERWISE.sub("OTHERWISE", TIME.sub(masked, PLACE.sub(read_place, text)))


def texts_of(answer: httpx.Response) -> list[str]:
    """What an answer says, or each file in it; members of JSON in the order of their names, which means nothing."""
    if answer.headers.get("content-type") == "application/zip":
        archive = zipfile.ZipFile(io.BytesIO(answer.content))
        return [told(archive.read(name).decode()) for name in sorted(archive.namelist())]
    return [told(answer.text)]


def told(text: str) -> str:
    """A text, or JSON with a line for each member."""
    return json.dumps(json.loads(text), indent=1, sort_keys=True) if text.startswith("{") else text


def read_place(place: re.Match[str]) -> str:
    """The token of a place in a list, in words."""
    return base64.urlsafe_b64decode(place[0] + "=" * (-len(place[0]) % 4)).decode()


@pytest.fixture(scope="module")
def servers(sqlite_databases: SqliteDatabases, postgres_databases: PostgresDatabases) -> Iterator[Servers]:
    """A server on either database with the same fleet."""
    calls, since = calls_of_senders(), datetime.now(timezone.utc)
    with ExitStack() as stack:
        clients = []
        for databases in (sqlite_databases, postgres_databases):
            url = databases.create(migrated=True)
            stack.callback(databases.drop, url)
            clients.append(stack.enter_context(app_client(url, calls_per_s=0)))
            fill(clients[-1], url, calls)
        yield Servers((clients[0], clients[1]), since)


@pytest.mark.parametrize("path", parameters())
def test_both_databases_give_the_same_answers(servers: Servers, path: str) -> None:
    """To the last digit and in the same order; as JSON, text, CSV, page, picture and file, refusals included."""
    for url, form, params in requests_to(path):
        difference = servers.difference(url, params, {**SAME_ID, **form})
        assert not difference, "\n".join([f"{url} {params} {form}", *difference])


def requests_to(path: str) -> Iterable[tuple[str, Mapping[str, str], Mapping[str, Any]]]:
    """Addresses, headers and parameters: of a route all, of a page, which shows what a route says, fewer."""
    is_page = path.startswith("/ui") or path == "/"
    asked: list[dict[str, Any]] = [{}]
    for name in parameters()[path]:
        asked += [{**BESIDE.get(name, {}), name: value} for value in VALUES[name][: 1 if is_page else None]]
    return product(addresses(path)[: 1 if is_page else None], ({},) if is_page else ({}, AS_TEXT), asked)

"""
What a server answers about one fixed fleet, kept in a file, so that two versions can be compared answer by answer.

    python bench/answers.py record CHECKOUT FILE [--now TIME]
    python bench/answers.py compare BEFORE AFTER [--all]

A fleet with every kind of trouble is posted over HTTP to a server that the checkout runs, on SQLite; its ids are fixed
and its times are so long before `--now` (the present unless given; an earlier one makes the fleet older). It is
evaluated twice by the command, some gpus report once more, and then every GET route is asked in many ways. In the file
times are distances from that moment, and what changes from run to run (ages, random ids, sizes) is left out.
`compare` prints the paths that differ, grouped, each with its number and an example, or all with `--all`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import httpx

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the fleets of the tests

from answer_differences import differences, print_differences
from kept_answer import kept
from trees import Tree

from support.small_fleets import GpuPlan, Trouble

_NAMESPACE = UUID("0b0c5f0e-8f0b-4c8e-9d57-3b7f2a4a9f61")
_TIMEOUT_S = 60
_FORMS = {"json": "application/json", "text": "text/plain", "page": "text/html"}

_BF16, _SUSTAINED, _FP8 = ("bfloat16", "burst"), ("bfloat16", "sustained"), ("float8_e4m3fn", "burst")
_TROUBLES: tuple[Trouble, ...] = (
    "implausible",
    "implausible lately",
    "old",
    "contended lately",
    "contended",
    "failed lately",
    "retired",
    "quarantined",
    "unmeasured",
)

_FIRST_TROUBLED = 12

_DEVICES = ("h200", "upgraded", "few", "made-up")
_GPUS = ("h200-03", "h200-00", "h200-01", "split-02", "upgraded-04", "few-01", "new-00")
_RIDGE_QUERIES = (
    "",
    "dtype=bfloat16",
    "dtype=float8_e4m3fn",
    "regime=sustained",
    "dtype=bfloat16&regime=burst",
    "cluster=west",
    "node=h200-0",
    "driver=590.10",
    "driver=580.159.04",
    "verdict=outlier,stale",
    "verdict=ok",
    "since=LONG_AGO",
    "since=A_DAY_AGO",
    "as_of=AS_OF_NOW",
    "as_of=A_DAY_AGO",
    "limit=2",
)
_FLEET_QUERIES = ("", "?cluster=east", "?cluster=simulated", "?as_of=AS_OF_NOW", "?as_of=A_DAY_AGO")
_LISTS = {
    "/devices": _FLEET_QUERIES,
    "/fleet": _FLEET_QUERIES,
    "/nodes": ("", "?cluster=west", "?verdict=outlier", "?rack=r1"),
    "/nodes/": ("h200-0", "h200-1", "h200-2", "upgraded-0", "nobody"),
    "/alerts": ("", "?state=resolved", "?kind=gpu", "?device=h200"),
    "/marks": ("", "?state=all"),
}
_SINGLE_PAGES = (
    "/",
    "/ui/nodes",
    "/ui/nodes/h200-0",
    "/ui/nodes/h200-2",
    "/ui/alerts",
    "/ui/fleet/heatmap.svg",
    "/docs",
)

# Names without published peaks but for the first, since those would make rates impossible. Each device has nodes of its
# own, each node a cluster.
_MIXED, _UPGRADED, _FEW, _MADE_UP = "NVIDIA H200", "NVIDIA Upgraded", "NVIDIA Few", "NVIDIA Made-up"


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description="Keeps what a server answers, and compares it.")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    recording = actions.add_parser("record", help="ask a server of a checkout and keep its answers")
    recording.add_argument("checkout", type=Path, help="folder with core, agent, server and migrations")
    recording.add_argument("file", type=Path)
    recording.add_argument("--now", type=datetime.fromisoformat, help="moment before which the fleet was measured")
    recording.set_defaults(action=_record)
    comparing = actions.add_parser("compare", help="say where two files differ; exit code 1 if they do")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--all", action="store_true", help="every path, ungrouped")
    comparing.set_defaults(action=_compare)
    options = parser.parse_args()
    code: int = options.action(options)
    return code


def _record(options: argparse.Namespace) -> int:
    tree, now = Tree(options.checkout), (options.now or datetime.now(timezone.utc)).replace(second=0, microsecond=0)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'answers.db'}"
        tree.command(url, "migrate")
        token, _ = tree.command(url, "token", "create", "everybody", "--scope", "admin")
        other, told = tree.command(url, "token", "create", "other", "--scope", "ingest")
        with tree.serving(url) as server, _client(server.address, token) as client:
            _seed(client, now, other)
            tree.command(url, "token", "quarantine", told.split()[1])
            tree.command(url, "evaluate")
            _post(client, [report for plan, device in _gpus() for report in _reports(plan, device, now)[-1:]])
            tree.command(url, "evaluate")
            _post(client, _reported_since(now))
            answers = {question: kept(answer, now) for question, answer in _asked(client, now)}
            routes = sorted(path for path, own in client.get("/openapi.json").json()["paths"].items() if "get" in own)
    unasked = [route for route in routes if not any(_is_of(question, route) for question in answers)]
    if unasked:
        print(f"not asked: {', '.join(unasked)}", file=sys.stderr)
    options.file.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(answers)} answers of {tree.path} are in {options.file}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    before, after = (json.loads(file.read_text(encoding="utf-8")) for file in (options.before, options.after))
    found = differences(before, after)
    print_differences(found, every=options.all)
    return 1 if found else 0


def _client(address: str, token: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=_TIMEOUT_S)


def _gpus() -> Iterator[tuple[GpuPlan, str]]:
    """All gpus with the names of their devices as drivers report them."""
    for index in range(24):
        slow = {3: 0.83, 11: 0.96}.get(index, 1 + (index % 7 - 3) / 1000)
        trouble = dict(enumerate(_TROUBLES, start=_FIRST_TROUBLED)).get(index, "none")
        yield _plan("h200", index, slow, trouble, roofs=(_BF16, _SUSTAINED, _FP8)), _MIXED
    for index in range(6):
        yield _plan("split", index, 1 + index / 1000, "none", split=True), _MIXED
    for index in range(16):
        yield _plan("upgraded", index, 1 + index / 4000, "upgraded"), _UPGRADED
    for index in range(3):
        yield _plan("few", index, 0.13 + index / 100, "none"), _FEW
    for index in range(8):
        yield _plan("made-up", index, 0.3 + index / 1000, "none", cluster="simulated"), _MADE_UP


def _plan(
    name: str,
    index: int,
    speed: float,
    trouble: Trouble,
    *,
    split: bool = False,
    cluster: str | None = None,
    roofs: tuple[tuple[str, str], ...] = (_BF16,),
) -> GpuPlan:
    node = index // 8
    return GpuPlan(
        gpu_id=f"GPU-{name}-{index:02}",
        cluster=cluster or ("west" if node == 2 else "east"),  # noqa: PLR2004 # the last of three nodes
        node=f"{name}-{node}",
        index=index % 8,
        speed=speed,
        runs=5,
        trouble=trouble,
        split=split,
        roofs=roofs,
    )


def _reports(plan: GpuPlan, device: str, now: datetime) -> list[dict[str, Any]]:
    return [_named(report, plan.gpu_id, str(number)) for number, report in enumerate(plan.reports(device, now))]


def _named(report: dict[str, Any], gpu_id: str, turn: str) -> dict[str, Any]:
    """A report with ids that are the same in every run."""
    run = {**report["run"], "run_id": str(uuid5(_NAMESPACE, f"run {report['node']['name']} {turn}"))}
    return {**report, "report_id": str(uuid5(_NAMESPACE, f"{gpu_id} {turn}")), "run": run}


def _seed(client: httpx.Client, now: datetime, other_token: str) -> None:
    """Post all but the newest report of each gpu, and what a person decided."""
    for plan, device in _gpus():
        headers = {"Authorization": f"Bearer {other_token}"} if plan.trouble == "quarantined" else {}
        _post(client, _reports(plan, device, now)[:-1], headers)
    for plan, _ in _gpus():
        if plan.trouble == "retired":
            mark = {"kind": "retired", "reason": "gone", "author": "somebody", "gpu_id": plan.gpu_id}
            client.post("/marks", json=mark).raise_for_status()


def _reported_since(now: datetime) -> list[dict[str, Any]]:
    """Reports that no evaluation knows: of some known gpus, faster, and of a new one."""
    known = [(plan, device) for plan, device in _gpus() if plan.trouble == "none" and plan.index in (0, 3)]
    since = [*known, (_plan("new", 0, 0.99, "none"), _MIXED)]
    at = now - timedelta(minutes=30)
    return [_named(plan.report_of(device, at, 1.02), plan.gpu_id, "since") for plan, device in since]


def _post(client: httpx.Client, reports: Sequence[dict[str, Any]], headers: dict[str, str] | None = None) -> None:
    answer = client.post("/reports", json={"reports": list(reports)}, headers=headers or {}).raise_for_status()
    refused = [result for result in answer.json()["results"] if result["outcome"] != "created"]
    if refused:
        raise SystemExit(f"the server does not take the bench's reports: {refused[0]}")


def _asked(client: httpx.Client, now: datetime) -> Iterator[tuple[str, httpx.Response]]:
    """Every question with its answer; times in it are told apart by names, as they differ from run to run."""
    times = {
        "AS_OF_NOW": datetime.now(timezone.utc).isoformat(),
        "A_DAY_AGO": (now - timedelta(days=1)).isoformat(),
        "LONG_AGO": "2020-01-01T00:00:00Z",
        "REPORT": str(uuid5(_NAMESPACE, "GPU-h200-03 1")),
    }
    for form, question in _questions():
        url = question
        for name, value in times.items():
            url = url.replace(name, value.replace("+", "%2B"))
        yield f"{form} {question}", client.get(url, headers={"accept": _FORMS[form]})
    yield from _following(client, "/devices/h200/ridge?limit=7")
    yield from _following(client, "/devices/h200/ridge?limit=5&dtype=bfloat16")


def _following(client: httpx.Client, first: str) -> Iterator[tuple[str, httpx.Response]]:
    """All pages of a list."""
    answer, number = client.get(first), 1
    while True:
        yield f"json {first} page {number}", answer
        following = answer.json().get("next")
        if following is None:
            return
        answer, number = client.get(first, params={**httpx.URL(first).params, "after": following}), number + 1


def _questions() -> Iterator[tuple[str, str]]:
    """Forms and addresses."""
    for name in _DEVICES:
        yield from _about_device(name, "cluster=simulated" if name == "made-up" else "")
    troubled = [f"h200-{index}" for index in range(_FIRST_TROUBLED, _FIRST_TROUBLED + len(_TROUBLES))]
    for name in [*_GPUS, *troubled]:
        yield from _about_gpu(f"/gpus/GPU-{name}")
    yield from (("json", f"/gpus/GPU-made-up-01{query}") for query in ("", "?cluster=simulated"))
    for form in ("json", "text"):
        yield from ((form, f"{route}{query}") for route, queries in _LISTS.items() for query in queries)
    yield "text", "/nodes?verdict=outlier&format=hostlist"
    yield from (("page", url) for url in _SINGLE_PAGES)
    yield from (("json", url) for url in ("/livez", "/readyz", "/openapi.json", "/reports/REPORT", "/gpus/nobody"))
    yield "text", "/metrics"


def _about_device(name: str, made_up: str) -> Iterator[tuple[str, str]]:
    for query in _RIDGE_QUERIES:
        whole = "&".join(part for part in (query, made_up) if part)
        yield from ((form, f"/devices/{name}/ridge?{whole}") for form in ("json", "text"))
        yield "text", f"/devices/{name}/ridge.csv?{whole}"
        yield "page", f"/ui/devices/{name}?{whole}"
    for query in ("", "&dtype=bfloat16", "&as_of=AS_OF_NOW"):
        yield "json", f"/devices/{name}/workloads?{made_up}{query}"
        for by in ("driver", "cluster", "torch", "label:rack"):
            yield "json", f"/devices/{name}/compare?by={by}{query}&{made_up}"
    yield "text", f"/devices/{name}/compare?by=driver&{made_up}"
    yield "page", f"/ui/devices/{name}/compare?by=driver&{made_up}"
    yield "text", f"/devices/{name}/workloads?model=all&{made_up}"
    for picture in ("roofline", "strips", "distribution", "compare"):
        by = "by=driver&" if picture == "compare" else ""
        yield "page", f"/ui/devices/{name}/{picture}.svg?{by}{made_up}"


def _about_gpu(url: str) -> Iterator[tuple[str, str]]:
    for own in (url, f"{url}/history"):
        yield from (("json", own), ("text", own), ("json", f"{own}?as_of=AS_OF_NOW"), ("json", f"{own}?limit=2"))
    yield "json", f"{url}/history?dtype=bfloat16&regime=burst"
    yield "page", f"/ui{url}"
    yield from (("page", f"/ui{url}/{name}") for name in ("roofline.svg", "history.svg", "evidence.zip"))


def _is_of(question: str, route: str) -> bool:
    """Whether a question asks a route of the API's description."""
    path = question.split(" ")[1].partition("?")[0]
    parts, own = route.strip("/").split("/"), path.strip("/").split("/")
    return len(parts) == len(own) and all(
        part.startswith("{") or part == name for part, name in zip(parts, own, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())

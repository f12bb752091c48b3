"""A fleet in a server: reports posted through its API, answers read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from support.app_client import AppClient
from support.evaluated import HOUR, evaluate
from support.reports import make_report

AS_TEXT = {"accept": "text/plain"}


def post(client: AppClient, reports: Iterable[dict[str, Any]], *, sent_at: str | None = None) -> None:
    """Post some reports in one call; all must be taken."""
    envelope = {"reports": list(reports)} | ({} if sent_at is None else {"sent_at": sent_at})
    answer = client.post("/reports", json=envelope)
    assert answer.status_code == 200, answer.text
    refused = [result for result in answer.json()["results"] if result["outcome"] != "created"]
    assert not refused, refused


def post_judged(client: AppClient, reports: Sequence[dict[str, Any]], *, sent_at: str | None = None) -> None:
    """
    Post some reports in one call, and have all devices judged an hour after the newest of them, or now.

    Made-up gpus are judged where the reports are of such.
    """
    post(client, reports, sent_at=sent_at)
    newest = max(datetime.fromisoformat(own["measured_to"]) for own in reports)
    at = min(newest + HOUR, datetime.now(timezone.utc))
    evaluate(client.database_url, at=at)
    if any(own["node"]["cluster"] == "simulated" for own in reports):
        evaluate(client.database_url, simulated=True, at=at)


def fleet(pis_tflops: Sequence[float], **changes: Any) -> list[dict[str, Any]]:
    """One report for each rate, of gpus "GPU-a000", "GPU-a001", … of one node, each with its own bus id."""
    return [
        make_report(
            **{
                "pi_tflops": pi,
                "gpu__uuid": f"GPU-a{number:03}",
                "gpu__index": number,
                "gpu__pci_bus_id": f"0000:{number:02X}:00.0",
                **changes,
            }
        )
        for number, pi in enumerate(pis_tflops)
    ]


def read(client: AppClient, url: str, **params: Any) -> Any:
    """JSON of an answer, which must be 200."""
    answer = client.get(url, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ridge(client: AppClient, device: str = "h200", **params: Any) -> Any:
    """Ridge answer of a device, by its name as a slug."""
    return read(client, f"/devices/{device}/ridge", **params)


def gpu_ids(answer: Any) -> list[str]:
    """Gpus of an answer in their order."""
    return [row["gpu_id"] for row in answer["gpus"]]

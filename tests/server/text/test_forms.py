"""Text forms of answers in which something is not there."""

from __future__ import annotations

from support.app_client import AppClient
from support.fleet import AS_TEXT, fleet, post, post_judged
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof


def text(client: AppClient, url: str) -> str:
    """Text form of an answer."""
    answer = client.get(url, headers=AS_TEXT)
    assert answer.status_code == 200
    return answer.text


def test_a_fleet_that_only_read_memory_has_no_ridges_and_still_a_worst_gpu(client: AppClient) -> None:
    """Its beta stands alone."""
    for number, beta in enumerate([4430.0, 4430.0, 4430.0, 3000.0]):
        post_judged(client, fleet([1.0], gpu__uuid=f"GPU-b{number}", roofs=[memory_roof(beta)]))

    form = text(client, "/devices/h200/ridge")

    [worst] = [line for line in form.splitlines() if "GPU-b3" in line and line.startswith("beta")]
    assert "no ridges" in form
    assert worst.split()[3:8] == ["−32.3", "%", "–", "3000", "–"]


def test_a_filter_that_matches_nothing_says_so(one_report: AppClient) -> None:
    """No empty table."""
    assert "no gpus" in text(one_report, "/devices/h200/ridge?node=n99")


def test_a_gpu_shows_roofs_that_are_not_compared(client: AppClient) -> None:
    """With their level and unit."""
    roofs = [compute_roof(871.0, kernel="gemm_best"), memory_roof(9100.0, level="l2"), memory_roof(4430.0)]
    post_judged(client, [make_report(roofs=roofs)])

    form = text(client, "/gpus/GPU-00000001")

    assert "gemm_best bfloat16 burst" in form
    assert "l2 read float32 burst" in form


def test_a_gpu_before_its_first_report_has_nothing_to_show(one_report: AppClient) -> None:
    """A dash, not an error."""
    assert "newest report  –" in text(one_report, "/gpus/GPU-00000001?as_of=2020-01-01")


def test_a_contended_newest_report_is_said_to_be(client: AppClient) -> None:
    """In the line about it and in the list."""
    post(client, [make_report(evidence__contended=True)])

    form = text(client, "/gpus/GPU-00000001")

    assert "measured, somebody else used the gpu meanwhile" in form
    assert form.rstrip().endswith("contended")


def test_a_node_without_gpus_shows_why(client: AppClient) -> None:
    """The reason stands where the gpus would."""
    post(client, [make_skipped_report("nvml_unknown_error", outcome="failed", gpu=None, detail="Unknown Error (999)")])

    form = text(client, "/nodes/node-01")

    assert "no gpu reports from here" in form
    assert "nvml_unknown_error: Unknown Error (999)" in form


def test_many_flagged_gpus_are_counted_not_all_named(client: AppClient) -> None:
    """Eight names tell enough."""
    post_judged(client, fleet([845.0] * 12, roofs=[compute_roof(845.0, converged=False)]))

    assert "and 4 more" in text(client, "/devices/h200/ridge")

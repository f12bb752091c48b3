"""Reports as JSON for `--json`: what the server takes, with the derived numbers beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fleetridge.report import Report
from fleetridge_agent.output.achieved import Achieved, achieved
from fleetridge_agent.output.point_groups import products_in
from fleetridge_agent.output.yardstick import GivenPeaks, beta_yardstick, pi_yardstick, ridge_of


def json_text(reports: Sequence[Report], given: GivenPeaks) -> str:
    """
    One report, or `{"reports": […]}` where several gpus were measured; either can be posted as it is.

    Each report carries a field `derived` of its own, which readers of the contract keep and need not understand.
    """
    forms = [_form(report, given) for report in reports]
    return json.dumps(forms[0] if len(forms) == 1 else {"reports": forms}, indent=2, ensure_ascii=False) + "\n"


def _form(report: Report, given: GivenPeaks) -> dict[str, Any]:
    found = [achieved(report, product) for product in products_in(report)]
    derived = [_derived(report, roofs, given) for roofs in found]
    return {**report.model_dump(mode="json"), "derived": derived}


def _derived(report: Report, roofs: Achieved, given: GivenPeaks) -> dict[str, Any]:
    device = "" if report.gpu is None else report.gpu.device or ""
    pi_peak = pi_yardstick(device, roofs.product.dtype, given).value
    beta_peak = beta_yardstick(device, given).value
    return {
        "dtype": roofs.product.dtype,
        "out_dtype": roofs.product.out_dtype,
        "fast_accumulation": roofs.product.fast_accumulation,
        "pi_tflops": roofs.pi.value,
        "beta_gbps": None if roofs.beta is None else roofs.beta.value,
        "ridge_flop_per_byte": roofs.ridge,
        "published_pi_tflops": pi_peak,
        "published_beta_gbps": beta_peak,
        "published_ridge_flop_per_byte": ridge_of(pi_peak, beta_peak),
    }

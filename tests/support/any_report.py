"""Reports of every kind that the contract allows, and such reports with one thing changed, as hypothesis draws them."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st

from fleetridge.arithmetic_intensity import gemm_flops

# What the wire refuses are control characters and halves of surrogate pairs.
words = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40).filter(
    lambda name: not name.startswith("[") and any(letter.isalnum() for letter in name)
)
slugs = st.from_regex(r"[a-z0-9_]{1,64}", fullmatch=True)
readings = st.none() | st.floats(-1e15, 1e15) | st.sampled_from(["[N/A]", "N/A", "[Unknown Error]", 0])
shares = st.none() | st.floats(0, 1e15)
counts = st.none() | st.integers(0, 2**31 - 1)
sizes = st.none() | st.integers(0, 2**63 - 1)
switches = st.none() | st.booleans()
rates = st.floats(1e-12, 1e15)
dimensions = st.integers(1, 2**31 - 1)
levels = st.sampled_from(["device", "l2", "pcie", "nvlink"])
regimes = st.sampled_from(["burst", "sustained", "unspecified"])
dtypes = st.sampled_from(["bfloat16", "float16", "float32", "tf32", "float8_e4m3fn", "int8", "of the future"])

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)

# What stands in the place of something else in a report that was made wrongly.
odd_values = st.one_of(
    anything,
    st.sampled_from([2**63, -(2**63) - 1, 1e300, 5e-324, float("nan"), float("-inf"), "\x00", "\x1b[31m", "", [], {}]),
    st.text(min_size=250, max_size=260),
)


@st.composite
def moments(draw: st.DrawFn) -> tuple[str, str]:
    """Start and end of a measurement, each in a zone of its own or in none, which is UTC."""
    start = draw(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)))  # noqa: DTZ001 # the zone comes below
    end = start + draw(st.timedeltas(timedelta(0), timedelta(hours=2)))
    return _written(draw, start), _written(draw, end)


def _written(draw: st.DrawFn, moment: datetime) -> str:
    hours = draw(st.none() | st.integers(-12, 14))
    if hours is None:
        return moment.isoformat()
    return moment.replace(tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=hours))).isoformat()


@st.composite
def gemm_points(draw: st.DrawFn) -> dict[str, Any]:
    """Products, some with the rate that follows from their shape."""
    point: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"kind": st.just("gemm"), "dtype": dtypes, "ms": rates, "M": dimensions, "K": dimensions, "N": dimensions},
            optional={"label": words, "reps": counts, "spread": shares, "regime": regimes, "power_w": readings},
        )
    )
    tflops = gemm_flops(point["M"], point["K"], point["N"]) / point["ms"] * 1e-9
    return point | ({"tflops": tflops} if tflops < 1e15 and draw(st.booleans()) else {})


stream_points = st.fixed_dictionaries(
    {"kind": st.just("stream"), "dtype": dtypes, "ms": rates, "kernel": words, "bytes": st.integers(1, 2**63 - 1)},
    optional={"level": levels, "l2": st.sampled_from(["cold", "warm", None]), "sm_clock_mhz": readings},
)


@st.composite
def roofs(draw: st.DrawFn, points: int) -> dict[str, Any]:
    """Ceilings that rest on some of so many points."""
    kind = draw(st.sampled_from(["compute", "memory"]))
    own = st.fixed_dictionaries(
        {"dtype": dtypes, "value": rates},
        optional={
            "out_dtype": st.none() | dtypes,
            "fast_accumulation": switches,
            "regime": regimes,
            "level": levels,
            "kernel": st.sampled_from(["gemm_reference", "gemm_best", "read", "copy", None]),
            "ci_low": readings,
            "converged": switches,
            "points": st.lists(st.integers(0, points - 1), max_size=3) if points else st.just([]),
        },
    )
    return {"kind": kind, "unit": "TFLOP/s" if kind == "compute" else "GB/s", **draw(own)}


gpus = st.fixed_dictionaries(
    {"uuid": names.map(lambda name: f"GPU-{name}")},
    optional={
        "pci_bus_id": words,
        "index": counts,
        "device": st.sampled_from(["NVIDIA H200", "Tesla V100-SXM2-16GB", "", "[N/A]"]) | names,
        "memory_bytes": sizes,
        "sm_count": counts,
        "partition": st.none() | words,
    },
)
runs = st.fixed_dictionaries(
    {
        "run_id": st.uuids(allow_nil=False).map(str),
        "kind": st.sampled_from(["cron", "daemon", "manual", "check", "import"]),
    },
    optional={"roster": st.none() | st.lists(gpus, max_size=3), "roster_complete": switches},
)
nodes = st.fixed_dictionaries(
    {"cluster": names, "name": names}, optional={"labels": st.dictionaries(words, words, max_size=3)}
)
environments = st.fixed_dictionaries(
    {}, optional={"driver": words, "torch": words, "power_limit_w": readings, "allow_tf32": switches, "l2_bytes": sizes}
)
evidences = st.fixed_dictionaries(
    {},
    optional={
        "phases": st.lists(
            st.fixed_dictionaries(
                {"phase": words}, optional={"throttle_ms": st.dictionaries(slugs, readings, max_size=3)}
            ),
            max_size=3,
        ),
        "contended": switches,
        "signals_seen": st.lists(slugs, max_size=3),
    },
)


@st.composite
def valid_reports(draw: st.DrawFn) -> dict[str, Any]:
    """Reports that a server takes, with fields of later versions among them; each has an id that no other has."""
    outcome = draw(st.sampled_from(["measured", "measured", "skipped", "unsupported", "failed"]))
    points = draw(st.lists(gemm_points() | stream_points, max_size=4))
    own_roofs = draw(st.lists(roofs(len(points)), min_size=0 if points else 1, max_size=4))
    start, end = draw(moments())
    report = {
        "schema_version": "1.0",
        "report_id": str(uuid4()),
        "measured_from": start,
        "measured_to": end,
        "run": draw(runs),
        "outcome": outcome,
        "reason": draw(slugs if outcome != "measured" else st.none()),
        "agent": draw(st.fixed_dictionaries({"version": words}, optional={"protocol_version": st.none() | dimensions})),
        "node": draw(nodes),
        "gpu": draw(gpus if outcome == "measured" else st.none() | gpus),
        "environment": draw(environments),
        "evidence": draw(evidences),
        "points": points,
        "roofs": own_roofs,
    }
    later = draw(st.dictionaries(names.map(lambda name: f"later {name}"), anything, max_size=2))
    return report | later


@st.composite
def changed_reports(draw: st.DrawFn) -> dict[str, Any]:
    """Reports in which one thing, at any depth, is left out, said twice, called otherwise or another value."""
    report = copy.deepcopy(draw(valid_reports()))
    place: Any = report
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.booleans()):
            break
        place = place[key]
    change = draw(st.sampled_from(["another value", "left out", "wrapped", "as text", "renamed"]))
    value = place[key]
    if change == "another value":
        place[key] = draw(odd_values)
    elif change == "wrapped":
        place[key] = [value]
    elif change == "as text":
        place[key] = str(value)
    else:
        del place[key]
        if change == "renamed" and isinstance(place, dict):
            place[draw(words)] = value
    return report

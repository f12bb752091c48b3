"""Every option of every command with its default, grouped as `--help` shows them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import get_args

from fleetridge.device_names import DEFAULT_CLUSTER
from fleetridge.weight_shapes import DEFAULT_MODEL
from fleetridge.workloads import DEFAULT_GQA_GROUP, DEFAULT_HIDDEN_SIZE
from fleetridge_agent.config.setting_types import (
    Setting,
    duration,
    one_of,
    per_cent,
    plain_text,
    positive_duration,
    positive_number,
    several,
    switch,
    whole_number,
)
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES
from fleetridge_agent.log import LogFormat
from fleetridge_agent.measurement_protocol import REPS, WARMUP, DeviceKind
from fleetridge_agent.sweep.options import Mode, Profile

# The report counts dimensions and repetitions in 32 bits.
_INT32_MAX = 2**31 - 1

# A quick sweep of one gpu takes less, and whoever wants more than that wants a monitor.
_SHORTEST_INTERVAL = timedelta(minutes=1)


def _path(text: str) -> Path:
    if not text.strip():
        raise ValueError("give a path")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{text} begins with the home directory of nobody here; write the path in full") from error


def _result_place(text: str) -> str:
    """A file, or a hyphen for standard output."""
    return text if text == "-" else str(_path(text))


def _interval(text: str) -> timedelta:
    """Time from one round to the next, no shorter than a round may last."""
    interval = duration(text)
    if interval < _SHORTEST_INTERVAL:
        raise ValueError(f"{text} is too short for a round; give at least 1m")
    return interval


def _labels(text: str) -> dict[str, str]:
    """Labels separated by commas, each a name and a value."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part.strip()!r} is no label; write it as name=value")
        if name.strip() in found:
            raise ValueError(f"the label {name.strip()!r} is given twice")
        found[name.strip()] = value.strip()
    return found


_MODES: tuple[Mode, ...] = get_args(Mode)
_PROFILES: tuple[Profile, ...] = get_args(Profile)
_KINDS: tuple[DeviceKind, ...] = get_args(DeviceKind)
_LOG_FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)

_size = whole_number(at_least=1, at_most=_INT32_MAX)

MODE = Setting("mode", one_of(*_MODES), "Which half of the roofline to measure.", "all", "gemm|bandwidth|all")
PROFILE = Setting(
    "profile",
    one_of(*_PROFILES),
    "How much: the judged burst and memory roofs; also the sustained one, the fastest shape and decode steps; or all "
    "that of every dtype, and all shapes. Without it `run` measures `standard`, and `sweep` the shapes too.",
    metavar="quick|standard|full",
)
DTYPE = Setting(
    "dtype",
    several(one_of(*MEASURED_DTYPES)),
    f"What to multiply, one or several of {', '.join(MEASURED_DTYPES)}. "
    "Without it bfloat16, or what the device has instead.",
    metavar="DTYPE",
    many=True,
)
SQUARE = Setting("square", several(_size), "Sizes of square products M=N=K.", metavar="N", many=True)
M_SWEEP = Setting("m-sweep", several(_size), "Tokens M against the weight shapes of --model.", metavar="M", many=True)
MODEL = Setting("model", plain_text, "Whose weight shapes to multiply.", DEFAULT_MODEL, "NAME")
TP = Setting("tp", _size, "Over how many gpus those weights are split.", "1", "N")
BUFFER_MIB = Setting(
    "buffer-mib",
    _size,
    "Size of each stream buffer in MiB, far beyond the last-level cache or the cache is measured. Given, it makes the "
    "method custom.",
    metavar="MIB",
)
WARMUP_CALLS = Setting(
    "warmup",
    whole_number(at_least=0, at_most=_INT32_MAX),
    f"Untimed calls before each measurement; without it up to {WARMUP}. Given, it makes the method custom.",
    metavar="N",
)
TIMED_CALLS = Setting(
    "reps",
    _size,
    f"Timed calls; their median is reported. Without it up to {REPS}. Given, it makes the method custom.",
    metavar="N",
)
FORCE = Setting(
    "force",
    switch,
    "Measure although somebody else uses the gpu; the result is marked as contended.",
    "no",
    is_switch=True,
)
DEVICE = Setting("device", one_of(*_KINDS), "What to measure; a CPU only when asked for.", "cuda", "cuda|cpu")
# Stands for every gpu.
ALL_GPUS = "all"

GPUS = Setting("gpus", several(plain_text), "Which gpus, by CUDA number or UUID, or all.", metavar="GPU", many=True)

MEASURING: tuple[Setting[object], ...] = (
    DEVICE,
    GPUS,
    MODE,
    PROFILE,
    DTYPE,
    SQUARE,
    M_SWEEP,
    MODEL,
    TP,
    BUFFER_MIB,
    WARMUP_CALLS,
    TIMED_CALLS,
    FORCE,
)

PEAK_TFLOPS = Setting(
    "peak-tflops", positive_number, "Dense peak to hold pi against, instead of the published one.", metavar="TFLOPS"
)
PEAK_GBPS = Setting(
    "peak-gbps", positive_number, "Memory bandwidth to hold beta against, instead of the published one.", metavar="GBPS"
)
HIDDEN_SIZE = Setting(
    "hidden-size", _size, "Width d of the model, for T* and the reference workloads.", str(DEFAULT_HIDDEN_SIZE), "D"
)
GQA_GROUP = Setting("gqa-group", _size, "Query heads that share a KV head.", str(DEFAULT_GQA_GROUP), "G")
CSV = Setting("csv", _result_place, "Also write every measured point here; - for standard output.", metavar="PATH")
JSON = Setting("json", _result_place, "Also write the report here; - for standard output alone.", metavar="PATH")

SHOWING: tuple[Setting[object], ...] = (PEAK_TFLOPS, PEAK_GBPS, HIDDEN_SIZE, GQA_GROUP, CSV, JSON)

CLUSTER = Setting("cluster", plain_text, "Cluster that this node belongs to.", DEFAULT_CLUSTER, "NAME")
NODE = Setting("node", plain_text, "Name of this node; without it the host's.", metavar="NAME", also=("NODE_NAME",))
LABEL = Setting("label", _labels, "Label of this node, such as rack=r1; may be repeated.", metavar="K=V", repeats=True)

NAMING: tuple[Setting[object], ...] = (CLUSTER, NODE, LABEL)

SERVER = Setting("server", plain_text, "Address of the fleetridge server.", metavar="URL")
TOKEN_FILE = Setting("token-file", _path, "File that holds the token.", metavar="PATH")
ALLOW_PLAIN_HTTP = Setting(
    "allow-plain-http", switch, "Send the token over plain http beyond this machine.", "no", is_switch=True
)

CA_FILE = Setting(
    "ca-file",
    _path,
    "Certificates (PEM) of the authorities to believe, in place of the usual ones.",
    metavar="PATH",
)

EVERY = Setting("every", _interval, "From one round to the next.", "24h", "TIME")
JITTER = Setting(
    "jitter",
    duration,
    "Over how long the nodes of a fleet spread their first rounds, and those after an outage; each has a place of its "
    "own in it.",
    "2h",
    "TIME",
)

ROUNDS: tuple[Setting[object], ...] = (EVERY, JITTER)

# Four times what the longest sweep (`--profile full`) takes on a large gpu; slower gpus repeat less.
LIMIT = Setting("limit", positive_duration, "Time that one gpu may take; then its process is ended.", "15m", "TIME")
ALL_AT_ONCE = Setting(
    "all-at-once",
    switch,
    "Then measure all gpus once more, at the same time, as they share the node's power and air. Those reports are "
    "compared only with their like.",
    "no",
    is_switch=True,
)

NODE_WIDE: tuple[Setting[object], ...] = (LIMIT, ALL_AT_ONCE)

WAIT = Setting(
    "wait",
    duration,
    "How long to wait for gpus that somebody uses; those that nobody uses are measured first.",
    "0s",
    "TIME",
)

DELIVERING: tuple[Setting[object], ...] = (SERVER, TOKEN_FILE, CA_FILE, ALLOW_PLAIN_HTTP)

MAX_AGE = Setting(
    "max-age",
    duration,
    "Answer from the last verdict on this node if it is no older; no gpu is touched.",
    metavar="TIME",
)
BASELINE = Setting("baseline", _path, "Hold against this file instead of the fleet.", metavar="PATH")
SAVE_BASELINE = Setting("save-baseline", _path, "Measure and keep the result as a baseline here.", metavar="PATH")
TOLERANCE = Setting(
    "tolerance", per_cent, "Loss against the baseline from which on a gpu is degraded.", "3%", "PERCENT"
)

CHECKED: tuple[Setting[object], ...] = (DEVICE, GPUS, DTYPE)
CHECKING: tuple[Setting[object], ...] = (MAX_AGE, BASELINE, SAVE_BASELINE, TOLERANCE)

STATE_DIR = Setting(
    "state-dir",
    _path,
    "Folder of spool and locks; without it /var/lib/fleetridge for root, else $XDG_STATE_HOME/fleetridge or "
    "~/.local/state/fleetridge.",
    metavar="PATH",
)
LOG_FORMAT = Setting(
    "log-format",
    one_of(*_LOG_FORMATS),
    "Logs for people (text) or for programs (json, one object a line); auto is json in a pod without a terminal.",
    "auto",
    "auto|text|json",
)

COMMON: tuple[Setting[object], ...] = (STATE_DIR, LOG_FORMAT)


def every_setting() -> tuple[Setting[object], ...]:
    """All settings of all commands, in the order of this file."""
    return tuple(value for value in globals().values() if isinstance(value, Setting))

"""The values that a command's settings resolve to: sweep options, the node's identity, the server, folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetridge.token_file import MOST_TOKEN_BYTES, token_of
from fleetridge.weight_shapes import served_model
from fleetridge_agent.config import options
from fleetridge_agent.config.setting_types import Setting, Source
from fleetridge_agent.deliver.server_address import Server, server_at
from fleetridge_agent.device.gemm_variants import MEASURED_DTYPES, variants_of
from fleetridge_agent.errors import UsageError
from fleetridge_agent.measurement_protocol import DeviceKind
from fleetridge_agent.readings.host import node_name
from fleetridge_agent.sweep.options import SweepOptions

if TYPE_CHECKING:
    from fleetridge.report import Node

_NAME = "fleetridge"

# Names of hosts and clusters as nearly all are; a report takes longer ones and stranger ones too.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")

# Filesystem Hierarchy Standard 3.0, 5.8: state of a program that runs for the whole host.
_SYSTEM_STATE = Path("/var/lib")

# Points behind the roofs (reference shapes, best shapes, streams) and shapes that stand for options not given.
_ROOM_FOR_ROOFS = 1024


def default_state_dir(environ: Mapping[str, str], *, is_root: bool, home: Path) -> Path:
    """
    State directory where none was named: /var/lib/fleetridge for root, else as the XDG base directories say.

    $XDG_STATE_HOME counts only when absolute, as its specification asks; without it ~/.local/state stands in.
    """
    if is_root:
        return _SYSTEM_STATE / _NAME
    named = Path(environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home / ".local" / "state") / _NAME


def read_token(path: Path) -> str:
    """
    Token in a file, without space around it.

    Raises:
        UsageError: the file cannot be read or holds no token. What it holds is never repeated.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--token-file: cannot read {path}: {error.strerror}; give a file with the token") from error
    token = token_of(content)
    if token is None:
        raise UsageError(f"--token-file: {path} holds no token; write the token alone into it, on one line")
    return token


def device_kind(source: Source) -> DeviceKind:
    """
    What kind of device to measure.

    Raises:
        UsageError: gpus are chosen where a CPU is measured.
    """
    kind = options.DEVICE.required(source)
    if kind == "cpu" and options.GPUS.given(source) is not None:
        raise UsageError("--gpus chooses among gpus, and --device cpu measures none; give one of the two")
    return kind


def chosen_gpus(source: Source) -> tuple[str, ...] | None:
    """CUDA numbers and UUIDs of the gpus that were chosen; None for all, as by the word and where none was."""
    chosen = options.GPUS.value(source)
    return None if chosen is None or options.ALL_GPUS in chosen else chosen


def measures_all_gpus(source: Source) -> bool:
    """Whether every gpu of the node is measured, and none was chosen."""
    return device_kind(source) == "cuda" and chosen_gpus(source) is None


def sweep_options(source: Source, *, shows_shapes: bool = False) -> SweepOptions:
    """
    Options of the sweep.

    Args:
        source: options and variables.
        shows_shapes: whether squares and weight shapes are measured unless a profile is chosen.

    Raises:
        UsageError: a value is wrong, or the model cannot be split so.
    """
    model, tp = options.MODEL.required(source), options.TP.required(source)
    try:
        weights = served_model(model).divided_by(tp)
    except ValueError as error:
        raise UsageError(f"--model, --tp: {error}") from error
    chosen = SweepOptions(
        mode=options.MODE.required(source),
        profile=options.PROFILE.value(source) or "standard",
        dtypes=options.DTYPE.value(source) or (),
        square=options.SQUARE.value(source),
        m_sweep=options.M_SWEEP.value(source),
        model=model,
        tensor_parallel=tp,
        buffer_mib=options.BUFFER_MIB.value(source),
        warmup=options.WARMUP_CALLS.value(source),
        reps=options.TIMED_CALLS.value(source),
        all_shapes=shows_shapes and options.PROFILE.given(source) is None,
        force=bool(options.FORCE.value(source)),
    )
    _require_room_in_report(chosen, weights=len(weights))
    return chosen


def _require_room_in_report(chosen: SweepOptions, *, weights: int) -> None:
    """A sweep of hours must not end in a report that cannot be made."""
    from fleetridge.report.model import MAX_POINTS  # noqa: PLC0415 # as in `node_of`

    dtypes = MEASURED_DTYPES if chosen.profile == "full" and not chosen.dtypes else chosen.dtypes
    variants = sum(len(variants_of(dtype)) for dtype in dtypes) or 1
    points = variants * (len(chosen.square or ()) + weights * len(chosen.m_sweep or ()))
    if points > MAX_POINTS - _ROOM_FOR_ROOFS:
        raise UsageError(
            f"--square, --m-sweep, --dtype: these make {points} shapes, and a report holds "
            f"{MAX_POINTS - _ROOM_FOR_ROOFS}; ask for fewer"
        )


def node_of(source: Source) -> Node:
    """
    The node that reports speak of; what is not given is found out.

    Raises:
        UsageError: a name or label cannot be sent.
    """
    from pydantic import ValidationError  # noqa: PLC0415 # as the line below

    from fleetridge.report import Node  # noqa: PLC0415 # a tenth of a second that commands which send nothing do without

    try:
        return Node(
            cluster=options.CLUSTER.required(source),
            name=_name(source),
            labels=options.LABEL.value(source) or {},
        )
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise UsageError(f"--cluster, --node, --label: {faults}") from error


def node_name_of(source: Source) -> str:
    """
    Name of the node alone, by which its files are found.

    Raises:
        UsageError: a name or label cannot be sent.
    """
    name = _name(source)
    is_plain = all(_PLAIN_NAME.fullmatch(word) for word in (name, options.CLUSTER.required(source)))
    # What every report takes need not be held against the model of one.
    return name if is_plain and options.LABEL.given(source) is None else node_of(source).name or ""


def _name(source: Source) -> str:
    return options.NODE.value(source) or node_name(source.environ)


def server_of(source: Source) -> Server:
    """
    The server that takes the reports.

    Raises:
        UsageError: none is named, its address is wrong, or the token cannot be read or would travel in the clear.
    """
    url = options.SERVER.required(source)
    token_file = options.TOKEN_FILE.value(source)
    return server_at(
        url,
        token=None if token_file is None else read_token(token_file),
        allow_plain_http=bool(options.ALLOW_PLAIN_HTTP.value(source)),
        ca_file=options.CA_FILE.value(source),
    )


def state_dir(source: Source, *, is_root: bool) -> Path:
    """
    Folder of spool and locks.

    Raises:
        UsageError: none is named, and this user has no home to look for it in.
    """
    named = options.STATE_DIR.value(source)
    if named is not None:
        return named
    try:
        return default_state_dir(source.environ, is_root=is_root, home=Path.home())
    except RuntimeError as error:  # a container's user that is in no list of users
        raise UsageError("--state-dir: this user has no home directory; name a folder that it may write to") from error


def arguments_of(
    command: str, source: Source, settings: Sequence[Setting[object]] = options.MEASURING
) -> tuple[str, ...]:
    """
    The command line as a report repeats it: the command and what was chosen of the measuring, by option or variable.

    Paths, addresses and names stay out, as they may say more than a measurement needs to.
    """
    chosen = [(setting, setting.given(source)) for setting in settings]
    words = [
        word
        for setting, text in chosen
        if text is not None
        for word in (setting.option, *(() if setting.is_switch else text.split()))
    ]
    return (command, *words)

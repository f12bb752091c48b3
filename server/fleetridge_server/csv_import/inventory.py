"""
A CSV file of expected nodes and gpus.

Pure: lines in, expectations out, or every fault by its line. A line is about one gpu (by UUID, or by its place in the
node) or about a node and how many gpus it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, ValidationError

from fleetridge.device_names import canonical_device_name, folded_identity, is_identity
from fleetridge.report.field_types import SmallCountReading, TextReading, WireModel
from fleetridge.report.origin import MAX_ROSTER
from fleetridge_server.csv_import.lines import (
    BadRow,
    Header,
    HeaderError,
    RowError,
    faults_of,
    header_in,
    require_distinct,
    values_in,
    whole,
)
from fleetridge_server.problems import FieldError

if TYPE_CHECKING:
    from fleetridge_server.fleet.expected import ExpectedGpu


class InventoryLine(WireModel):
    """
    One line.

    Attributes:
        cluster: None for the one that the command names.
        gpu: UUID; pci_bus_id, index: its place in the node, where nobody knows the UUID.
        device: model, by any name that a driver gives it; None where nobody says.
        gpus: how many the node has, on a line about the node.
    """

    cluster: TextReading = None
    node: TextReading = None
    gpu: TextReading = None
    pci_bus_id: TextReading = None
    index: Annotated[SmallCountReading, BeforeValidator(whole)] = None
    device: TextReading = None
    gpus: Annotated[SmallCountReading, Field(ge=1, le=MAX_ROSTER), BeforeValidator(whole)] = None

    @property
    def is_about_a_gpu(self) -> bool:
        """Whether it is about one gpu, else about the node."""
        return self.gpu is not None or self.pci_bus_id is not None or self.index is not None


COLUMNS = tuple(InventoryLine.model_fields)


class BadInventoryError(ValueError):
    """A file with lines that are no expectation; nothing of it may count."""

    def __init__(self, bad: Sequence[BadRow]) -> None:
        lines = "1 bad line" if len(bad) == 1 else f"{len(bad)} bad lines"
        super().__init__(f"{lines}; nothing was stored, put them right and import the file again")
        self.bad = tuple(bad)


@dataclass
class _Lines:
    """Good lines by cluster, node and device, and what each thing was named by, for telling it from the second time."""

    cluster: str
    groups: dict[tuple[str, str, str | None], list[InventoryLine]] = field(default_factory=lambda: defaultdict(list))
    named: dict[tuple[object, ...], int] = field(default_factory=dict)

    def add(self, number: int, line: InventoryLine) -> list[FieldError]:
        """Faults of a line; one without any is kept."""
        faults = list(_faults(line))
        if line.node is None or faults:
            return faults
        cluster = line.cluster or self.cluster
        device = None if line.device is None else canonical_device_name(line.device) or line.device
        for column, name in _names(cluster, line.node, device, line):
            earlier = self.named.setdefault(name, number)
            if earlier != number:
                faults.append(
                    FieldError(field=column, problem=f"stands on line {earlier} already; leave one of them out")
                )
        if not faults:
            self.groups[cluster, line.node, device].append(line)
        return faults


def expectations(lines: Iterable[str], cluster: str) -> Mapping[str, list[ExpectedGpu]]:
    """
    What a CSV text expects of each cluster that it is about.

    Args:
        lines: of the text, the header first.
        cluster: of lines that name none; a file without lines expects nothing of it.

    Raises:
        HeaderError: the first line does not name the columns that are needed.
        BadInventoryError: lines that are no expectation.
    """
    filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    header = _header(next(filled, (0, ""))[1])
    kept, bad = _Lines(cluster), []
    for number, text in filled:
        try:
            faults = kept.add(number, _line(text, header))
        except RowError as error:
            faults = list(error.errors)
        if faults:
            bad.append(BadRow(number, tuple(faults)))
    if bad:
        raise BadInventoryError(bad)
    found: dict[str, list[ExpectedGpu]] = defaultdict(list)
    for (of_cluster, node, device), group in kept.groups.items():
        found[of_cluster] += _expected(node, device, group)
    return found or {cluster: []}


def _header(line: str) -> Header:
    header = header_in(line, COLUMNS)
    if "node" not in header.columns:
        raise HeaderError(f"the first line names no node; it has to name columns out of {', '.join(COLUMNS)}")
    require_distinct(header)
    return header


def _line(text: str, header: Header) -> InventoryLine:
    try:
        line = InventoryLine.model_validate(values_in(text, header, COLUMNS))
    except ValidationError as error:
        raise RowError(faults_of(error)) from error
    return line if line.gpu is None else line.model_copy(update={"gpu": folded_identity(line.gpu)})


def _faults(line: InventoryLine) -> Iterator[FieldError]:
    if line.node is None:
        yield FieldError(field="node", problem="empty; name the node as its agent does")
    if line.gpu is not None and not is_identity(line.gpu):
        yield FieldError(
            field="gpu", problem=f"{line.gpu!r} is nobody's UUID; leave it empty and give pci_bus_id or index"
        )
    if line.gpus is not None and line.is_about_a_gpu:
        problem = "beside gpu, pci_bus_id or index; a line is about one gpu, or about how many a node has"
        yield FieldError(field="gpus", problem=problem)


def _names(
    cluster: str, node: str, device: str | None, line: InventoryLine
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """What only one line may be about, with the column that says so."""
    if line.gpu is not None:
        yield "gpu", ("gpu", line.gpu)
    if line.pci_bus_id is not None:
        yield "pci_bus_id", ("pci_bus_id", cluster, node, line.pci_bus_id.casefold())
    if line.index is not None:
        yield "index", ("index", cluster, node, line.index)
    if not line.is_about_a_gpu:
        yield "node", ("node", cluster, node, device)


def _expected(node: str, device: str | None, lines: Sequence[InventoryLine]) -> Iterator[ExpectedGpu]:
    """
    Expectations of one device in one node.

    A gpu that is known by its place alone is counted, not named: it would be another one as soon as its driver says
    its UUID.
    """
    from fleetridge_server.fleet.expected import ExpectedGpu  # noqa: PLC0415 # the help of a command names columns only

    gpus = [line for line in lines if line.is_about_a_gpu]
    for line in gpus:
        if line.gpu is not None:
            yield ExpectedGpu(node, line.gpu, device)
    counts = [line.gpus for line in lines if line.gpus is not None]
    if any(line.gpu is None for line in gpus):
        counts.append(len(gpus))
    if counts or not gpus:
        yield ExpectedGpu(node, None, device, max(counts, default=None))

"""What is to be simulated: products, nodes, days."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetridge.device_names import canonical_device_name, device_slug
from fleetridge.peaks import published_beta, published_pi
from fleetridge_server.simulate.faults import Order

_MIB = 1024**2

# What an H200 reached of its published peaks in measurements: 842 of 989 TFLOP/s and 4430 of 4800 GB/s.
_PI_OF_PUBLISHED = 0.851
_BETA_OF_PUBLISHED = 0.923


@dataclass(frozen=True, slots=True)
class Product:
    """
    A product, as its driver describes it.

    Attributes:
        device: name that the driver gives.
        dtypes: that simulated agents multiply.
        sm_clock_max_mhz, memory_clock_max_mhz: the highest that the driver allows.
        sustained_clock_mhz: where the power governor settles under full load.
        gemm: M, K, N of the agents' reference shape on so many multiprocessors.
    """

    device: str
    architecture: str
    dtypes: tuple[str, ...]
    sm_count: int
    memory_bytes: int
    l2_bytes: int
    sm_clock_max_mhz: float
    sustained_clock_mhz: float
    memory_clock_max_mhz: float
    memory_bus_bits: int
    power_limit_w: float
    pcie_generation: int
    gemm: tuple[int, int, int]

    def pi_tflops(self, dtype: str) -> float:
        """Burst rate that a healthy one reaches in a dtype."""
        peak = published_pi(self.device, dtype)
        assert peak is not None  # noqa: S101 # of every dtype in the table below, which a test goes through
        return _PI_OF_PUBLISHED * peak.value

    @property
    def beta_gbps(self) -> float:
        """Rate at which a healthy one reads."""
        peak = published_beta(self.device)
        assert peak is not None  # noqa: S101 # as above
        return _BETA_OF_PUBLISHED * peak.value


# Memory, clocks, bus and limits as nvidia-smi shows them for each.
_PRODUCTS = (
    Product(
        device="NVIDIA H200",
        architecture="sm_90",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=132,
        memory_bytes=150_754_820_096,
        l2_bytes=60 * _MIB,
        sm_clock_max_mhz=1980.0,
        sustained_clock_mhz=1470.0,
        memory_clock_max_mhz=3201.0,
        memory_bus_bits=6144,
        power_limit_w=700.0,
        pcie_generation=5,
        gemm=(4608, 13568, 5632),
    ),
    Product(
        device="NVIDIA H100 80GB HBM3",
        architecture="sm_90",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=132,
        memory_bytes=81_559 * _MIB,
        l2_bytes=50 * _MIB,
        sm_clock_max_mhz=1980.0,
        sustained_clock_mhz=1480.0,
        memory_clock_max_mhz=2619.0,
        memory_bus_bits=5120,
        power_limit_w=700.0,
        pcie_generation=5,
        gemm=(4608, 13568, 5632),
    ),
    Product(
        device="NVIDIA A100-SXM4-80GB",
        architecture="sm_80",
        dtypes=("bfloat16", "tf32"),
        sm_count=108,
        memory_bytes=81_920 * _MIB,
        l2_bytes=40 * _MIB,
        sm_clock_max_mhz=1410.0,
        sustained_clock_mhz=1290.0,
        memory_clock_max_mhz=1593.0,
        memory_bus_bits=5120,
        power_limit_w=400.0,
        pcie_generation=4,
        gemm=(4608, 13568, 4608),
    ),
    Product(
        device="NVIDIA B200",
        architecture="sm_100",
        dtypes=("bfloat16", "float8_e4m3fn"),
        sm_count=148,
        memory_bytes=183_359 * _MIB,
        l2_bytes=126 * _MIB,
        sm_clock_max_mhz=1965.0,
        sustained_clock_mhz=1500.0,
        memory_clock_max_mhz=3996.0,
        memory_bus_bits=8192,
        power_limit_w=1000.0,
        pcie_generation=5,
        gemm=(3072, 13568, 9472),
    ),
)

PRODUCTS: Mapping[str, Product] = {canonical_device_name(product.device): product for product in _PRODUCTS}
"""By canonical name."""


def product_named(device: str) -> Product | None:
    """Product that a name stands for; None for one whose figures are not known here."""
    return PRODUCTS.get(canonical_device_name(device))


GPUS_PER_NODE = 8
NODES_PER_RACK = 4

_DRIVER_REGRESSION = "driver_regression"


class PlanError(ValueError):
    """A fleet that cannot be made; the message says what to ask for instead."""


@dataclass(frozen=True, slots=True)
class Ask:
    """
    What was asked for.

    Attributes:
        gpus, days: how many, and for how many days one report of each a day.
        seed: the same seed gives the same fleet; another one gives other gpus on other nodes.
        noise: between runs of one gpu, as a standard deviation in parts of the value.
        until: end of the history.
    """

    silicon: Product
    gpus: int
    days: int
    seed: int
    noise: float
    until: datetime

    @property
    def name(self) -> str:
        """Word that all nodes and racks of this fleet begin with, so that two fleets share none."""
        return f"{device_slug(canonical_device_name(self.silicon.device))}-s{self.seed}"

    @property
    def nodes(self) -> int:
        """How many nodes it takes."""
        return -(-self.gpus // GPUS_PER_NODE)

    def positions(self, node: int) -> range:
        """Gpus of a node."""
        return range(node * GPUS_PER_NODE, min((node + 1) * GPUS_PER_NODE, self.gpus))

    def day(self, number: int) -> datetime:
        """Begin of a day of the history, counted from 0."""
        return self.until - timedelta(days=self.days - number)

    def random(self, *what: object) -> random.Random:
        """Source of randomness of its own for one thing, so that no thing depends on how many others there are."""
        return random.Random("/".join(map(str, (self.name, *what))))  # noqa: S311 # a simulation


@dataclass(frozen=True, slots=True)
class Plan:
    """
    A fleet with its faults.

    Attributes:
        faults: by position of the gpu; a gpu has one at most.
        upgraded: nodes that get the slower driver, whatever else their gpus have.
        regression: that driver; None where there is none.
    """

    ask: Ask
    faults: Mapping[int, Order]
    upgraded: frozenset[int] = frozenset()
    regression: Order | None = None

    def truth(self, position: int) -> Order | None:
        """What is wrong with a gpu: its own fault first."""
        if position in self.faults:
            return self.faults[position]
        return self.regression if position // GPUS_PER_NODE in self.upgraded else None

    def is_present(self, position: int, day: int) -> bool:
        """Whether a gpu is in its node on a day."""
        fault = self.faults.get(position)
        return fault is None or fault.kind.expected != "missing" or day < fault.first_day(self.ask.days)

    def has(self, position: int, name: str) -> bool:
        """Whether a gpu has a fault of this name."""
        fault = self.faults.get(position)
        return fault is not None and fault.name == name


def plan_of(ask: Ask, orders: Sequence[Order]) -> Plan:
    """
    Share faults out, each gpu one at most; faults of whole nodes come first.

    Raises:
        PlanError: more faults than gpus, or a history too short for one of them.
    """
    for order in orders:
        if order.kind.begins > 0 and order.first_day(ask.days) < 1:
            raise PlanError(f"{order.name} sets in later than the history begins; ask for at least 4 --days")
    rng = ask.random("faults")
    free = list(range(ask.nodes))
    rng.shuffle(free)
    regressions = [order for order in orders if order.name == _DRIVER_REGRESSION]
    if len(regressions) > 1:
        raise PlanError("driver_regression: one at a time; ask for one new driver")
    faults = dict(_of_nodes(ask, orders, free))
    positions = [position for node in sorted(free) for position in ask.positions(node)]
    rng.shuffle(positions)
    faults |= dict(_of_gpus(orders, positions))
    regression = regressions[0] if regressions else None
    return Plan(ask, faults, _upgraded(ask, regression), regression)


def _of_nodes(ask: Ask, orders: Sequence[Order], free: list[int]) -> Iterator[tuple[int, Order]]:
    for order in orders:
        if not order.kind.befalls_nodes or order.name == _DRIVER_REGRESSION:
            continue
        for _ in range(order.count or 1):
            if not free:
                raise PlanError(f"{order.name}: the fleet has {ask.nodes} nodes, all with a fault; ask for more --gpus")
            for position in ask.positions(free.pop()):
                yield position, order


def _of_gpus(orders: Sequence[Order], positions: list[int]) -> Iterator[tuple[int, Order]]:
    for order in orders:
        if order.kind.befalls_nodes:
            continue
        for _ in range(order.count or 1):
            if not positions:
                raise PlanError(f"{order.name}: every gpu has a fault already; ask for more --gpus")
            yield positions.pop(), order


def _upgraded(ask: Ask, regression: Order | None) -> frozenset[int]:
    if regression is None:
        return frozenset()
    wanted = regression.count or max(1, ask.nodes // 2)
    if wanted > ask.nodes:
        raise PlanError(f"driver_regression: the fleet has {ask.nodes} nodes, not {wanted}; ask for more --gpus")
    return frozenset(ask.random("upgraded").sample(range(ask.nodes), wanted))

"""Addresses of pages, charts and API routes, which keep the population and the time that a page is about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlencode

from fleetridge_server.compare.span import SIMULATED

_Value = str | int | datetime | None


def address(path: str, /, **parameters: _Value) -> str:
    """A path with a query; parameters without a value are left out."""
    given = {name: _written(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


@dataclass(frozen=True, slots=True)
class Links:
    """
    Addresses within one population, as of one time.

    Attributes:
        simulated: whether the page is about made-up gpus.
        as_of: time that was asked for; None for now.
    """

    simulated: bool = False
    as_of: datetime | None = None

    def fleet(self, **parameters: _Value) -> str:
        """Address of the page of the whole fleet."""
        return self.of("/", **parameters)

    def device(self, slug: str, part: str = "", /, **parameters: _Value) -> str:
        """A device, or a part of its page such as `compare` or `roofline.svg`."""
        return self.of(_below("/ui/devices", slug, part), **parameters)

    def gpu(self, gpu_id: str, part: str = "", /, **parameters: _Value) -> str:
        """A gpu, or a part of its page such as `history.svg`."""
        return self.of(_below("/ui/gpus", gpu_id, part), **parameters)

    def node(self, cluster: str, name: str) -> str:
        """A node, which is always shown as it is now."""
        return address(_below("/ui/nodes", name), cluster=cluster)

    def nodes(self, **parameters: _Value) -> str:
        """All nodes, which are always shown as they are now."""
        return address("/ui/nodes", **{"cluster": self.cluster, **parameters})

    def alerts(self, **parameters: _Value) -> str:
        """The alerts, which are always shown as they are now."""
        return address("/ui/alerts", **{"cluster": self.cluster, **parameters})

    def api(self, *path: str, **parameters: _Value) -> str:
        """A route of the API, by the parts of its path."""
        return self.of(_below("", *path), **parameters)

    @property
    def cluster(self) -> str | None:
        """Cluster that every address has to name."""
        return SIMULATED if self.simulated else None

    def of(self, path: str, /, **parameters: _Value) -> str:
        """An address within this population and time."""
        return address(path, **{"cluster": self.cluster, "as_of": self.as_of, **parameters})


def _below(*parts: str) -> str:
    head, *rest = parts
    return "/".join([head, *(quote(part, safe="") for part in rest if part)])


def _written(value: _Value) -> str:
    # "Z" rather than "+00:00", whose plus sign half of all tools read as a space.
    return f"{value.isoformat().removesuffix('+00:00')}Z" if isinstance(value, datetime) else str(value)

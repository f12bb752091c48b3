"""Ships the checkout's `migrations/` inside the server package, in real wheels only."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MigrationsHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling's hook is generic in a private class
    """
    Adds `migrations/` to a wheel as `fleetridge_server/migrations`.

    An editable install reads the checkout itself, so a copy there would only go stale.
    A build context without the server (the agent's image) has no migrations and needs none.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map the folder into a `standard` wheel when both it and the server are there."""
        root = Path(self.root)
        if version == "standard" and (root / "migrations").is_dir() and (root / "server").is_dir():
            build_data["force_include"][str(root / "migrations")] = "fleetridge_server/migrations"

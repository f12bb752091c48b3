"""
The frozen description of the API, `tests/fixtures/openapi.json`.

Run this file to renew it, and read the difference before it is committed: whatever is taken away or renamed there
breaks somebody's program.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from fleetridge_server.app import create_app
from fleetridge_server.settings import Settings

SNAPSHOT = Path(__file__).parents[1] / "fixtures" / "openapi.json"
RENEW = "python tests/support/describe_api.py"


@cache
def description() -> str:
    """The API's description as the code gives it, as JSON text; no database is opened."""
    app = create_app(Settings(database_url="sqlite:///unused.db"))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SNAPSHOT.write_text(description(), encoding="utf-8")

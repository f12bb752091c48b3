"""Times that tests share."""

from __future__ import annotations

from datetime import datetime, timezone

NOW = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
"""An hour after the reports of `support.reports` were measured."""

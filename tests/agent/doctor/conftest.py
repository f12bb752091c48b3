"""A node to examine."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.nodes import SickNode


@pytest.fixture
def node(tmp_path: Path) -> SickNode:
    """A node that is well, with a folder for its root."""
    return SickNode(tmp_path)

"""Lets tests of delivery read what it logs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from fleetridge_agent.log import LOGGER


@pytest.fixture(autouse=True)
def _logs_propagate() -> Iterator[None]:
    logger = logging.getLogger(LOGGER)
    before = logger.propagate
    logger.propagate = True
    yield
    logger.propagate = before

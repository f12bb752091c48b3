"""Tabs of a real browser on a server with a made-up fleet, and everything that goes wrong in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetridge_server.db.database import open_database
from support.distributions import CHECKOUT
from support.patience import patient_get
from support.server_process import server_process
from support.tokens import make_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

SCREENSHOTS = CHECKOUT / ".screenshots"

# Debian's name first; another Chromium can be named by the variable.
CHROMIUM = os.environ.get("CHROMIUM") or next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

GPUS = 64
ATTEMPTS = 300

# A machine with other work to do takes its time for a picture of a long page.
PATIENCE_MS = 180_000

FAULTS = (
    "power_cap:1:0.12",
    "thermal:1:0.08",
    "slow_memory:1:0.09",
    "driver_regression:1",
    "missing:1",
    "contention:1",
    "bad_node:1:0.07",
)


@dataclass(frozen=True)
class Site:
    """A server, and what a browser may show it."""

    url: str
    token: str = ""


@dataclass
class Tab:
    """A page of a browser, with everything that went wrong in it."""

    page: Page
    site: Site
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Go to a page of the site."""
        self.page.goto(f"{self.site.url}{path}")

    @property
    def path(self) -> str:
        """Where it is."""
        address: str = self.page.url
        return address.removeprefix(self.site.url)

    def watch(self) -> None:
        """Take note of errors, and of every request that leaves the site."""
        self.page.on("console", lambda message: self._note(message.type in ("error", "warning"), message.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("request", lambda request: self._note(not request.url.startswith(self.site.url), request.url))

    def _note(self, is_fault: bool, words: str) -> None:
        if is_fault:
            self.faults.append(words)

    def keep(self, name: str) -> Path:
        """Keep a picture of the whole page."""
        from playwright.sync_api import Error  # noqa: PLC0415 # no part of the environment of `make test`

        SCREENSHOTS.mkdir(exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        try:
            self.page.screenshot(path=path, full_page=True)
        except Error:
            # A browser short of processor time now and then gives no picture at all; a page that cannot be shown
            # gives none the second time either.
            self.page.screenshot(path=path, full_page=True)
        return path


@contextmanager
def simulated(database_url: str, token: str = "") -> Iterator[Site]:
    """A server whose simulated fleet was evaluated."""
    with server_process(database_url) as process:
        url = process.address()
        ingest = Path(database_url.removeprefix("sqlite:///")).with_suffix(".token")
        options = []
        if token:
            with closing(open_database(database_url)) as database:
                ingest.write_text(make_token(database, "ingest"), encoding="utf-8")
            ingest.chmod(0o600)
            options = ["--token-file", str(ingest)]
        faults = [word for fault in FAULTS for word in ("--fault", fault)]
        command = [sys.executable, "-m", "fleetridge_server.cli", "simulate", "--server", url, *options]
        subprocess.run([*command, "--gpus", str(GPUS), "--days", "14", *faults], check=True, capture_output=True)
        wait_for_verdicts(url, token)
        yield Site(url, token)


def wait_for_verdicts(url: str, token: str) -> None:
    """The server evaluates by itself, soon after reports arrive."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for _ in range(ATTEMPTS):
        fleet = patient_get(f"{url}/fleet?cluster=simulated", headers=headers).json()
        if sum(fleet["verdicts"].values()) == GPUS:
            return
        time.sleep(1)
    raise AssertionError("the server evaluated nothing within minutes")


@contextmanager
def tab_of(browser: Browser, site: Site, **options: Any) -> Iterator[Tab]:
    """A tab of a browser that nobody has used; errors of its pages fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, **options)
    context.set_default_timeout(PATIENCE_MS)
    tab = Tab(context.new_page(), site)
    tab.watch()
    yield tab
    context.close()
    assert tab.faults == []

"""Programs that check what is deployed; one that is missing fails its test with what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.distributions import CHECKOUT

# Debian 12 has a kubectl from before there were components and labels in a kustomization.
_KUBECTL = (
    "install kubectl 1.27 or newer (Debian 13: apt install kubernetes-client; Debian 12 and elsewhere: "
    "https://kubernetes.io/docs/tasks/tools)"
)
_REMEDIES = {
    "kubectl": _KUBECTL,
    "promtool": "apt install prometheus",
    "amtool": "apt install prometheus-alertmanager",
    "systemd-analyze": "apt install systemd",
    "systemd-sysusers": "apt install systemd",
}
_OF_THE_ENVIRONMENT = "`make test-deploy` installs it"

_BESIDE_PYTHON = Path(sys.executable).parent


def run_program(name: str, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """
    Run a program that must end with 0, in the checkout, whose files it names as its settings do.

    Args:
        name: of a program of this environment, or of the machine.
        arguments: of its command line.
        stdin: what it reads.
    """
    remedy = _REMEDIES.get(name, _OF_THE_ENVIRONMENT)
    program = shutil.which(name, path=f"{_BESIDE_PYTHON}{os.pathsep}{os.environ['PATH']}")
    assert program is not None, f"{name} is not here: {remedy}"
    done = subprocess.run([program, *arguments], check=False, capture_output=True, text=True, input=stdin, cwd=CHECKOUT)
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}(an old {name}? {remedy})"
    return done

"""The command line that runs one of our modules as a process of its own."""

from __future__ import annotations

import sys

# Python puts the current folder first where it looks for modules, and a process of ours starts wherever its parent
# stands: a script `queue.py` in somebody's home would be taken for the library's. Python 3.10 cannot leave it out.
_WITHOUT_FOLDER = ("-P",) if sys.version_info >= (3, 11) else ()


def module_command(module: str) -> tuple[str, ...]:
    """Command that runs a module of ours with this Python; what stands in the current folder does not matter."""
    return (sys.executable, *_WITHOUT_FOLDER, "-m", module)

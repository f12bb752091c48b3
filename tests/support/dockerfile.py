"""
Dockerfiles, read and carried out without an engine: stages become folders, base images become environments of Python.

What an engine does that matters here is done: arguments, variables, working folders, exactly the files of each COPY,
and each RUN as a shell line. Absolute paths of the image are read as paths below the stage's folder.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Where the Dockerfiles put things; what else is absolute (an interpreter, a device) is the machine's own.
_OF_THE_IMAGE = re.compile(r"""(?<![\w.}$/"'-])/(?=(?:tmp|dist|src|var)\b)""")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, with continued lines joined and comments dropped."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Arguments, of the form of a list in JSON or of words."""
        return list(json.loads(self.text)) if self.text.startswith("[") else shlex.split(self.text)


@dataclass(frozen=True, slots=True)
class Stage:
    """From one FROM to the next."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def last(self, name: str) -> Instruction:
        """The instruction of this name that counts."""
        return [instruction for instruction in self.instructions if instruction.name == name][-1]

    def variables(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = [word.split("=", 1) for each in self.instructions if each.name == "ENV" for word in each.words]
        return {name: value for name, value in pairs}  # noqa: C416 # pairs are lists, which dict() takes untyped


@dataclass
class Built:
    """A stage that was carried out: its folder, and the variables and the working folder at its end."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    folder: Path = Path()

    def place(self, path: str) -> Path:
        """Where a path of the image is."""
        return self.root / path.lstrip("/") if path.startswith("/") else self.folder / path


def read_stages(dockerfile: Path) -> list[Stage]:
    """Stages of a Dockerfile; arguments before the first FROM belong to the bases alone."""
    stages: list[Stage] = []
    for instruction in _instructions(dockerfile.read_text(encoding="utf-8")):
        if instruction.name == "FROM":
            base, *named = instruction.text.split()
            stages.append(Stage(named[-1] if named else "", base, ()))
        elif stages:
            before = stages[-1]
            stages[-1] = Stage(before.name, before.base, (*before.instructions, instruction))
    return stages


def carry_out(
    stages: list[Stage],
    context: Path,
    scratch: Path,
    *,
    base: Callable[[Stage, Path], Mapping[str, str]],
    arguments: Mapping[str, str],
) -> list[Built]:
    """
    Carry out all stages.

    Args:
        stages: of one Dockerfile.
        context: folder that COPY takes from.
        scratch: empty folder for theirs.
        base: makes what a stage stands on in its folder; the variables with which its commands are found.
        arguments: as given to `docker build --build-arg`.
    """
    done: dict[str, Built] = {}
    for number, stage in enumerate(stages):
        root = scratch / f"stage-{number}"
        (root / "tmp").mkdir(parents=True)
        built = Built(root, dict(base(stage, root)), root)
        for instruction in stage.instructions:
            _carry_out(instruction, built, done, context, arguments)
        done[stage.name or str(number)] = built
    return list(done.values())


def _carry_out(
    instruction: Instruction, built: Built, done: Mapping[str, Built], context: Path, arguments: Mapping[str, str]
) -> None:
    if instruction.name == "ARG":
        name, _, default = instruction.text.partition("=")
        built.variables[name] = arguments.get(name, default)
    elif instruction.name == "ENV":
        for word in instruction.words:
            name, _, value = word.partition("=")
            built.variables[name] = re.sub(r"\$\{(\w+)\}", lambda found: built.variables.get(found[1], ""), value)
    elif instruction.name == "WORKDIR":
        built.folder = built.place(instruction.text)
        built.folder.mkdir(parents=True, exist_ok=True)
    elif instruction.name == "COPY":
        _copy(instruction, built, done, context)
    elif instruction.name == "RUN":
        line = _OF_THE_IMAGE.sub(f"{built.root}/", instruction.text)
        ran = subprocess.run(
            ["/bin/sh", "-c", line], check=False, capture_output=True, text=True, cwd=built.folder, env=built.variables
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"


def _copy(instruction: Instruction, built: Built, done: Mapping[str, Built], context: Path) -> None:
    *sources, target = [word for word in instruction.words if not word.startswith("--")]
    origin = next((word.partition("=")[2] for word in instruction.words if word.startswith("--from=")), None)
    place = built.place(target)
    for source in sources:
        path = context / source if origin is None else done[origin].place(source)
        if path.is_dir():
            shutil.copytree(path, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            into = place / path.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into)


def _instructions(text: str) -> list[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]

"""The images, without an engine: each Dockerfile's files and lines, carried out in clean environments."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

import fleetridge
from fleetridge_agent import cli as agent_cli
from fleetridge_server.commands import arguments as server_arguments
from support.distributions import CHECKOUT
from support.dockerfile import Built, Stage, carry_out, read_stages
from support.environments import asked_by, make_environment, needed_by

DOCKERFILES = ("Dockerfile", "Dockerfile.gpu")
BASES = {
    "a slim Python": {"TORCH_VERSION": version("torch").partition("+")[0], "CONTAINER_IMAGE": "registry/agent:1"},
    "an image that brings torch": {"TORCH_VERSION": ""},
    "another index": {"TORCH_VERSION": version("torch").partition("+")[0], "TORCH_INDEX_URL": "https://index.invalid"},
}

# Only an administrator may give a folder away; who it would have been given to is written down instead.
_INSTALL = """#!/bin/sh
for last in "$@"; do :; done
echo "$@" > "$last.given"
mkdir -p "$last"
"""


@dataclass(frozen=True)
class Image:
    """What came of a Dockerfile."""

    stages: list[Stage]
    built: list[Built]

    @property
    def wheel(self) -> Path:
        """The wheel that the first stage left."""
        (found,) = (self.built[0].root / "dist").glob("*.whl")
        return found

    @property
    def packages(self) -> set[str]:
        """Packages in the wheel."""
        with ZipFile(self.wheel) as archive:
            return {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name}

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Start a program of the image."""
        image = self.built[-1]
        home = str(image.root / "tmp")
        return subprocess.run(
            [image.root / "environment" / "bin" / command[0], *command[1:]],
            check=False,
            capture_output=True,
            text=True,
            cwd=image.folder,
            env={**image.variables, "HOME": home, **variables},
        )


def make_image(dockerfile: str, extra: str, scratch: Path, arguments: Mapping[str, str]) -> Image:
    """
    Carry out a Dockerfile.

    What pip would fetch is there already, and no index is asked: the first stage has the tools that build, the last one
    what the extra asks for, and neither has anything else.
    """

    def base(_stage: Stage, root: Path) -> Mapping[str, str]:
        wheels = list(scratch.glob("*/dist/*.whl"))
        wanted = asked_by(wheels[0], extra) if wheels else ["build", "hatchling"]
        commands = make_environment(root / "environment", needed_by(wanted) | {"pip"})
        shims = root / "shims"
        shims.mkdir()
        (shims / "install").write_text(_INSTALL, encoding="utf-8")
        (shims / "install").chmod(0o755)
        return {
            "PATH": f"{shims}:{commands}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    stages = read_stages(CHECKOUT / dockerfile)
    return Image(stages, carry_out(stages, CHECKOUT, scratch, base=base, arguments=arguments))


@pytest.fixture(scope="module")
def server_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return make_image("Dockerfile", "server", tmp_path_factory.mktemp("server"), {})


@pytest.fixture(scope="module", params=list(BASES.values()), ids=list(BASES))
def agent_image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    return make_image("Dockerfile.gpu", "agent", tmp_path_factory.mktemp("agent"), request.param)


def test_the_image_of_the_server_holds_no_agent(server_image: Image) -> None:
    assert server_image.packages == {"fleetridge", "fleetridge_server"}
    assert server_image.run("python", "-c", "import fleetridge_agent").returncode == 1
    assert server_image.run("python", "-c", "import torch").returncode == 1


def test_the_image_of_the_agent_holds_no_server(agent_image: Image) -> None:
    assert agent_image.packages == {"fleetridge", "fleetridge_agent"}
    assert agent_image.run("python", "-c", "import fleetridge_server").returncode == 1
    assert agent_image.run("python", "-c", "import fastapi").returncode == 1


def test_the_command_of_the_agent_starts(agent_image: Image) -> None:
    [command] = agent_image.stages[-1].last("ENTRYPOINT").words
    assert agent_image.run(command, "--version").stdout.split()[-1] == fleetridge.__version__
    assert "check" in agent_image.run(command, "--help").stdout
    assert agent_image.run("python", "-c", "import torch").returncode == 0


def test_the_agent_runs_what_the_image_says_and_knows_its_variables(agent_image: Image) -> None:
    """Up to the setting that no image can know: the server's address."""
    image = agent_image.stages[-1]
    agent_cli._parser().parse_args(image.last("CMD").words)
    done = agent_image.run(*image.last("ENTRYPOINT").words, *image.last("CMD").words)
    assert done.returncode == 2
    assert "--server is needed" in done.stderr
    assert "is no setting of this agent" not in done.stderr


def test_the_server_starts_and_brings_its_own_migrations(server_image: Image, tmp_path: Path) -> None:
    [command] = server_image.stages[-1].last("ENTRYPOINT").words
    assert server_image.run(command, "--version").stdout.split()[-1] == fleetridge.__version__
    assert "serve" in server_image.run(command, "--help").stdout
    done = server_image.run(command, "migrate", DATABASE_URL=f"sqlite:///{tmp_path / 'fleet.db'}")
    assert done.returncode == 0, done.stderr
    server_arguments.parser().parse_args(server_image.stages[-1].last("CMD").words)


def test_the_image_of_the_server_asks_for_a_decision_before_it_is_open_to_a_network(
    server_image: Image, tmp_path: Path
) -> None:
    """It listens on all addresses, since a container must, and refuses until somebody says that this is meant."""
    database_url = f"sqlite:///{tmp_path / 'fleet.db'}"
    server_image.run("fleetridge-server", "migrate", DATABASE_URL=database_url)
    done = server_image.run("fleetridge-server", "serve", DATABASE_URL=database_url)
    assert done.returncode == 2
    assert "--trust-network" in done.stderr


def test_the_agent_s_pins_leave_torch_alone_and_miss_nothing_else(agent_image: Image) -> None:
    pins = (agent_image.built[0].root / "dist" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    beside_torch = needed_by(asked_by(agent_image.wheel, "agent")) - needed_by(["torch"])
    pinned = {line.partition("==")[0] for line in pins}
    assert beside_torch <= pinned
    assert "torch" not in pinned


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_runs_as_a_numbered_user_who_owns_its_state(dockerfile: str) -> None:
    stage = read_stages(CHECKOUT / dockerfile)[-1]
    user, _, group = stage.last("USER").text.partition(":")
    assert int(user) > 0
    assert int(group) > 0
    [owned] = [each.text for each in stage.instructions if each.name == "RUN" and "install --directory" in each.text]
    assert f"--owner={user} --group={group}" in owned
    assert owned.endswith(stage.last("WORKDIR").text)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_every_file_that_is_copied_reaches_the_engine(dockerfile: str) -> None:
    """The list of what is kept back names all else."""
    shown = {line[1:] for line in (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").split() if line[0] == "!"}
    copies = [
        instruction.words[:-1]
        for stage in read_stages(CHECKOUT / dockerfile)
        for instruction in stage.instructions
        if instruction.name == "COPY" and "--from=" not in instruction.text
    ]
    assert {source for words in copies for source in words} <= shown


def test_the_image_of_the_agent_names_itself_in_reports() -> None:
    image = read_stages(CHECKOUT / "Dockerfile.gpu")[-1]
    assert image.variables()["FLEETRIDGE_CONTAINER_IMAGE"] == "${CONTAINER_IMAGE}"
    assert image.variables()["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_bases_are_pinned_to_a_patch_and_the_file_says_how_to_renew_them(dockerfile: str) -> None:
    text = (CHECKOUT / dockerfile).read_text(encoding="utf-8")
    bases = re.findall(r"^ARG \w*IMAGE=(\S+)$", text, flags=re.MULTILINE)
    assert bases
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base) for base in bases)
    assert set(re.findall(r"^FROM \$\{(\w+)\}", text, flags=re.MULTILINE)) == set(
        re.findall(r"^ARG (\w+)=python", text, flags=re.MULTILINE)
    )
    assert "# To renew" in text


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_says_what_it_is(dockerfile: str) -> None:
    labels = read_stages(CHECKOUT / dockerfile)[-1].last("LABEL").text
    for name in ("title", "description", "licenses"):
        assert f"org.opencontainers.image.{name}=" in labels


def test_torch_lies_below_our_own_code_so_that_a_new_version_of_ours_is_small() -> None:
    runs = [each.text for each in read_stages(CHECKOUT / "Dockerfile.gpu")[-1].instructions]
    [torch] = [number for number, text in enumerate(runs) if "torch==" in text]
    [ours] = [number for number, text in enumerate(runs) if "--from=wheel" in text]
    assert torch < ours

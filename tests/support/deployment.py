"""What is deployed: the files, the command lines in them, and the variables that they set."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from support.distributions import CHECKOUT
from support.dockerfile import read_stages

DEPLOY = CHECKOUT / "deploy"

AGENT, SERVER = "fleetridge-agent", "fleetridge-server"

# What ends a command in a line of shell.
_END = re.compile(r"\s(?:2>|>|\||&&|;)|[);]|$", flags=re.MULTILINE)
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def texts() -> dict[str, str]:
    """Every text file of the deployment, by its path in the checkout."""
    files = [*DEPLOY.rglob("*"), *CHECKOUT.glob("Dockerfile*"), CHECKOUT / "docker-compose.yml"]
    return {
        str(path.relative_to(CHECKOUT)): path.read_text(encoding="utf-8")
        for path in sorted(files)
        if path.is_file() and path.suffix != ".pyc"
    }


def documents(path: Path) -> list[Any]:
    """Documents of a file in YAML."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def compose() -> Any:
    """The compose file, with its merges done."""
    (document,) = documents(CHECKOUT / "docker-compose.yml")
    return document


def manifests() -> Iterator[tuple[str, Any]]:
    """Every Kubernetes object that is written down, and where."""
    for path in sorted((DEPLOY / "kustomize").rglob("*.yaml")):
        for document in documents(path):
            if document["kind"] not in ("Kustomization", "Component"):
                yield str(path.relative_to(CHECKOUT)), document


def containers(manifest: Any) -> list[Any]:
    """Containers of an object that makes pods, those that start first included."""
    spec = pod_of(manifest).get("spec", {})
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def pod_of(manifest: Any) -> Any:
    """What an object makes its pods after, their labels included; empty for one that makes none."""
    spec = manifest.get("spec", {})
    return spec.get("jobTemplate", {}).get("spec", spec).get("template", {})


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command line of ours in a deployment: where it stands, and its words with the program first."""
    for name in ("Dockerfile", "Dockerfile.gpu"):
        image = read_stages(CHECKOUT / name)[-1]
        yield name, [*image.last("ENTRYPOINT").words, *image.last("CMD").words]
    for service, settings in compose()["services"].items():
        program = settings["image"].partition(":")[0]
        if program in (AGENT, SERVER):
            yield f"docker-compose.yml, {service}", [program, *settings["command"]]
    for place, manifest in manifests():
        for container in containers(manifest):
            if container["image"] in (AGENT, SERVER) and "command" not in container:
                yield place, [container["image"], *container["args"]]
    for name in ("systemd", "slurm", "node-problem-detector"):
        for path in sorted((DEPLOY / name).iterdir()):
            if path.suffix != ".json":
                yield from _in_shell(path)


def plugin_arguments() -> list[list[str]]:
    """What node-problem-detector gives to each of its plugins of ours."""
    plugin = json.loads((DEPLOY / "node-problem-detector" / "fleetridge.json").read_text(encoding="utf-8"))
    return [rule["args"] for rule in plugin["rules"]]


def _in_shell(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Commands in a script, a unit or a crontab; variables with a default stand for it."""
    lines = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    text = _DEFAULT.sub(r"\1", re.sub(r"\\\n\s*", "", lines))
    for found in re.finditer(rf"(?:{AGENT}|{SERVER}) (?=[a-z])", text):
        rest = text[found.start() :]
        end = _END.search(rest)
        assert end is not None
        command = rest[: end.start()]
        arguments = plugin_arguments() if '"$@"' in command else [[]]
        for more in arguments:
            yield str(path.relative_to(CHECKOUT)), [*shlex.split(command.replace('"$@"', "")), *more]


def environments() -> Iterator[tuple[str, list[str], Mapping[str, str]]]:
    """Every set of variables that a deployment gives to a program of ours: where, its command, and the variables."""
    images = {
        program: read_stages(CHECKOUT / name)[-1].variables()
        for program, name in ((SERVER, "Dockerfile"), (AGENT, "Dockerfile.gpu"))
    }
    for service, settings in compose()["services"].items():
        program = settings["image"].partition(":")[0]
        if program in images:
            command = [program, *settings["command"]]
            yield f"docker-compose.yml, {service}", command, {**images[program], **settings["environment"]}
    maps = {
        document["metadata"]["name"]: document["data"] for _, document in manifests() if document["kind"] == "ConfigMap"
    }
    for place, manifest in manifests():
        for container in containers(manifest):
            if container["image"] in images and "command" not in container:
                shared = [maps[source["configMapRef"]["name"]] for source in container.get("envFrom", ())]
                own = {each["name"]: each["value"] for each in container.get("env", ()) if "value" in each}
                merged = {name: value for settings in (*shared, own) for name, value in settings.items()}
                command = [container["image"], *container["args"]]
                yield place, command, {**images[container["image"]], **merged}
    yield "deploy/systemd/agent.env", [AGENT, "run"], env_file(DEPLOY / "systemd" / "agent.env")
    yield "deploy/systemd/server.env", [SERVER, "serve"], env_file(DEPLOY / "systemd" / "server.env")


def env_file(path: Path) -> dict[str, str]:
    """Variables of a file as systemd and a shell read it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: " ".join(shlex.split(value)) for name, _, value in pairs}

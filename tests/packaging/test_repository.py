"""Promises about the checkout itself: its layout, its lint exceptions, its pins, and the commands in its pages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("core", "agent", "server", "migrations", "deploy", "bench", "tests", "hatch_build.py")


def read(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):.*## ", read("Makefile"), flags=re.MULTILINE))


def make_commands(text: str) -> set[str]:
    """Targets of the `make …` commands in a page, in code spans or code blocks."""
    return set(re.findall(r"(?:^|`|\$ )make ([a-z-]+)", text, flags=re.MULTILINE))


def python_files() -> list[Path]:
    roots = [CHECKOUT / name for name in SOURCES]
    return [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*.py")))]


def table(name: str) -> str:
    """Text of one table of pyproject.toml."""
    _, _, rest = read("pyproject.toml").partition(f"\n[{name}]\n")
    return rest.partition("\n[")[0]


def test_the_folders_of_the_checkout_are_no_modules(tmp_path: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('agent', 'server', 'core', 'migrations') if u.find_spec(n)])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["tool.ruff.lint", "tool.ruff.lint.per-file-ignores"])
def test_every_lint_rule_that_is_switched_off_has_its_reason(name: str) -> None:
    switched_off = [
        line for line in table(name).splitlines() if re.search(r'"[A-Z]{1,4}\d*",?', line) and "select" not in line
    ]
    assert switched_off
    assert [line for line in switched_off if not re.search(r"# \S+ \S+", line)] == []


def test_every_silenced_line_names_the_rule_and_the_reason() -> None:
    silenced = re.compile(r"# (?:noqa|type: ignore)\b(?!: [A-Z]+\d+(?:, ?[A-Z]+\d+)* # \S)(?!\[[\w, -]+\] # \S)")
    found = {
        f"{path.relative_to(CHECKOUT)}:{number}"
        for path in python_files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if silenced.search(line)
    }
    assert found == set()


def test_every_pin_is_exact() -> None:
    lines = [line for line in read("constraints.txt").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.match(r"[a-z0-9._-]+==[\w.]+( ;.*)?$", line)] == []


def test_every_dependency_is_pinned() -> None:
    wanted = set(re.findall(r'"([a-z0-9-]+)(?:\[\w+\])?>=', table("project") + table("project.optional-dependencies")))
    pinned = {line.partition("==")[0] for line in read("constraints.txt").splitlines()}
    assert {"torch", "pydantic"} <= wanted
    assert wanted <= pinned


def test_the_guide_for_contributors_names_every_make_target() -> None:
    assert make_targets() <= make_commands(read("CONTRIBUTING.md"))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_make_command_in_a_page_exists(page: str) -> None:
    commands = make_commands(read(page)) | set(re.findall(r"^(?:exec )?make ([a-z-]+)", read(page), flags=re.MULTILINE))
    assert commands
    assert commands <= make_targets()


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_place_that_a_page_names_exists(page: str) -> None:
    folders = "core|agent|server|migrations|deploy|bench|tests|docs"
    places = re.findall(rf"`((?:(?:{folders})/[\w./-]*|[\w-]+\.(?:md|toml|txt)|hatch_build\.py))`", read(page))
    assert places
    assert [place for place in places if not (CHECKOUT / place).exists()] == []


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in read("README.md")
    assert re.search(r'^(?:exec )?make test(?: ARGS=".*")?$', read(".ci/run"), flags=re.MULTILINE)

"""The page about operations, followed to the letter as far as a test can, by somebody who knows nothing else."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetridge_agent import cli as agent_cli
from fleetridge_server.commands import arguments as server_arguments
from support.deployment import AGENT, DEPLOY, SERVER
from support.distributions import CHECKOUT

PAGE = (CHECKOUT / "docs" / "operations.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
OVERLAYS = sorted(path.name for path in (DEPLOY / "kustomize" / "overlays").iterdir())

# Absolute paths of the node that is installed; /bin and /dev are the machine's own.
_OF_THE_NODE = re.compile(r"(?<![\w.])/(?=(?:etc|opt|usr|var)/)")

# What stands in for programs that only an administrator may call. An account must be there before it is given a file.
_PROGRAMS = {
    "apt": "",
    "systemctl": "",
    "journalctl": "",
    "curl": "",
    "node-problem-detector": 'test -f "${1#*=}"',
    "systemd-sysusers": """sed -n 's/^u \\([^ ]*\\) .*/\\1/p' "$ROOT"/usr/lib/sysusers.d/*.conf >> "$ROOT/accounts" """,
    "useradd": 'for last in "$@"; do :; done; echo "$last" >> "$ROOT/accounts"',
    "install": """
for word in "$@"; do
    case "$word" in
    --owner=*|--group=*)
        grep --quiet --line-regexp "${word#*=}" "$ROOT/accounts" || { echo "no account: $word" >&2; exit 1; } ;;
    *) set -- "$@" "$word" ;;
    esac
    shift
done
exec /usr/bin/install "$@"
""",
    # `python3 -m venv FOLDER`, and the pip in it, which makes the commands of the extra.
    "root/usr/bin/python3": """
mkdir -p "$3/bin"
printf '#!/bin/sh\\ncase "$2" in *agent*) n=agent ;; *server*) n=server ;; esac\\n' > "$3/bin/pip"
printf 'printf "#!/bin/sh\\\\n" > "%s/fleetridge-$n"; chmod 755 "%s/fleetridge-$n"\\n' "$3/bin" "$3/bin" >> "$3/bin/pip"
chmod 755 "$3/bin/pip"
""",
}


@dataclass(frozen=True)
class Node:
    """A machine on which the page was followed."""

    folder: Path

    def path(self, path: str) -> Path:
        """A path of the machine."""
        return self.folder / "root" / path.lstrip("/")

    def mode(self, path: str) -> int:
        """Mode of a file."""
        return stat.S_IMODE(self.path(path).stat().st_mode)

    def follow(self, section: str) -> None:
        """Give an administrator's commands of a section, in their order, and stop at the first that fails."""
        lines = [line[2:] for block in blocks(section) for line in block.splitlines() if line.startswith("# ")]
        assert lines, section
        script = _OF_THE_NODE.sub(f"{self.folder}/root/", "\n".join(line for line in lines if "run() {" not in line))
        script = re.sub(r"^.*\brun fleetridge-.*$", "", script, flags=re.MULTILINE)
        done = subprocess.run(
            ["/bin/bash", "-e", "-c", script],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={"PATH": f"{self.folder}:/usr/bin:/bin", "ROOT": str(self.folder / "root")},
        )
        assert done.returncode == 0, f"{section}: {done.stderr}"


def blocks(section: str) -> list[str]:
    """What is to be typed in a section of the page."""
    _, _, rest = PAGE.partition(f"\n### {section}\n")
    assert rest, section
    return re.findall(
        r"^```console\n(.*?)^```", re.split(r"^##", rest, flags=re.MULTILINE)[0], flags=re.MULTILINE | re.DOTALL
    )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    for folder in ("etc/systemd/system", "etc/cron.d", "usr/bin", "opt", "var/lib"):
        made.path(folder).mkdir(parents=True)
    made.path("accounts").touch()
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / "token").write_text("flr_x\n", encoding="utf-8")
    for name, text in _PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return made


@pytest.mark.parametrize(
    ("section", "unit"),
    [
        ("systemd", "fleetridge-agent.service"),
        ("The server on one machine: pip and systemd", "fleetridge-server.service"),
    ],
)
def test_after_the_steps_for_systemd_everything_that_the_unit_names_is_there(
    node: Node, section: str, unit: str
) -> None:
    node.follow(section)
    text = node.path(f"/etc/systemd/system/{unit}").read_text(encoding="utf-8")
    [program] = re.findall(r"^ExecStart=(\S+)", text, flags=re.MULTILINE)
    assert node.path(program).stat().st_mode & stat.S_IXOTH
    [settings] = re.findall(r"^EnvironmentFile=-?(\S+)", text, flags=re.MULTILINE)
    given = node.path(settings).read_text(encoding="utf-8")
    for name in re.findall(r"^FLEETRIDGE_TOKEN_FILE=(\S+)$", given, flags=re.MULTILINE):
        assert node.mode(name) == 0o600
    [account] = re.findall(r"^User=(\S+)", text, flags=re.MULTILINE)
    assert account in node.path("accounts").read_text(encoding="utf-8").split()


def test_the_server_s_settings_which_may_hold_a_password_are_no_business_of_others(node: Node) -> None:
    node.follow("The server on one machine: pip and systemd")
    assert node.mode("/etc/fleetridge/server.env") == 0o640


def test_after_the_steps_for_cron_there_is_an_account_with_a_folder_and_a_crontab_that_cron_reads(node: Node) -> None:
    node.follow("cron")
    crontab = node.path("/etc/cron.d/fleetridge")
    # cron leaves out files with a dot in their name, and those that others may write.
    assert stat.S_IMODE(crontab.stat().st_mode) == 0o644
    user = re.findall(r"^\d+ \d+ \* \* \* (\S+)", crontab.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert user == node.path("accounts").read_text(encoding="utf-8").split()
    assert node.mode("/var/lib/fleetridge") == 0o755


def test_after_the_steps_for_slurm_the_programs_of_slurm_conf_are_there(node: Node) -> None:
    node.follow("Slurm")
    programs = re.findall(r"^(?:HealthCheckProgram|Prolog|Epilog)=(\S+)$", PAGE, flags=re.MULTILINE)
    assert len(programs) == 3
    for program in programs:
        assert node.mode(program) == 0o755
        [settings] = re.findall(r"FLEETRIDGE_SLURM_ENV:-([^}]+)", node.path(program).read_text(encoding="utf-8"))
        assert node.mode(settings) == 0o644


def test_after_the_steps_for_the_detector_its_plugin_is_where_it_looks(node: Node) -> None:
    node.follow("node-problem-detector")
    [path] = re.findall(r'"path": "([^"]+)"', (DEPLOY / "node-problem-detector" / "fleetridge.json").read_text())
    assert node.mode(path) == 0o755


def test_every_file_that_the_page_names_is_in_the_checkout() -> None:
    named = {name.rstrip(".") for name in re.findall(r"(?<![\w/])deploy/[\w./{},-]*\w", PAGE)}
    assert len(named) > 15
    missing = []
    for name in named - {"deploy/prometheus/fleetridge-token"}:  # made by one of the steps
        start, _, rest = name.partition("{")
        inner, _, end = rest.partition("}")
        missing += [
            f"{start}{word}{end}" for word in inner.split(",") if not (CHECKOUT / f"{start}{word}{end}").exists()
        ]
    assert missing == []


def test_every_overlay_is_on_the_page() -> None:
    assert [overlay for overlay in OVERLAYS if f"`{overlay}`" not in PAGE] == []


def test_every_command_on_the_page_is_one_that_the_program_takes() -> None:
    """Where it stands in a line to be typed, and where nothing is left out of it."""
    fenced = "".join(re.findall(r"^```\w*\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    found = [
        match[0]
        for line in re.findall(r"^(?:[$#]|\d+ \d+ \* \* \* \S+) (.*)$", fenced, flags=re.MULTILINE)
        for match in re.finditer(rf"(?<![=/\w-])(?:{AGENT}|{SERVER}) [a-z][^|>&;)#]*", line)
        if "…" not in match[0]
    ]
    assert len(found) >= 15
    for command in found:
        program, *words = shlex.split(command)
        parser = agent_cli._parser() if program == AGENT else server_arguments.parser()
        parser.parse_args([word for word in words if word != "2"])


def test_a_secret_is_never_written_where_others_may_read_it() -> None:
    """A redirection makes a file by the umask of whoever types."""
    for block in CONSOLE:
        for line in block.splitlines():
            if re.search(r"(?:token create|PASSWORD=).*>", line) and "token 1 '" not in block:
                assert "umask 077" in block, line

"""
What Slurm runs on a node, with stand-ins for Slurm and the real agent: by exit code, by call and by time.

A verdict is written as a check of the gpus leaves it, and read by `fleetridge-agent check --max-age`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from fleetridge_agent.check.last_verdict import keep_last, verdict_path
from fleetridge_agent.check.verdict import GpuVerdict, RoofVerdict, State
from support.deployment import DEPLOY

NODE = "n017"
HOUR = timedelta(hours=1)
OWN = "fleetridge: degraded: gpu 0 -14.8 % in bfloat16 burst"

# Slurm kills a health check then.
SLURM_PATIENCE_S = 60

REAL_AGENT = f'#!/bin/sh\nexec {sys.executable} -m fleetridge_agent.cli "$@"\n'
HANGING_AGENT = "#!/bin/sh\nexec sleep 600\n"
BROKEN_AGENT = f"#!/bin/sh\nexec {sys.executable} -c 'import no_such_module'\n"
ABSENT_AGENT = "#!/bin/sh\nexit 127\n"

RECORDER = '#!/bin/sh\necho "${0##*/} $*" >> "$CALLS"\n'

# Reasons of the nodes, as Slurm 22.05 prints them.
SINFO = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "$*" in
*--states=drain*) cat "$STANDINS/drained" ;;
*) cat "$STANDINS/reason" ;;
esac
"""

# As the real one, and as impatient as a test.
TIMEOUT = """#!/bin/sh
while case "$1" in --*) true ;; *) false ;; esac; do shift; done
echo "$1" >> "$STANDINS/limits"
shift
exec /usr/bin/timeout 0.2 "$@"
"""


# For tests in which nothing hangs: a busy machine may take longer than a node should.
PATIENT = """#!/bin/sh
while case "$1" in --*) true ;; *) false ;; esac; do shift; done
shift
exec "$@"
"""


@dataclass(frozen=True)
class Slurm:
    """A node's surroundings, and what was called in them."""

    folder: Path

    def script(self, name: str, text: str) -> None:
        """Put a program on the path."""
        path = self.folder / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def verdict(self, state: State, *, age: timedelta = HOUR) -> None:
        """Leave a verdict as a check did then."""
        value = 720.0 if state == "degraded" else 845.0
        roof = RoofVerdict(
            roof="bfloat16 burst", unit="TFLOP/s", value=value, state=state, median=845.0, lowest=820.0, peers=40
        )
        verdict = GpuVerdict(
            uuid="GPU-1",
            index=0,
            device="NVIDIA H200",
            state=state,
            reason="no band" if state == "unknown" else "",
            judged_at=datetime.now(timezone.utc) - age,
            roofs=(roof,),
        )
        keep_last(self.folder / "state", NODE, [verdict], all_gpus=True)

    def configure(self, **settings: str) -> None:
        """Write slurm.env, the shipped one with some settings changed."""
        shipped = (DEPLOY / "slurm" / "slurm.env").read_text(encoding="utf-8")
        changes = "".join(f"FLEETRIDGE_SLURM_{name}={value}\n" for name, value in settings.items())
        own = f"FLEETRIDGE_STATE_DIR={self.folder / 'state'}\nFLEETRIDGE_NODE={NODE}\n"
        self.settings(shipped + own + changes)

    def settings(self, text: str) -> None:
        """Write slurm.env as an operator might have."""
        path = f"PATH={self.folder / 'bin'}:$PATH\n"
        (self.folder / "slurm.env").write_text(path + text, encoding="utf-8")

    def reason(self, reason: str) -> None:
        """What Slurm says of this node."""
        (self.folder / "reason").write_text(f"{reason}\n", encoding="utf-8")

    def drained(self, *nodes: str) -> None:
        """What Slurm says of those that are drained: name and reason of each."""
        (self.folder / "drained").write_text("".join(f"{node}\n" for node in nodes), encoding="utf-8")

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Start one of the scripts as slurmd does, which sets no PATH."""
        return subprocess.run(
            [DEPLOY / "slurm" / script],
            check=False,
            capture_output=True,
            text=True,
            env={
                "CALLS": str(self.folder / "calls"),
                "STANDINS": str(self.folder),
                "SLURMD_NODENAME": NODE,
                "FLEETRIDGE_SLURM_ENV": str(self.folder / "slurm.env"),
                **variables,
            },
        )

    def health_check(self) -> list[str]:
        """Run the health check, which never fails; the calls that change something."""
        done = self.run("fleetridge-healthcheck.sh")
        assert (done.returncode, done.stderr) == (0, "")
        return [call for call in self.calls() if call.startswith("scontrol ")]

    def calls(self) -> list[str]:
        """What was called."""
        path = self.folder / "calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    made = Slurm(tmp_path)
    (tmp_path / "bin").mkdir()
    made.script("fleetridge-agent", REAL_AGENT)
    made.script("timeout", PATIENT)
    made.script("sinfo", SINFO)
    for name in ("scontrol", "logger", "systemctl"):
        made.script(name, RECORDER)
    made.reason("none")
    made.drained()
    made.configure()
    return made


def test_the_shipped_settings_change_no_node_and_say_what_is_known(slurm: Slurm) -> None:
    slurm.verdict("degraded")
    assert slurm.health_check() == []
    [said] = slurm.calls()
    assert said.startswith(f"logger --tag fleetridge-healthcheck -- {NODE}: degraded: gpu 0 -14.8 %")
    assert "not drained" in said


def test_a_degraded_node_is_drained_with_what_was_found_as_the_reason(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes")
    slurm.verdict("degraded")
    [call] = slurm.health_check()
    assert call.startswith(f"scontrol update NodeName={NODE} State=DRAIN Reason={OWN}")


@pytest.mark.parametrize(
    ("state", "age"),
    [("degraded", 60 * HOUR), ("unknown", HOUR), ("ok", HOUR), ("degraded", -5 * HOUR)],
    ids=["stale", "unknown", "ok", "from a clock that ran ahead"],
)
def test_nothing_else_than_a_fresh_degraded_verdict_drains(slurm: Slurm, state: State, age: timedelta) -> None:
    slurm.configure(DRAIN="yes")
    slurm.verdict(state, age=age)
    assert slurm.health_check() == []


def test_a_node_that_was_never_checked_is_left_alone(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes", ENFORCE="yes")
    assert slurm.health_check() == []
    assert slurm.run("fleetridge-prolog.sh").returncode == 0


@pytest.mark.parametrize("agent", [BROKEN_AGENT, ABSENT_AGENT], ids=["cannot be imported", "is not there"])
def test_an_agent_that_does_not_work_drains_nothing_and_holds_no_job(slurm: Slurm, agent: str) -> None:
    """A Python without its modules also ends with 1."""
    slurm.configure(DRAIN="yes", ENFORCE="yes")
    slurm.verdict("degraded")
    slurm.script("fleetridge-agent", agent)
    assert slurm.health_check() == []
    assert slurm.run("fleetridge-prolog.sh").returncode == 0


@pytest.mark.parametrize("name", ["fleetridge-agent", "sinfo", "scontrol"])
def test_whatever_hangs_the_health_check_ends_before_slurm_loses_patience(slurm: Slurm, name: str) -> None:
    slurm.configure(DRAIN="yes")
    slurm.verdict("degraded")
    slurm.script("timeout", TIMEOUT)
    slurm.script("fleetridge-agent", "#!/bin/sh\necho degraded: gpu 0\nexit 1\n")
    slurm.script(name, HANGING_AGENT)
    assert slurm.health_check() == []
    limits = (slurm.folder / "limits").read_text(encoding="utf-8").split()
    assert sum(map(int, limits)) < SLURM_PATIENCE_S


def test_every_step_of_the_health_check_together_ends_in_time(slurm: Slurm) -> None:
    """A node that is drained goes through all of them."""
    slurm.configure(DRAIN="yes")
    slurm.script("timeout", TIMEOUT)
    slurm.script("fleetridge-agent", "#!/bin/sh\necho degraded: gpu 0\nexit 1\n")
    assert len(slurm.health_check()) == 1
    limits = (slurm.folder / "limits").read_text(encoding="utf-8").split()
    assert len(limits) == 5
    assert sum(map(int, limits)) < SLURM_PATIENCE_S


def test_an_agent_that_hangs_holds_no_job(slurm: Slurm) -> None:
    slurm.configure(ENFORCE="yes")
    slurm.script("timeout", TIMEOUT)
    slurm.script("fleetridge-agent", HANGING_AGENT)
    assert slurm.run("fleetridge-prolog.sh").returncode == 0
    assert int((slurm.folder / "limits").read_text(encoding="utf-8")) <= 10


@pytest.mark.parametrize("said", ["", "echo degraded: gpu 0; exit 1"], ids=["silent", "after its word"])
def test_a_process_that_an_agent_left_behind_holds_no_job(slurm: Slurm, said: str) -> None:
    """One of a session of its own keeps the pipe open, and no signal to the agent ends it."""
    slurm.configure(ENFORCE="yes")
    slurm.script("timeout", TIMEOUT)
    slurm.script("read-no-longer", "#!/bin/sh\nexec sleep 600\n")
    slurm.script(
        "fleetridge-agent", f"#!/bin/sh\nsetsid read-no-longer & echo $! > {slurm.folder}/left\n{said}\nwait\n"
    )
    try:
        assert slurm.run("fleetridge-prolog.sh").returncode == (1 if said else 0)
    finally:
        os.kill(int((slurm.folder / "left").read_text(encoding="utf-8")), signal.SIGKILL)


@pytest.mark.parametrize(
    "settings",
    [
        "FLEETRIDGE_NODE=$NO_SUCH_VARIABLE",
        "exit 1",
        "set -e\nfalse",
        ": ${X:?missing}",
        'X="open',
        "X = yes",
        "set -u -e -x",
    ],
)
@pytest.mark.parametrize("script", ["prolog", "healthcheck", "epilog"])
def test_a_mistake_in_the_settings_fails_nothing(slurm: Slurm, script: str, settings: str) -> None:
    """The file is the same on every node, so a failing prolog or epilog would drain all of them."""
    slurm.verdict("degraded")
    slurm.settings(f"{settings}\n")
    assert slurm.run(f"fleetridge-{script}.sh", SLURM_JOB_EXIT_CODE="256").returncode == 0
    assert [call for call in slurm.calls() if call.startswith(("scontrol", "systemctl"))] == []


@pytest.mark.parametrize("limit", ["abc", "08x", "2.5", '"2 nodes"', "-1", "0", "99999999999999999999"])
def test_a_limit_that_is_no_number_drains_nothing(slurm: Slurm, limit: str) -> None:
    """Bash would take the error for a limit that is not reached."""
    slurm.verdict("degraded")
    slurm.configure(DRAIN="yes", MOST_DRAINED=limit)
    assert slurm.health_check() == []
    assert "not drained" in slurm.calls()[-1]


def test_a_limit_is_a_decimal_number_whatever_stands_before_it(slurm: Slurm) -> None:
    slurm.verdict("degraded")
    slurm.configure(DRAIN="yes", MOST_DRAINED="08")
    slurm.drained(*(f"n{number:03} {OWN}" for number in range(8)))
    assert slurm.health_check() == []
    slurm.drained(*(f"n{number:03} {OWN}" for number in range(7)))
    assert len(slurm.health_check()) == 1


@pytest.mark.parametrize("name", ["sinfo", "scontrol"])
def test_commands_of_slurm_that_fail_are_told(slurm: Slurm, name: str) -> None:
    """As where they lie outside the usual folders."""
    slurm.verdict("degraded")
    slurm.configure(DRAIN="yes")
    slurm.script(name, "#!/bin/sh\nexit 127\n")
    slurm.health_check()
    assert name in slurm.calls()[-1]
    assert slurm.calls()[-1].startswith("logger ")


# What may lie where a verdict should.
def garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff degraded: \n$(reboot)")


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def too_large(path: Path) -> None:
    path.write_bytes(b" " * (5 * 1024**2) + path.read_bytes())


def link_to_a_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another_node(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(NODE, "n018"), encoding="utf-8")


@pytest.mark.parametrize(
    "spoil", [garbage, nothing, too_large, link_to_a_device, link_to_nowhere, pipe, folder, of_another_node]
)
def test_a_verdict_that_cannot_be_read_drains_nothing_and_holds_no_job(
    slurm: Slurm, spoil: Callable[[Path], None]
) -> None:
    slurm.configure(DRAIN="yes", ENFORCE="yes")
    slurm.verdict("degraded")
    assert slurm.run("fleetridge-prolog.sh").returncode == 1
    spoil(verdict_path(slurm.folder / "state", NODE))
    assert slurm.run("fleetridge-prolog.sh").returncode == 0
    assert slurm.health_check() == []


@pytest.mark.parametrize("name", ["n-1.rack_7", "n017;reboot", "n 017", "$(reboot)", "n[1-3]", "ñ017", "--help"])
def test_a_node_s_name_is_never_more_than_a_name(slurm: Slurm, name: str) -> None:
    slurm.configure(DRAIN="yes")
    slurm.script("fleetridge-agent", "#!/bin/sh\necho degraded: gpu 0\nexit 1\n")
    slurm.script("scontrol", '#!/bin/sh\nprintf "%s|" "$@" >> "$CALLS"\n')
    slurm.run("fleetridge-healthcheck.sh", SLURMD_NODENAME=name)
    assert f"update|NodeName={name}|State=DRAIN|Reason=fleetridge: degraded: gpu 0|" in "".join(slurm.calls())


def test_what_an_agent_says_reaches_slurm_without_what_a_shell_or_a_terminal_would_read(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes")
    slurm.script("fleetridge-agent", "#!/bin/sh\nprintf 'degraded: \\033[2J$(reboot) `x` \"a=b\" gpu 0\\n'\nexit 1\n")
    [call] = slurm.health_check()
    assert call.endswith("Reason=fleetridge: degraded: 2Jreboot x ab gpu 0")


def test_no_more_nodes_are_drained_than_the_settings_allow(slurm: Slurm) -> None:
    """Those that others drained do not count, and a node in two partitions counts once."""
    slurm.configure(DRAIN="yes", MOST_DRAINED="2")
    slurm.verdict("degraded")
    slurm.drained(f"n001 {OWN}", f"n001 {OWN}", "n002 disk", "n003 disk")
    assert len(slurm.health_check()) == 1
    (slurm.folder / "calls").unlink()
    slurm.drained(f"n001 {OWN}", f"n002 {OWN}")
    assert slurm.health_check() == []
    assert "2 nodes are drained already" in slurm.calls()[-1]


def test_a_node_that_is_drained_already_is_not_drained_again(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes")
    slurm.verdict("degraded")
    for reason in (f"{OWN}, 1 h ago", "disk"):
        slurm.reason(reason)
        assert slurm.health_check() == []


def test_its_own_drain_is_lifted_once_the_verdict_is_ok(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes")
    slurm.reason(OWN)
    slurm.verdict("ok")
    assert slurm.health_check() == [f"scontrol update NodeName={NODE} State=RESUME"]


def test_a_drain_of_somebody_else_s_is_never_lifted(slurm: Slurm) -> None:
    slurm.configure(DRAIN="yes")
    slurm.verdict("ok")
    for reason in ("disk", "none", "Prolog error"):
        slurm.reason(reason)
        assert slurm.health_check() == []


@pytest.mark.parametrize("state", ["degraded", "unknown"])
def test_an_old_verdict_lifts_no_drain(slurm: Slurm, state: State) -> None:
    slurm.configure(DRAIN="yes")
    slurm.reason(OWN)
    slurm.verdict(state, age=60 * HOUR)
    assert slurm.health_check() == []


def test_the_prolog_lets_every_job_pass_unless_it_is_told_to_enforce(slurm: Slurm) -> None:
    slurm.verdict("degraded")
    assert slurm.run("fleetridge-prolog.sh").returncode == 0


def test_the_prolog_fails_on_a_degraded_verdict_alone(slurm: Slurm) -> None:
    slurm.configure(ENFORCE="yes")
    outcomes = {}
    for name, state, age in (
        ("fresh", "degraded", HOUR),
        ("stale", "degraded", 60 * HOUR),
        ("ok", "ok", HOUR),
        ("unknown", "unknown", HOUR),
    ):
        slurm.verdict(state, age=age)  # type: ignore[arg-type] # words of the table above
        outcomes[name] = slurm.run("fleetridge-prolog.sh")
    assert {name: done.returncode for name, done in outcomes.items()} == {"fresh": 1, "stale": 0, "ok": 0, "unknown": 0}
    assert outcomes["fresh"].stderr.startswith("fleetridge: degraded: gpu 0 -14.8 %")
    assert slurm.calls() == []


@pytest.mark.parametrize(
    ("status", "measured"),
    [("0", False), ("256", True), ("139", True), ("15", False), ("9", False), ("1:0", False), ("abc", False)],
    ids=["done", "failed", "crashed", "cancelled", "killed", "in another form", "garbage"],
)
def test_the_epilog_has_a_node_measured_after_a_job_that_failed(slurm: Slurm, status: str, *, measured: bool) -> None:
    """Where that is wanted, and without waiting for it."""
    slurm.configure(MEASURE_AFTER_FAILURE="yes")
    done = slurm.run("fleetridge-epilog.sh", SLURM_JOB_EXIT_CODE=status)
    assert done.returncode == 0
    assert slurm.calls() == (["systemctl start --no-block fleetridge-agent.service"] if measured else [])


def test_the_epilog_does_nothing_unless_it_is_told_to_and_never_fails(slurm: Slurm) -> None:
    slurm.script("systemctl", "#!/bin/sh\nexit 1\n")
    assert slurm.run("fleetridge-epilog.sh", SLURM_JOB_EXIT_CODE="256").returncode == 0
    slurm.configure(MEASURE_AFTER_FAILURE="yes")
    assert slurm.run("fleetridge-epilog.sh", SLURM_JOB_EXIT_CODE="256").returncode == 0

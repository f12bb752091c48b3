"""`fleetridge-agent flush` where something stands in its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from fleetridge_agent.deliver.spool import Spool
from fleetridge_agent.lock import spool_lock
from support.agent_commands import AgentNode, Ended
from support.spools import spooled

Agent = Callable[..., Ended]

FLUSH = ("flush", "--server", "https://f.example")


def waiting(node: AgentNode) -> int:
    return Spool(node.state_dir).count()


def test_a_spool_that_another_agent_delivers_is_left_to_it(agent: Agent, node: AgentNode) -> None:
    spooled(Spool(node.state_dir), 2)
    with spool_lock(node.state_dir):
        ended = agent(*FLUSH)

    assert ended.code == 4
    assert "another fleetridge-agent holds the delivery" in ended.stderr
    assert not node.posts
    assert waiting(node) == 2


def test_a_spool_that_cannot_be_listed_fails_the_flush(agent: Agent, node: AgentNode) -> None:
    node.state_dir.mkdir(parents=True, exist_ok=True)
    (node.state_dir / "spool").write_text("in the way")
    ended = agent(*FLUSH)

    assert ended.code == 1
    assert "--state-dir" in ended.stderr


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (httpx.Response(401), "--token-file"),
        (httpx.Response(403, text="<html>blocked by policy</html>"), "a proxy lets nothing through"),
        (httpx.Response(200, text="<html>log in to the network</html>"), "not a fleetridge server"),
        (httpx.Response(302, headers={"location": "http://login.example/"}), "http://login.example/"),
    ],
)
def test_whatever_is_not_the_servers_word_on_a_report_leaves_it_in_the_spool(
    agent: Agent, node: AgentNode, answer: httpx.Response, remedy: str
) -> None:
    spooled(Spool(node.state_dir), 8)
    node.server = lambda _: httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)
    ended = agent(*FLUSH)

    assert ended.code == 0
    assert remedy in ended.stderr
    assert "wait in the spool for the next run or `fleetridge-agent flush`: 8" in ended.stderr
    assert waiting(node) == 8
    assert not list(Path(node.state_dir / "dead-letter").glob("*"))

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from tempfile import TemporaryFile
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from fleetridge_server.serve import ListenError, drain_time_s, listening, require_safe_host
from fleetridge_server.settings import Settings
from support.patience import PATIENCE_S, patient_client, patient_get, patient_post
from support.reports import make_report
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.databases import PostgresDatabases, SqliteDatabases


@pytest.mark.both_databases
def test_a_server_says_its_address_answers_and_ends_in_good_order(empty_database_url: str) -> None:
    """From an empty database, with one command."""
    report = make_report()
    with server_process(empty_database_url, "--migrate") as server:
        address = server.address()
        answers = [
            patient_post(f"{address}/reports", json=report),
            patient_get(f"{address}/reports/{report['report_id']}"),
        ]
        code = server.stop()

    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[1].json() == report
    assert "server" not in answers[1].headers
    assert code == 0


def test_a_call_that_is_in_hand_is_finished(sqlite_databases: SqliteDatabases) -> None:
    """A report whose body is on its way when the signal comes is stored and answered."""
    body = json.dumps(make_report()).encode()
    head = (
        f"POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
        "Connection: close\r\n\r\n"
    )
    with server_process(sqlite_databases.create(migrated=True)) as server:
        where = urlsplit(server.address())
        with socket.create_connection((where.hostname, where.port or 80), PATIENCE_S) as connection:
            connection.sendall(head.encode())
            waiting = connection.recv(1024)  # the server has the call in hand and wants its body
            server.process.terminate()
            connection.sendall(body)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        code = server.process.wait(PATIENCE_S)

    assert waiting.startswith(b"HTTP/1.1 100")
    assert answer.startswith(b"HTTP/1.1 201")
    assert code == 0


def test_a_server_that_is_told_to_end_is_first_not_ready_and_answers_on(sqlite_databases: SqliteDatabases) -> None:
    """So that proxies send elsewhere before it takes no more connections; a second signal ends the wait."""
    url = sqlite_databases.create(migrated=True)
    with server_process(url, environment={"FLEETRIDGE_SERVER_DRAIN": "60"}) as server:
        with patient_client(server.address()) as client:
            before = client.get("/readyz")
            server.process.terminate()
            after = _until(lambda: client.get("/readyz"), lambda answer: answer.status_code != 200)
            stored = patient_post(f"{client.base_url}/reports", json=make_report())
        code = server.stop()

    assert (before.status_code, after.status_code, after.json()["code"]) == (200, 503, "ending")
    assert after.headers["retry-after"]
    assert stored.status_code == 201
    assert code == 0


@pytest.mark.parametrize(
    ("settings", "drain_s"),
    [
        (Settings(), 0),
        (Settings(host="0.0.0.0"), 5),  # noqa: S104 # where a proxy may stand before it
        (Settings(drain=timedelta(seconds=9)), 9),
    ],
)
def test_a_server_drains_where_a_proxy_may_stand_before_it(settings: Settings, drain_s: float) -> None:
    """Or where it is told to."""
    assert drain_time_s(settings) == drain_s


def test_a_server_that_is_ready_keeps_the_collector_from_its_modules(database_url: str) -> None:
    """Looking at all of them takes a tenth of a second, in which nobody is answered."""
    program = (
        "import gc, os, signal\n"
        "from fleetridge_server.serve import serve\n"
        "from fleetridge_server.settings import Settings\n"
        "def end(address):\n"
        "    print(gc.get_freeze_count())\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        f"serve(Settings(port=0, database_url={database_url!r}), on_ready=end)\n"
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert int(told.stdout) > 10_000


def test_no_part_of_an_answer_waits_for_the_client_to_acknowledge_another() -> None:
    """Connections send at once (TCP_NODELAY): with Nagle's algorithm each answer took 40 ms longer."""
    with listening(Settings(port=0)) as listener, socket.create_connection(listener.getsockname()[:2], PATIENCE_S):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def _until(ask: Callable[[], httpx.Response], is_enough: Callable[[httpx.Response], bool]) -> httpx.Response:
    until_s = time.monotonic() + PATIENCE_S
    while not is_enough(answer := ask()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return answer


def test_four_replicas_that_start_at_once_all_come_up(postgres_databases: PostgresDatabases) -> None:
    """On an empty database, each migrating first."""
    url = postgres_databases.create(migrated=False)
    with ExitStack() as stack:
        servers = [stack.enter_context(server_process(url, "--migrate")) for _ in range(4)]
        statuses = [patient_get(f"{server.address()}/readyz").status_code for server in servers]
        codes = [server.stop() for server in servers]
    postgres_databases.drop(url)

    assert statuses == [200] * 4
    assert codes == [0] * 4


def test_a_second_server_of_one_file_ends_at_once(sqlite_databases: SqliteDatabases) -> None:
    """While the first goes on."""
    url = sqlite_databases.create(migrated=True)
    with server_process(url) as first, server_process(url) as second:
        # Either may be the one that comes first.
        addresses = [first.address(), second.address()]
        running = [server for server, address in zip((first, second), addresses, strict=True) if address]
        [loser] = [server for server in (first, second) if server not in running]

        assert len(running) == 1
        assert loser.process.wait(PATIENCE_S) == 1
        assert patient_get(f"{max(addresses)}/livez").status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_may_be_served_without_tokens(host: str) -> None:
    """Whoever is on it may read the file anyway."""
    require_safe_host(Settings(host=host), has_token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gpu-head.example", ""])  # noqa: S104 # what is refused
def test_a_network_is_not_served_without_tokens_unless_it_is_trusted(host: str) -> None:
    """The sentence says why, and what to do."""
    with pytest.raises(ListenError, match="--trust-network") as refused:
        require_safe_host(Settings(host=host), has_token=False)

    assert "token create" in str(refused.value)
    require_safe_host(Settings(host=host, trust_network=True), has_token=False)


def test_a_network_is_served_once_there_is_a_token() -> None:
    """Then every call needs one."""
    require_safe_host(Settings(host="10.0.0.1"), has_token=True)


def test_clients_that_finish_nothing_keep_nobody_out(sqlite_databases: SqliteDatabases) -> None:
    """More half requests than the server may open files."""
    with server_process(sqlite_databases.create(migrated=True)) as server, ExitStack() as stack:
        where = urlsplit(server.address())
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (150, 150))
        for _ in range(200):
            client = socket.create_connection((where.hostname, where.port or 80), PATIENCE_S)
            stack.enter_context(client).sendall(b"GET /livez HTTP/1.1\r\nHos")
        answer = patient_get(f"{where.geturl()}/readyz")

    assert answer.status_code == 200


def test_slow_clients_do_not_hold_up_the_end(sqlite_databases: SqliteDatabases) -> None:
    """They are cut off quietly, whatever they were in the middle of."""
    head = b"POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    url = sqlite_databases.create(migrated=True)
    with TemporaryFile("w+") as log, server_process(url, stderr=log) as server, ExitStack() as stack:
        where = urlsplit(server.address())
        for sent in [head, head[:20]] * 20:
            client = socket.create_connection((where.hostname, where.port or 80), PATIENCE_S)
            stack.enter_context(client).sendall(sent)
        assert patient_get(f"{where.geturl()}/livez").status_code == 200
        code = server.stop()
        log.seek(0)
        told = log.read()

    assert code == 0
    assert "Traceback" not in told
    assert "ERROR" not in told

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleetridge_server import cli
from fleetridge_server.db.database import open_database
from support.evaluations import Fleet, a_fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.both_databases


@pytest.fixture
def stored(database_url: str) -> Iterator[Fleet]:
    """A fleet of eight with one slow gpu, whose reports are of November 2026."""
    fleet = Fleet(open_database(database_url))
    made_up = [own | {"gpu": own["gpu"] | {"uuid": f"S-{own['gpu']['uuid']}"}} for own in a_fleet(gpus=4)]
    fleet.store(
        [*a_fleet({"GPU-2": 0.12}), *(own | {"node": {"cluster": "simulated", "name": "n"}} for own in made_up)]
    )
    yield fleet
    fleet.database.close()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["evaluate", *arguments])
    out, err = capsys.readouterr()
    return code, out.strip(), err.strip()


def test_a_past_is_judged_and_told_in_a_line(
    stored: Fleet, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each device; made-up gpus by themselves."""
    code, out, _ = run(capsys, "--database-url", database_url, "--as-of", "2026-11-24T18:00:00Z")

    assert code == 0
    assert out.splitlines() == [
        "H200: as of 2026-11-24 18:00:00 UTC 1 outlier, 7 ok",
        "H200 (simulated): as of 2026-11-24 18:00:00 UTC 4 ok",
    ]
    assert stored.states() == {}
    assert {change.historical for change in stored.changes()} == {True}


def test_without_a_time_the_course_goes_on(
    stored: Fleet, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the server would do it by itself."""
    code, out, _ = run(capsys, "--database-url", database_url, "--device", "h200")

    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == ["H200", "H200 (simulated)"]
    assert len(stored.states()) == 12


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--device", "Voodoo 2"], "Voodoo 2"),
        (["--as-of", "yesterday"], "2026-11-20"),
        (["--as-of", "2999-01-01T00:00:00Z"], "leave --as-of out"),
        (["--as-of", "9999-12-31T23:59:59-12:00"], "leave --as-of out"),
        (["--as-of", "0001-01-01"], "from 1970 on"),
        (["--as-of", "0001-01-01T00:00:00+14:00"], "from 1970 on"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_remedy(
    database_url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], word: str
) -> None:
    """A device that there is not, a time that is none, is yet to come or is before all reports."""
    try:
        code = cli.main(["evaluate", "--database-url", database_url, *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))

    assert code == 2
    assert word in capsys.readouterr().err

"""
Whatever is sent to any route, the answer is one that the description tells of.

Requests are made by schemathesis from the description: those that fit it and those that do not, the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from support.app_client import AppClient, app_client
from support.databases import Databases, SqliteDatabases
from support.described_api import described, described_with_names, fill
from support.fleet import AS_TEXT

if TYPE_CHECKING:
    from schemathesis import Case

EXAMPLES = 12
DESCRIBED = described()
OPERATIONS = [
    pytest.param(method, path, id=f"{method} {path}")
    for path, own in DESCRIBED["paths"].items()
    for method, operation in own.items()
    if "parameters" in operation or "requestBody" in operation
]
METHODS = {"get", "post", "put", "patch", "delete", "options", "trace"}

# Whether these are taken depends on more than their form: a token of the next page is one that the server gave, a model
# is split over some numbers of gpus alone, no time lies before all reports, a document may have been dropped.
OPAQUE_PARAMETERS = {"after", "tp", "as_of"}
OPAQUE_ROUTES = {"/reports", "/reports/{report_id}", "/marks"}


def made_from(description: dict[str, Any]) -> Any:
    """Maker of requests; it is imported here, since that takes longer than to collect all tests of a folder."""
    import schemathesis  # noqa: PLC0415 # see above

    return schemathesis.openapi.from_dict(description, config=schemathesis.Config())


@pytest.fixture(scope="module")
def requests_of_strangers() -> Any:
    """Maker of requests to a server of which nothing is known."""
    return made_from(described())


@pytest.fixture(scope="module")
def requests_of_users() -> Any:
    """Maker of requests that name what `fill` makes."""
    return made_from(described_with_names())


@pytest.fixture(scope="module")
def empty_server(sqlite_databases: SqliteDatabases) -> Iterator[AppClient]:
    """A server without a report."""
    with app_client(sqlite_databases.create(migrated=True), calls_per_s=0) as client:
        yield client


@pytest.fixture(scope="module")
def filled_server(databases: Databases) -> Iterator[AppClient]:
    """A server with a fleet."""
    url = databases.create(migrated=True)
    with app_client(url, calls_per_s=0) as client:
        fill(client, url)
        yield client
    databases.drop(url)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_fits_the_description_is_answered_as_described(
    requests_of_users: Any, filled_server: AppClient, method: str, path: str
) -> None:
    """Statuses, media types, headers and every field; as text with the same status."""

    def examine(case: Case[Any]) -> None:
        answer = answer_to(filled_server, case)
        case.validate_response(answer, excluded_checks=beyond_form(case))
        if method == "get":
            assert answer_to(filled_server, case, **AS_TEXT).status_code == answer.status_code

    of_each(requests_of_users[path][method].as_strategy(), examine)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_server_that_knows_of_nothing_answers_as_described(
    requests_of_strangers: Any, empty_server: AppClient, method: str, path: str
) -> None:
    """Without a report, a device or a node."""

    def examine(case: Case[Any]) -> None:
        case.validate_response(answer_to(empty_server, case), excluded_checks=beyond_form(case))

    of_each(requests_of_strangers[path][method].as_strategy(), examine)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_does_not_fit_the_description_is_refused_as_described(
    requests_of_strangers: Any, empty_server: AppClient, method: str, path: str
) -> None:
    """Of a list of reports each by itself, in an answer 200."""
    from schemathesis import GenerationMode  # noqa: PLC0415 # see `made_from`
    from schemathesis.specs.openapi import checks  # noqa: PLC0415 # see `made_from`

    excluded: list[Any] = [checks.negative_data_rejection] if path == "/reports" else []

    def examine(case: Case[Any]) -> None:
        case.validate_response(answer_to(empty_server, case), excluded_checks=excluded)

    of_each(requests_of_strangers[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE), examine)


@pytest.mark.parametrize("path", DESCRIBED["paths"])
def test_other_methods_are_refused_and_told_which_ones_are_taken(empty_server: AppClient, path: str) -> None:
    """All that the address takes, whichever route of ours does."""
    described_ones = set(DESCRIBED["paths"][path])
    taken = described_ones | {"head"} if "get" in described_ones else described_ones

    for other in METHODS - described_ones:
        answer = empty_server.request(other, path.replace("{", "").replace("}", ""))

        assert answer.status_code == 405
        assert set(answer.headers["allow"].lower().split(", ")) == taken


def test_bytes_that_are_no_text_are_refused_as_no_json(empty_server: AppClient) -> None:
    """As a mark; reports are read in another way."""
    headers = {"Content-Type": "application/json"}

    answer = empty_server.post("/marks", content=b'{"kind": "\x95"}', headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (422, "not_json")


def answer_to(client: AppClient, case: Case[Any], **headers: str) -> Any:
    """What a server answers to a request, which is sent byte by byte as it was made."""
    made = requests.Request(**case.as_transport_kwargs(base_url="http://server")).prepare()
    sent = {**made.headers, **headers}
    return client.request(str(made.method), str(made.url), headers=list(sent.items()), content=made.body)


def of_each(strategy: st.SearchStrategy[Case[Any]], examine: Callable[[Case[Any]], None]) -> None:
    """Look at some requests, the same ones every time."""

    @settings(max_examples=EXAMPLES, derandomize=True, database=None)
    @given(case=strategy)
    def look(case: Case[Any]) -> None:
        examine(case)

    look()


def beyond_form(case: Case[Any]) -> list[Any]:
    """Checks that ask for more than the form of a request can tell."""
    from schemathesis.specs.openapi import checks  # noqa: PLC0415 # see `made_from`

    is_opaque = case.path in OPAQUE_ROUTES or OPAQUE_PARAMETERS & set(case.query or ())
    return [checks.positive_data_acceptance] if is_opaque else []

"""Node names folded as schedulers take them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.responses.node_list import folded, is_host

PREFIXES = st.sampled_from(["n", "gpu-a", "rack1-n", "x9.y", "", "n_"])
NUMBERS = st.one_of(
    st.integers(0, 120).map(str),
    st.tuples(st.integers(0, 120), st.integers(1, 4)).map(lambda pair: f"{pair[0]:0{pair[1]}}"),
    st.integers(10**8, 10**12).map(str),
)
HOSTS = st.lists(
    st.one_of(
        st.tuples(PREFIXES, NUMBERS).map("".join),
        st.tuples(PREFIXES, NUMBERS, st.sampled_from(["-ib", ".east", "a"])).map("".join),
        st.sampled_from(["login", "n", "a-b"]),
    ),
    max_size=40,
)


def expanded(hostlist: str) -> list[str]:
    """Names of a host list, as Slurm's manual describes its expansion."""
    names: list[str] = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?|\[[^\]]*\]", hostlist):
        prefix, bracket, inside = part.partition("[")
        if not bracket:
            names.append(prefix)
            continue
        for run in inside.rstrip("]").split(","):
            low, _, high = run.partition("-")
            names += [f"{prefix}{value:0{len(low)}}" for value in range(int(low), int(high or low) + 1)]
    return names


@given(HOSTS)
def test_what_is_folded_expands_to_the_same_names(hosts: list[str]) -> None:
    """Each once."""
    names = expanded(folded(hosts))

    assert sorted(names) == sorted(set(hosts))


@given(HOSTS)
def test_the_order_of_the_names_does_not_matter(hosts: list[str]) -> None:
    """The same nodes give the same list."""
    assert folded(hosts) == folded(list(reversed(hosts)))


@pytest.mark.parametrize(
    ("names", "hostlist"),
    [
        ([], ""),
        (["n1"], "n1"),
        (["n01", "n02", "n03", "n07"], "n[01-03,07]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n09", "n10"], "n[09-10]"),
        (["n9", "n09"], "n[9,09]"),
        (["n08", "n8", "n9", "n10"], "n[8-9,08,10]"),
        (["b1", "a1", "a2", "login"], "a[1-2],b1,login"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
        (["r1-n1", "r1-n2", "r2-n1"], "r1-n[1-2],r2-n1"),
    ],
)
def test_runs_are_folded_and_keep_their_digits(names: list[str], hostlist: str) -> None:
    """As people write them."""
    assert folded(names) == hostlist


@pytest.mark.parametrize("name", ["n[01-99]", "n1,n2", "-x", "n 1", "ノード", "n1\n", "n;reboot", "$(reboot)", ""])
def test_a_name_that_no_host_could_have_is_left_out(name: str) -> None:
    """It would exclude nodes that nobody meant, or run something in a shell."""
    assert not is_host(name)
    assert folded(["n1", name]) == "n1"

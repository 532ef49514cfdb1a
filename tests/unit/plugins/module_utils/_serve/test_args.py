# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of flags: who wins, what is refused by name, and which values a config file can carry."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._findings import Finding
from ansible_collections.modelops.vllm.plugins.module_utils._serve.args import (
    FIXED,
    NOT_BUILT,
    TUNABLE,
    Layout,
    check_value,
    layout_flags,
    merge,
)

MANAGED: dict[str, t.Any] = {"model": "/m", "port": 8000, "max-num-seqs": 8}


def layout(**changes: t.Any) -> Layout:
    return t.cast(Layout, {"tp": 1, "pp": 1, "dp": 1, "ep": False, "replicas": 1} | changes)


def ids(findings: list[Finding]) -> list[str]:
    return [f.id for f in findings]


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        (layout(tp=8, ep=True), {"tensor-parallel-size": 8, "enable-expert-parallel": True}),
        (
            layout(tp=4, dp=2, ep=True),
            {"tensor-parallel-size": 4, "data-parallel-size": 2, "enable-expert-parallel": True},
        ),
        (layout(tp=8, pp=2), {"tensor-parallel-size": 8, "pipeline-parallel-size": 2}),
        (layout(), {"tensor-parallel-size": 1}),
    ],
)
def test_a_layout_becomes_the_flags_of_one_engine(given: Layout, flags: dict[str, t.Any]) -> None:
    assert layout_flags(given) == flags


def test_each_replica_has_the_flags_of_one_engine() -> None:
    assert layout_flags(layout(tp=4, replicas=2)) == {"tensor-parallel-size": 4}


def test_the_user_wins_over_the_profile_and_null_takes_a_flag_away() -> None:
    flags, findings = merge(MANAGED, {"seed": 1, "dtype": "auto", "swap": 1}, {"seed": 2, "swap": None})
    assert findings == []
    assert flags == MANAGED | {"seed": 2, "dtype": "auto"}


def test_a_tunable_of_a_profile_gives_way_to_the_variable_and_stays_without_it() -> None:
    assert merge(MANAGED, {"max-num-seqs": 64}, {})[0]["max-num-seqs"] == 8
    assert merge({}, {"max-num-seqs": 64}, {})[0]["max-num-seqs"] == 64


@pytest.mark.parametrize("name", [*FIXED, *TUNABLE])
def test_a_managed_flag_of_the_user_is_refused_with_the_variable_to_set(name: str) -> None:
    flags, findings = merge({}, {}, {name: "x"})
    assert flags == {}
    assert ids(findings) == ["flag-managed"]
    assert name in findings[0].message
    assert (FIXED | TUNABLE)[name] in findings[0].remedy


@pytest.mark.parametrize("name", NOT_BUILT)
def test_a_flag_that_the_role_cannot_prove_is_refused(name: str) -> None:
    assert ids(merge({}, {name: True}, {})[1]) == ["flag-not-built"]


@pytest.mark.case("D04")
@pytest.mark.parametrize("name", ["data-parallel-backend", "--data_parallel_backend"])
def test_a_backend_is_refused_unless_it_is_the_one_that_is_built(name: str) -> None:
    for layers in (({name: "ray"}, {}), ({}, {name: "ray"})):
        flags, findings = merge({}, *layers)
        assert (flags, ids(findings)) == ({}, ["flag-not-built"])
        assert "data-parallel-backend 'ray'" in findings[0].message
    assert merge({}, {}, {name: "mp"}) == ({"data-parallel-backend": "mp"}, [])
    assert merge({}, {name: "mp"}, {name: None}) == ({}, [])


@pytest.mark.parametrize("name", ["--max_num_batched_tokens", "max_num_batched_tokens", "--max-num-batched-tokens"])
def test_names_are_read_with_dashes_and_underscores(name: str) -> None:
    assert merge({}, {}, {name: 5}) == ({"max-num-batched-tokens": 5}, [])


def test_dotted_names_become_one_mapping() -> None:
    dotted = {"speculative-config.method": "mtp", "speculative-config.draft.n": 1}
    assert merge({}, {}, dotted) == ({"speculative-config": {"method": "mtp", "draft": {"n": 1}}}, [])


def test_the_same_flag_in_two_spellings_is_an_error() -> None:
    assert ids(merge({}, {}, {"seed-x": 1, "seed_x": 2})[1]) == ["flag-twice"]
    assert ids(merge({}, {}, {"a-config": 3, "a-config.b": 2})[1]) == ["flag-twice"]


@pytest.mark.parametrize("name", ["", "--", "Max Len", "a;b", "x..y"])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert ids(merge({}, {}, {name: 1})[1]) == ["flag-name"]


@pytest.mark.parametrize(
    "value",
    [0.92, -1, "-1", "-0.5", True, "", "a b", "100% $x \"q\" 'q' \\", ["a", 3], [{"name": "l"}], {"a": {"b": [1]}}],
)
def test_values_that_the_file_carries(value: object) -> None:
    assert check_value("some-flag", value) == []


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        ("-O3", "flag-value"),  # would be read as the next flag
        ("--x", "flag-value"),
        ("a\nb", "flag-value"),
        ("a\u2028b", "flag-value"),
        ([], "flag-empty-list"),
        ([True], "flag-value"),
        (None, "flag-value"),
        (float("nan"), "flag-value"),
        ({"a": float("inf")}, "flag-value"),
        ({"a": {1, 2}}, "flag-value"),
    ],
)
def test_values_that_would_arrive_as_something_else_are_refused(value: object, id_: str) -> None:
    assert ids(check_value("some-flag", value)) == [id_]


@pytest.mark.case("A26")
@pytest.mark.parametrize("value", [3, "3", "abc", True])
def test_a_bare_scalar_as_compilation_config_is_refused(value: object) -> None:
    assert ids(check_value("compilation-config", value)) == ["flag-bare-scalar"]


@pytest.mark.parametrize("value", [{"mode": 3}, '{"mode": 3}'])
def test_an_object_as_compilation_config_is_taken(value: object) -> None:
    assert check_value("compilation-config", value) == []

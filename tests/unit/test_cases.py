# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every published case that this collection answers to has a test that carries its id."""

from __future__ import annotations

import ast
import csv
import typing as t
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def case_ids(path: Path) -> set[str]:
    """The ids that a test file names, in ``pytest.mark.case(...)`` and as ids of parameters."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "case":
            found |= set(_texts(node.args))
        if node.func.attr in ("param", "parametrize"):
            for keyword in node.keywords:
                if keyword.arg in ("id", "ids"):
                    found |= set(_texts(ast.walk(keyword.value)))
                if keyword.arg == "marks":
                    found |= set(_texts(ast.walk(keyword.value)))
    return found


def _texts(nodes: t.Iterable[ast.AST]) -> t.Iterator[str]:
    return (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def published() -> list[str]:
    """The ids of the table."""
    with (TESTS / "cases.csv").open() as f:
        return [row["id"] for row in csv.DictReader(f)]


@pytest.fixture(scope="module")
def tested() -> set[str]:
    """All ids that tests carry; what follows a hyphen tells several tests of one case apart."""
    found = set().union(*(case_ids(p) for p in TESTS.rglob("test_*.py")))
    return found | {id_.partition("-")[0] for id_ in found}


@pytest.mark.parametrize("id_", published())
def test_a_published_case_has_a_test(id_: str, tested: set[str]) -> None:
    assert id_ in tested


def test_an_id_is_not_found_in_any_other_text(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text(
        '"""A01"""\nimport pytest\nx = "A02"\n@pytest.mark.case("A03", "A04")\n'
        '@pytest.mark.parametrize("v", [pytest.param("A05", id="A06")])\ndef test_a(v): assert v\n'
    )
    assert case_ids(path) == {"A03", "A04", "A06"}

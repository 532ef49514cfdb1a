# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan against what the engine logs: MiniMax-M2.5 FP8 on four RTX PRO 6000."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._serve.deviation import TOLERANCES, compare

PLAN = {"weights_gib": 53.72, "kv_tokens": 434000, "max_concurrency": 2.2, "max_model_len": 196608}
REAL = {"weights_gib": 53.75, "kv_tokens": 399616, "max_concurrency": 2.03, "max_model_len": 196608}


def ids(plan: t.Mapping[str, t.Any], real: t.Mapping[str, t.Any]) -> list[str]:
    return [finding.id for finding in compare(plan, real)]


def test_a_log_that_was_seen_is_within_the_tolerances() -> None:
    assert ids(PLAN, REAL) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"weights_gib": 107.4}, ["plan-weights-differ"]),
        ({"weights_gib": 31.2}, ["plan-weights-differ"]),
        ({"weights_gib": 56.3}, []),
        ({"weights_gib": 56.5}, ["plan-weights-differ"]),
        ({"kv_tokens": 390000}, ["plan-kv-tokens-differ"]),
        ({"kv_tokens": 690000}, []),
        ({"kv_tokens": 700000}, ["plan-kv-tokens-differ"]),
        ({"max_concurrency": 1.0}, ["plan-concurrency-differs"]),
        # the one follows the other
        ({"kv_tokens": 200000, "max_concurrency": 1.0}, ["plan-kv-tokens-differ"]),
        ({"max_model_len": 131072}, ["plan-max-model-len-differs"]),
        ({"weights_gib": 70.0, "kv_tokens": 100}, ["plan-weights-differ", "plan-kv-tokens-differ"]),
    ],
)
def test_what_is_far_from_the_plan_is_a_warning(change: dict[str, t.Any], expected: list[str]) -> None:
    assert ids(PLAN, {**REAL, **change}) == expected


def test_a_finding_has_its_numbers() -> None:
    (finding,) = compare(PLAN, {**REAL, "kv_tokens": 217000})
    assert finding.severity == "warning"
    assert dict(finding.numbers) == {"planned": 434000, "real": 217000, "share": 0.5}
    assert finding.message == (
        "Tokens that the KV cache of one engine holds: 217,000 tokens, and 434,000 tokens were planned."
    )
    assert "kv-cache-dtype" in finding.remedy


@pytest.mark.parametrize("plan", [{}, {"weights_gib": None, "kv_tokens": 0}])
def test_what_was_not_planned_or_not_logged_is_not_compared(plan: dict[str, t.Any]) -> None:
    assert ids(plan, REAL) == []
    assert ids(PLAN, {"vllm_version": "0.32.0"}) == []


def test_numbers_may_be_texts() -> None:
    texts = {name: str(value) for name, value in PLAN.items()}
    assert ids(texts, REAL) == []
    assert compare(texts, {**REAL, "weights_gib": 107.4}) == compare(PLAN, {**REAL, "weights_gib": 107.4})
    assert ids({"weights_gib": "None", "kv_tokens": "", "max_concurrency": "many"}, REAL) == []


def test_every_figure_has_one_tolerance() -> None:
    assert len({rule.figure for rule in TOLERANCES}) == len({rule.id for rule in TOLERANCES}) == len(TOLERANCES)

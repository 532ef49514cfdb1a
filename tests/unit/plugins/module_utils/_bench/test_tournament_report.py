# Copyright: (c) 2026, The modelops.vllm contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report on a tournament."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.modelops.vllm.plugins.module_utils._bench import markdown, page, tournament, tournament_report
from ansible_collections.modelops.vllm.plugins.module_utils._bench.candidates import Candidate, Excluded
from ansible_collections.modelops.vllm.plugins.module_utils._bench.document import Bars, Charts

from tests.support.tournaments import P2P, TP4, TP8, begun, played, session

RATES = {"tp4": [600.0], "tp8-ep": [1000.0, 1010.0, 1020.0], P2P.id: [1100.0, 1110.0, 1120.0], "tp2": []}
REPLICAS = Excluded("tp4-r2", "several replicas: one engine is measured, replicas add up behind a router")


def ended() -> tournament.State:
    return played(begun(TP4, TP8, P2P, Candidate("tp2", gpus=2), excluded=[REPLICAS]), RATES)


def in_markdown(state: tournament.State) -> str:
    return markdown.render(tournament_report.document(state)).replace("\\", "")


def test_every_candidate_is_there_with_its_score_and_why() -> None:
    text = in_markdown(ended())
    assert text.startswith("# Tournament of minimax-m2.5\n")
    assert f"**{P2P.id} wins of 4 candidates by throughput: 1,110 tok/s.**" in text
    rows = [line for line in text.splitlines() if line.startswith("| tp")][:4]
    assert [row.split(" | ")[0] for row in rows] == [f"| {name}" for name in (P2P.id, "tp8-ep", "tp4", "tp2")]
    assert rows[0].split(" | ")[1:6] == ["8", "1,110 (1,100 to 1,120)", "c8-i512-o128-n80", "3", "winner"]
    assert rows[3].split(" | ")[1:6] == ["2", "-", "-", "0", "failed"]
    assert 'Did not become ready: engine-died. The log says "L.". R.' in rows[3]
    assert "| tp4-r2 | several replicas" in text
    assert "Layouts with several replicas were not tried" in text
    assert "| vllm | 0.32.0 |" in text


def test_the_winner_is_said_as_variables_of_the_role() -> None:
    assert '    serve_layout: "tp8-ep"\n    serve_env: {"NCCL_P2P_DISABLE": "1"}\n' in in_markdown(ended())
    candidate = Candidate("tp4", {"kv-cache-dtype": "fp8", "seed": 1}, gpus=4)
    state = played(begun(candidate), {candidate.id: [100.0]})
    assert '    serve_layout: "tp4"\n    serve_kv_cache_dtype: "fp8"\n    serve_args: {"seed": 1}\n' in in_markdown(
        state
    )
    assert "**tp4 kv-cache-dtype=fp8 seed=1 is the only candidate, by throughput: 100 tok/s.**" in in_markdown(state)


def test_scores_and_curves_of_all_measured_candidates_are_drawn() -> None:
    document = tournament_report.document(ended())
    (charts,) = [section.body for section in document.sections if isinstance(section.body, Charts)]
    first, *others = charts.charts
    assert isinstance(first, Bars)
    assert [(column.label, column.value, column.mark) for column in first.bars] == [
        (P2P.id, 1110.0, "better"),
        ("tp8-ep", 1010.0, "same"),
        ("tp4", 600.0, "same"),
    ]
    pareto = next(chart for chart in others if chart.id == "pareto")
    assert not isinstance(pareto, Bars)
    assert [curve.label for curve in pareto.curves] == ["tp4", "tp8-ep", P2P.id]
    assert "<svg" in page.render(document)


def test_before_the_end_nobody_has_won() -> None:
    state = begun()
    tournament.add_session(state, "tp4", session("a", 1000.0))
    assert tournament_report.verdict(state) == "open"
    text = in_markdown(state)
    assert "The tournament is not over: 1 measurements are left in this round." in text
    assert "To keep the winner" not in text


def test_without_a_winner_it_says_so() -> None:
    state = played(begun(), {"tp4": [], "tp8-ep": []})
    assert tournament_report.verdict(state) == "no_winner"
    assert (
        "No candidate could be deployed and measured. Mend what is named, and name in tournament_retry"
        in in_markdown(state)
    )
    assert "Diagrams" not in [section.title for section in tournament_report.document(state).sections]


@pytest.mark.parametrize(
    ("rules", "lacks"),
    [
        ({"bounds": {"ttft_ms": 10.0}}, "throughput within the bounds (median ttft_ms up to 10)"),
        ({"objective": "tokens_per_joule"}, "output of a joule"),
    ],
)
def test_without_a_point_that_counts_it_says_that_they_were_measured(rules: dict[str, t.Any], lacks: str) -> None:
    state = played(begun(**rules), {"tp4": [900.0], "tp8-ep": [1000.0]})
    assert tournament_report.verdict(state) == "no_winner"
    assert tournament_report.headline(state) == (
        f"None of the 2 candidates that were measured has a point that counts for {lacks}. What each lacks is named: "
        "loosen tournament_bounds, or choose another tournament_objective."
    )


def test_the_text_for_a_terminal_has_the_order_the_reasons_and_what_to_keep() -> None:
    lines = tournament_report.text_table(ended()).splitlines()
    assert lines[0] == f"Tournament of minimax-m2.5: {P2P.id} wins of 4 candidates by throughput: 1,110 tok/s."
    assert lines[2].split() == ["tp8-ep", "NCCL_P2P_DISABLE=1", "8", "1,110", "3", "winner"]
    assert f"{P2P.id}: The best, by the median of 3 starts." in lines
    assert lines[-3:] == [
        "To keep the winner, add to the inventory:",
        'serve_layout: "tp8-ep"',
        'serve_env: {"NCCL_P2P_DISABLE": "1"}',
    ]
